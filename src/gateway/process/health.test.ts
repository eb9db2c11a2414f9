import { expect, it } from 'vitest';
import { type HealthCheck, report } from './health.ts';

it('a warning is shown and fails nothing', () => {
  const checks = new Map<string, HealthCheck>([
    ['redis', () => undefined],
    ['redis-server', () => ({ warning: 'no data on disk' })],
  ]);
  expect(report(checks)).toEqual({
    healthy: true,
    lines: ['[+]redis ok', '[+]redis-server warning: no data on disk'],
  });
});
