import { expect, it } from 'vitest';
import { VirtualClock } from '../../../../test/harness/test-clock.ts';
import type { Informer } from '../../informer/cache/informer.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import type { QueueLevels } from '../../controller/workqueue/work-queue.ts';
import { PrometheusMetrics } from '../../process/metrics.ts';
import { renderMetrics, Scrapes } from './scrape.ts';

it.each([
  { tookMs: 4, restMs: 996 },
  { tookMs: 1270, restMs: 1270 },
])(
  'fifty clients that ask all the time share renderings of $tookMs ms with $restMs ms between, and none gets one that began before it asked',
  async ({ tookMs, restMs }) => {
    let nowMs = 0;
    const sleeps: number[] = [];
    const clock = {
      now: () => nowMs,
      sleep: async (ms: number) => {
        sleeps.push(ms);
        // All clients that are about to ask have asked.
        await new Promise(setImmediate);
        nowMs += ms;
      },
    };
    let rendered = 0;
    let rendering = 0;
    const scrapes = new Scrapes(async () => {
      rendering += 1;
      expect(rendering).toBe(1);
      const text = String((rendered += 1));
      await new Promise(setImmediate);
      nowMs += tookMs;
      rendering -= 1;
      return text;
    }, clock);
    let answers = 0;
    const clients = Array.from({ length: 50 }, async () => {
      for (let at = 0; at < 5; at += 1) {
        const before = rendered;
        expect(Number(await scrapes.text())).toBeGreaterThan(before);
        answers += 1;
      }
    });
    await Promise.all(clients);
    expect(answers).toBe(250);
    expect(rendered).toBe(5);
    expect(sleeps).toEqual(Array.from({ length: 4 }, () => restMs));
  },
);

it('a rendering that fails is told to its clients, and the next client gets another', async () => {
  let count = 0;
  const clock = { now: () => 0, sleep: async () => {} };
  const scrapes = new Scrapes(async () => {
    if ((count += 1) === 1) throw new Error('no metrics');
    return 'fine';
  }, clock);
  const both = await Promise.allSettled([scrapes.text(), scrapes.text()]);
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(await scrapes.text()).toBe('fine');
  expect(count).toBe(2);
});

/** What a gateway reads from Redis at a scrape, and whether it does. */
const ABOUT_REDIS: readonly string[] = [
  'controller_runtime_active_workers',
  'levelhook_controller_state',
  'levelhook_outbox_oldest_seconds',
  'levelhook_queue_demand',
  'levelhook_queue_oldest_due_seconds',
  'levelhook_queue_oldest_failing_seconds',
  'levelhook_redis_read',
  'workqueue_depth',
];

it.each(['away', 'silent'] as const)(
  'while Redis is %s, what is in it has no series, however well it was: levelhook_redis_read says so, and scalers keep the last demand',
  async (outage) => {
    const clock = new VirtualClock();
    let state: 'there' | 'away' | 'silent' = 'there';
    let oldest: Partial<QueueLevels> = { oldestDueMs: 0 };
    const answered = <T>(value: T): Promise<T> =>
      state === 'there' ? Promise.resolve(value) : new Promise<never>(() => {});
    const controller = {
      name: 'web',
      queue: {
        gate: { closed: false },
        inspector: {
          levels: () =>
            answered({
              pauses: [],
              sizes: { queued: 0, running: 0, failing: 0, dead: 0 },
              low: 0,
              demand: 3,
              ...oldest,
            }),
        },
        unfinished: () => ({ totalMs: 0, longestMs: 0 }),
      },
      sources: { refusal: undefined },
      failures: { remarks: undefined },
    } as unknown as RunningController;
    const metrics = new PrometheusMetrics();
    const scrape = async (): Promise<Record<string, number>> => {
      const parts = {
        controllers: { known: () => new Map([['web', controller]]), get: () => controller, waitsFor: () => undefined },
        informers: { all: () => [] },
        progress: { outboxMs: new Map([['v1/ConfigMap', 0]]), stalled: () => undefined },
        recovery: { healthy: state !== 'away' },
      };
      const text = renderMetrics(metrics, parts, clock);
      if (state === 'silent') clock.step(clock.now() + 2000);
      const series = (await text).matchAll(/^(\w+)(?:\{.*\})? (\d+)$/gm);
      return Object.fromEntries(
        [...series].flatMap(([, name = '', value]) => (ABOUT_REDIS.includes(name) ? [[name, Number(value)]] : [])),
      ) as Record<string, number>;
    };
    const known = {
      controller_runtime_active_workers: 0,
      levelhook_controller_state: 1,
      levelhook_outbox_oldest_seconds: 0,
      levelhook_queue_demand: 3,
      levelhook_queue_oldest_due_seconds: 0,
      levelhook_queue_oldest_failing_seconds: 0,
      levelhook_redis_read: 1,
      workqueue_depth: 0,
    };
    expect(await scrape()).toEqual(known);
    state = outage;
    expect(await scrape()).toEqual({ levelhook_queue_demand: 3, levelhook_redis_read: 0 });
    state = 'there';
    oldest = { oldestDueMs: 60_000, oldestFailingMs: 1_801_000 };
    const ages = { levelhook_queue_oldest_due_seconds: 60, levelhook_queue_oldest_failing_seconds: 1801 };
    expect(await scrape()).toEqual({ ...known, ...ages });
  },
);

it('the age of a view has a series in each gateway, also while no gateway leads', async () => {
  const metrics = new PrometheusMetrics();
  const record = { progress: async () => ({ version: '7' }) };
  const resource = { group: '', version: 'v1', plural: 'pods' };
  const informer = { name: 'v1/Pod', isTaken: false, view: { name: 'v1/Pod', resource, record } };
  const parts = {
    controllers: { known: () => new Map(), get: () => undefined, waitsFor: () => undefined },
    informers: { all: () => [{ ...informer, ageMs: async () => 7_200_000 } as unknown as Informer] },
    progress: { outboxMs: new Map(), stalled: () => undefined },
    recovery: { healthy: true },
  };
  const text = await renderMetrics(metrics, parts, new VirtualClock());
  expect(text).toContain('\nlevelhook_view_behind_seconds{resource="v1/Pod"} 7200\n');
  expect(text).not.toContain('\ninformer_store_resource_version{');
});

it.each([
  ['has not started', undefined, 1],
  ['has no controllers, and has not found Redis in order', { healthy: false, suspended: [] }, 1],
  ['has no controllers', { healthy: true, suspended: [] }, 0],
  ['has lost Redis', { healthy: false, suspended: [true, true] }, 1],
  ['goes on while a check of Redis fails', { healthy: false, suspended: [false, false] }, 0],
  ['repairs one of two controllers', { healthy: true, suspended: [true, false] }, 0],
  ['repairs each controller', { healthy: true, suspended: [true, true] }, 1],
])('a gateway that %s: %j is suspended: %i', async (_, state, expected) => {
  const controllers = (state?.suspended ?? []).map((suspended, at): [string, RunningController] => {
    const levels = async () => ({
      pauses: [],
      sizes: { queued: 0, running: 0, failing: 0, dead: 0 },
      low: 0,
      demand: 0,
    });
    const queue = {
      gate: { closed: suspended },
      inspector: { levels },
      unfinished: () => ({ totalMs: 0, longestMs: 0 }),
    };
    return [`web-${at}`, { queue, sources: {}, failures: {} } as unknown as RunningController];
  });
  const parts = state && {
    controllers: {
      known: () => new Map(controllers),
      get: (name: string) => new Map(controllers).get(name),
      waitsFor: () => undefined,
    },
    informers: { all: () => [] },
    progress: { outboxMs: new Map(), stalled: () => undefined },
    recovery: { healthy: state.healthy },
  };
  const text = await renderMetrics(new PrometheusMetrics(), parts, new VirtualClock());
  expect(text).toContain(`\nlevelhook_gateway_suspended ${expected}\n`);
});
