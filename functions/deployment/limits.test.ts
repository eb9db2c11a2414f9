import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { limitsOf } from './limits.ts';
import { webDeployment } from './testing.ts';

const limits = (replicas: number, maxSurge: number | string, maxUnavailable: number | string) =>
  limitsOf(
    webDeployment({ replicas, strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge, maxUnavailable } } }),
  );

describe('limitsOf', () => {
  it.each([
    [10, '25%', '25%', 3, 2],
    [10, 3, 2, 3, 2],
    [1, '25%', '25%', 1, 0],
    [2, 0, '1%', 0, 1],
    [1, 0, '1%', 0, 1],
    [2, '1%', '25%', 1, 0],
    [3, 0, 5, 0, 3],
    [3, '100%', '100%', 3, 3],
    [0, '25%', '25%', 0, 0],
    [0, 2, 2, 2, 0],
  ])('of %i with surge %s and unavailable %s: %i and %i', (replicas, surge, unavailable, maxSurge, maxUnavailable) => {
    expect(limits(replicas, surge, unavailable)).toEqual({ maxSurge, maxUnavailable });
  });

  it('of Recreate are none', () => {
    expect(limitsOf(webDeployment({ replicas: 10, strategy: { type: 'Recreate' } }))).toEqual({
      maxSurge: 0,
      maxUnavailable: 0,
    });
  });

  it('always leave room for a step', () => {
    const value = fc.oneof(
      fc.nat(200),
      fc.nat(100).map((percent) => `${percent}%`),
    );
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1000 }), value, value, (replicas, surge, unavailable) => {
        const { maxSurge, maxUnavailable } = limits(replicas, surge, unavailable);
        expect(maxSurge + maxUnavailable).toBeGreaterThan(0);
        expect(maxUnavailable).toBeLessThanOrEqual(replicas);
      }),
    );
  });
});
