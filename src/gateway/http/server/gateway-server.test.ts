import { expect, it } from 'vitest';
import { report } from '../../process/health.ts';
import { gatewayChecks, type ServedParts } from './gateway-server.ts';

it('a gateway is ready, with a warning, while no gateway leads by the Lease that has expired', () => {
  const election = { notReady: () => undefined, warning: 'no gateway has renewed the Lease a/b for 60 s' };
  const leader = gatewayChecks(() => ({ election }) as unknown as ServedParts).get('leader') ?? (() => 'no check');
  expect(report(new Map([['leader', leader]]))).toEqual({
    healthy: true,
    lines: ['[+]leader warning: no gateway has renewed the Lease a/b for 60 s'],
  });
});
