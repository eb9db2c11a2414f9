import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { CheckpointName } from '../../src/core/index.ts';
import {
  histories,
  type History,
  historyOfOneChange,
  historiesOfRestores,
  historyOfRaces,
  historyOfThrottledRestore,
  historyOfOneVersionTwice,
  historyOfTwoRestores,
  historyThrough,
  POINTS,
} from './cache-history/history.ts';
import { mutations } from './cache-history/mutations.ts';
import type { MakeView } from './cache-history/gateway-under-test.ts';
import { type RunOptions, runHistory } from './cache-history/run-history.ts';

/**
 * `CACHE_HISTORY_SEED=…` repeats the histories of a run; `CACHE_HISTORY_PATH=…`, from fast-check's report, goes to the
 * one that failed; `CACHE_HISTORY_RUNS=…` sets how many there are.
 */
const seed = Number(process.env['CACHE_HISTORY_SEED'] ?? Date.now() % 2_147_483_647);
const runs = Number(process.env['CACHE_HISTORY_RUNS'] ?? 100);
const path = process.env['CACHE_HISTORY_PATH'];

let redis: Redis;
let directory: string;
let options: RunOptions;
const ended = new Map<CheckpointName, number>();

beforeAll(async () => {
  const redisUrl = inject('redisUrl');
  redis = new Redis(redisUrl);
  directory = await mkdtemp(join(tmpdir(), 'cache-history-'));
  options = {
    redis,
    redisUrl,
    directory,
    onEnd: (point) => ended.set(point, (ended.get(point) ?? 0) + 1),
  };
});

afterAll(async () => {
  redis.disconnect();
  await rm(directory, { recursive: true });
});

/** How many histories it takes to find a fault; throws when none of them does. */
async function historiesUntilFound(candidates: readonly History[], makeView: MakeView): Promise<number> {
  for (const [at, history] of candidates.entries()) {
    try {
      await runHistory(history, { ...options, makeView, settleMs: 1000 });
    } catch {
      return at + 1;
    }
  }
  throw new Error(`${candidates.length} histories have found nothing`);
}

describe('the cache and its wakeups, whatever happened', () => {
  test.each(POINTS)('survive a gateway that ends for good at %s', async (point) => {
    const before = ended.get(point) ?? 0;
    await runHistory(historyThrough(point, false), options);
    await runHistory(historyThrough(point, true), options);
    expect(ended.get(point) ?? 0, 'the history has gone through the point').toBeGreaterThanOrEqual(before + 2);
  });

  test.each(POINTS.slice(0, 5))('survive a gateway that ends at %s with nothing after it', async (point) => {
    await runHistory(historyOfOneChange(point, 1), options);
  });

  test('survive a pod that changes while it begins to be selected', () => runHistory(historyOfRaces(), options));

  test('survive a restore while a throttled watch waits', () => runHistory(historyOfThrottledRestore(), options));

  test('survive a Redis that comes back with the past of a server that was restored since', () =>
    runHistory(historyOfTwoRestores(), options));

  test('survive a Redis that comes back with an object whose version a restored server has given to another', () =>
    runHistory(historyOfOneVersionTwice(), options));

  test(
    `equal the server's after any history (CACHE_HISTORY_SEED=${seed}, ${runs} runs)`,
    { timeout: 60_000 + runs * 2000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(histories, (history) => runHistory(history, options)),
        { seed, numRuns: runs, ...(path ? { path } : {}), endOnFailure: !process.env['CACHE_HISTORY_SHRINK'] },
      );
      process.stdout.write(`gateways ended at ${JSON.stringify(Object.fromEntries(ended))}\n`);
    },
  );
});

test(
  `a cluster that is restored again and again is followed (CACHE_HISTORY_SEED=${seed}, ${runs / 4} runs)`,
  { timeout: 60_000 + runs * 1000 },
  async () => {
    const property = fc.asyncProperty(historiesOfRestores, (history) => runHistory(history, options));
    await fc.assert(property, { seed, numRuns: Math.ceil(runs / 4), endOnFailure: true });
  },
);

describe('these histories find', () => {
  test.each(Object.entries(mutations))('%s', async (name, makeView) => {
    const points = ['apply:before-script', 'apply:after-script', 'relay:before-add'] as const;
    const stopped = points.flatMap((point) => [historyOfOneChange(point, 1), historyOfOneChange(point, 2)]);
    const candidates = [...stopped, historyOfRaces(), ...fc.sample(histories, { seed, numRuns: 100 })];
    const found = await historiesUntilFound(candidates, makeView);
    process.stdout.write(`${name}: found by history ${found} of ${candidates.length}\n`);
  });
});
