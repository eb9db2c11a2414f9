import { expect, it } from 'vitest';
import { report } from '../../process/health.ts';
import { gatewayChecks, type ServedParts, unavailableReason } from './gateway-server.ts';

it('a gateway is ready, with a warning, while no gateway leads by the Lease that has expired', () => {
  const election = { notReady: () => undefined, warning: 'no gateway has renewed the Lease a/b for 60 s' };
  const leader = gatewayChecks(() => ({ election }) as unknown as ServedParts).get('leader') ?? (() => 'no check');
  expect(report(new Map([['leader', leader]]))).toEqual({
    healthy: true,
    lines: ['[+]leader warning: no gateway has renewed the Lease a/b for 60 s'],
  });
});

it('queues and views that cannot be asked have one reason, whatever it is', () => {
  const made = (reason: string | undefined) => ({ manager: { recovery: { notReady: () => reason } } });
  expect(unavailableReason(undefined, undefined)).toBe('The gateway is starting');
  expect(unavailableReason(undefined, 'no apiserver')).toBe('The gateway is starting: no apiserver');
  expect(unavailableReason(made('it is full'), undefined)).toBe('Redis cannot be asked: it is full');
  expect(unavailableReason(made(undefined), undefined)).toBeUndefined();
});
