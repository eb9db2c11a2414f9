import { setTimeout } from 'node:timers/promises';
import { expect } from 'vitest';
import { silentLogger } from '../../../src/core/index.ts';
import { Poller } from '../../../src/gateway/workqueue/poller.ts';
import { RedisRecords } from '../../../src/gateway/workqueue/redis-records.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import type { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { numbered, plain, type Setting } from '../../contract/work-queue/setting.ts';

/**
 * What the three rules of the scripts are for, each as something that goes wrong without it. Each throws when the
 * promise is broken.
 */

/** Keys that each ask again after 50 ms, for a while: in the end all must be alive. */
export async function keysThatAskAgain(setting: Setting, forMs: number): Promise<void> {
  const { process, clock } = setting;
  const queue = await setting.open({ concurrency: 100 });
  const keys = numbered('k', 500);
  const lastRun = new Map<string, number>();
  process.onRun = async ({ key }) => {
    lastRun.set(key, clock.now());
    return { kind: 'known', failures: 'forget', againAfterMs: 50 };
  };
  await queue.start(process);
  await queue.add(plain(...keys));
  const end = clock.now() + forMs;
  while (clock.now() < end) {
    // In small steps, and not until all has settled: looks of the poller are to meet runs in the middle.
    clock.step(clock.now() + 1);
    await setTimeout(1);
  }
  const stuck = keys.filter((key) => (lastRun.get(key) ?? 0) < end - 5000);
  expect(stuck, 'keys that ran no more').toEqual([]);
}

/** A run that ends while the poller is in the middle of its look keeps the time that it asked for. */
export async function timerSurvivesTheLook({ redis, keys }: RedisQueueFixture): Promise<void> {
  const records = new RedisRecords(redis, keys);
  const process = new RecordingProcess();
  const addJobs = async ([key = '']: readonly string[]): Promise<void> => {
    await records.startAll([{ key, nonce: 'n' }], { nowMs: 1000, deadlineMs: 2000 });
    await records.finishAll([{ key, run: 1, finish: { ...done, againAfterMs: 50 } }], 1010);
  };
  const clock = { now: () => 1000, wallNow: () => 1000, sleep: async () => {} };
  const poller = new Poller({ records, process, addJobs, concurrency: 1, clock, logger: silentLogger });
  await records.addTimer('k', 500);
  await poller.tick();
  expect(Math.floor(Number(await redis.zscore(keys.timers, 'k')))).toBe(1060);
}

/** A key whose run goes on elsewhere is not run beside it. */
export async function busyKeyRests(setting: Setting): Promise<void> {
  const { process, clock } = setting;
  const queue = await setting.open();
  process.onRun = () => (process.runs.length === 1 ? { kind: 'busy', untilMs: clock.now() + 60_000 } : done);
  await queue.start(process);
  await queue.add(plain('k'));
  await setting.ran('k');
  await setting.settle();
  await queue.add(plain('k'));
  await setting.pass(1000);
  expect(process.runs).toHaveLength(1);
}

/** A live key waits behind one batch of low ones at most. */
export async function liveBeforeLow(setting: Setting): Promise<void> {
  const { process, clock } = setting;
  const queue = await setting.open({ concurrency: 1 });
  process.onRun = async () => {
    await clock.sleep(1);
    return done;
  };
  await queue.addLow(numbered('low', 900), 'initial');
  await queue.start(process);
  await setting.until(() => process.runs.length > 20, 'low keys running');
  const before = process.runs.length;
  await queue.add(plain('live'));
  await setting.ran('live');
  expect(process.keys().indexOf('live') - before).toBeLessThanOrEqual(200);
}
