import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { silentLogger, silentMetrics, systemClock } from '../../../src/core/index.ts';
import type { Write } from '../../../src/contract/index.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
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

const barriersOf = (view: View, currentVersion: () => Promise<string>, isLeftOut = false): RunBarriers =>
  new RunBarriers({
    controller: 'c',
    views: [{ view, currentVersion, requestProgress: () => {} }],
    budget: { run: (work) => work(), inTurn: async (work) => work(), charge: () => () => {} },
    isLeftOut: () => isLeftOut,
    admitLine: () => ({}),
    runtime: { clock: systemClock, logger: silentLogger, metrics: silentMetrics },
  });

it('runs whose writes are unknown share the questions to the apiserver, which are asked after the runs', async () => {
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  await applierOf(view).apply(listOf('10', []));
  const questions: ((version: string) => void)[] = [];
  const barriers = barriersOf(view, () => new Promise((resolve) => questions.push(resolve)));
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

describe('a barrier of writes', () => {
  const deleted = (name: string, uid = 'u'): Write => {
    return { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'a', name, uid, deleted: true };
  };
  const names = (count: number): Write[] => Array.from({ length: count }, (_, at) => deleted(`n${at}`, `uid-${at}`));

  it.each([
    ['few deleted objects', names(10), 'n9'],
    ['many deleted objects', names(200), '"version":"70"'],
    ['an object with a long name, in bytes of UTF-8', [deleted('名'.repeat(700))], '"version":"70"'],
  ])('takes 2 KiB at most: %s', async (_, writes, part) => {
    const barrier = (await barriersOf(createView(redis, configMaps), async () => '70').afterWrites(writes)) ?? '';
    expect(barrier).toContain(part);
    expect(Buffer.byteLength(barrier)).toBeLessThanOrEqual(2048);
  });

  it('is 32 KiB at most: without the version of the server a run with more is lost', async () => {
    const away = async (): Promise<never> => Promise.reject(new Error('no apiserver'));
    const barriers = barriersOf(createView(redis, configMaps), away);
    expect(await barriers.afterWrites(names(10))).toContain('n9');
    expect(await barriers.afterWrites(names(200))).toContain('n199');
    await expect(barriers.afterWrites(names(2000))).rejects.toThrow('no apiserver');
  });

  it('is half a KiB at most while Redis has no memory for more of the keys', async () => {
    const view = createView(redis, configMaps);
    const away = async (): Promise<never> => Promise.reject(new Error('no apiserver'));
    expect(await barriersOf(view, away, true).afterWrites(names(1))).toContain('n0');
    await expect(barriersOf(view, away, true).afterWrites(names(30))).rejects.toThrow('no apiserver');
    const barrier = (await barriersOf(view, async () => '70', true).afterWrites(names(30))) ?? '';
    expect(barrier).toContain('"version":"70"');
    expect(Buffer.byteLength(barrier)).toBeLessThanOrEqual(512);
  });
});
