import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { FaultWorld, type WorldGateway } from '../harness/fault-world.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { Started } from '../harness/started.ts';

const DRAIN_SECONDS = 3;
/** The chart's terminationGracePeriodSeconds for this time to drain, after which kubelet kills the gateway. */
const GRACE_MS = (DRAIN_SECONDS + 15) * 1000;
const LEASE_SECONDS = 4;

/** How Redis and apiserver go away, for the proxies of the gateway alone. */
const CUTS: readonly (readonly [how: string, cut: (gateway: WorldGateway) => Promise<void>])[] = [
  [
    'refuse connections',
    async ({ proxies }) => {
      await Promise.all([proxies?.toRedis.stop(), proxies?.toApiserver.stop()]);
    },
  ],
  [
    'answer nothing on open and on new connections',
    async ({ proxies }) => {
      proxies?.toRedis.silence();
      proxies?.toApiserver.silence();
    },
  ],
];
const MOMENTS = [
  ['during runs', 0],
  ['after its Lease has ended', 2000 * LEASE_SECONDS],
] as const;
const ROWS = CUTS.flatMap(([how, cut]) => MOMENTS.map(([when, waitMs]) => ({ how, cut, when, waitMs })));

describe('a gateway whose Redis and apiserver', () => {
  const started = new Started();
  let world: FaultWorld;

  beforeAll(async () => {
    world = await FaultWorld.start(started, 'stop-while-cut-off', {
      kubeconfig: inject('kubeconfig'),
      redisUrl: inject('redisUrl'),
      proxies: true,
      objects: 50,
      observer: { delayMs: 1000, timeoutSeconds: 5 },
      variables: {
        LEVELHOOK_DRAIN_SECONDS: String(DRAIN_SECONDS),
        LEVELHOOK_LEASE: `default/${uniqueName('cut-off')}`,
        LEVELHOOK_LEASE_SECONDS: String(LEASE_SECONDS),
        LEVELHOOK_LEASE_RENEW_SECONDS: '3',
        LEVELHOOK_LEASE_RETRY_SECONDS: '1',
      },
    });
  });

  afterAll(() => started.stop());

  it.each(ROWS)('$how ends with code 0 within its grace period at SIGTERM $when', async ({ cut, waitMs }) => {
    const { gateway } = world;
    await world.underChanges(async () => {
      await sleep(1000);
      await cut(gateway);
      await sleep(waitMs);
      const fromMs = performance.now();
      const code = await gateway.process.kill('SIGTERM');
      const tookMs = performance.now() - fromMs;
      await world.replace(gateway);
      expect(code).toBe(0);
      expect(tookMs).toBeLessThan(GRACE_MS);
    });
    await world.untilAllIsWell();
  });
});
