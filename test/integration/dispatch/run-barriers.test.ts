import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { silentLogger, silentMetrics, systemClock } from '../../../src/core/index.ts';
import { RunBarriers } from '../../../src/gateway/controller/dispatch/run-barriers.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { configMaps } from '../../harness/cluster.ts';
import { createView } from '../../harness/views.ts';

let redis: Redis;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
});
afterAll(() => redis.disconnect());

it('runs whose writes are unknown share the questions to the apiserver, which are asked after the runs', async () => {
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  await applierOf(view).apply(listOf('10', []));
  const questions: ((version: string) => void)[] = [];
  const barriers = new RunBarriers({
    controller: 'c',
    views: [
      {
        view,
        currentVersion: () => new Promise((resolve) => questions.push(resolve)),
        requestProgress: () => {},
      },
    ],
    budget: { run: (work) => work(), inTurn: async (work) => work() },
    runtime: { clock: systemClock, logger: silentLogger, metrics: silentMetrics },
  });
  const first = barriers.ofNow();
  await expect.poll(() => questions.length).toBe(1);
  // Their writes may be later than the version that is on its way.
  const later = Array.from({ length: 500 }, () => barriers.ofNow());
  questions[0]?.('20');
  expect(await first).toContain('20');
  await expect.poll(() => questions.length).toBe(2);
  questions[1]?.('30');
  const found = await Promise.all(later);
  expect(new Set(found).size).toBe(1);
  expect(found[0]).toContain('30');
  expect(questions).toHaveLength(2);
});
