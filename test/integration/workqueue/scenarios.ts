import { setTimeout } from 'node:timers/promises';
import { expect } from 'vitest';
import { RedisRecords } from '../../../src/gateway/controller/workqueue/records/redis-records.ts';
import { done } from '../../harness/recording-process.ts';
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
    return { kind: 'ended', failures: 'forget', againAfterMs: 50 };
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
  const records = new RedisRecords(redis, keys, { concurrency: 1 });
  await records.addTimer('k', 500);
  const { timers } = await records.due(1000, 10);
  await records.startAll([{ key: 'k', nonce: 'n' }], { nowMs: 1000, deadlineMs: 2000, slotMs: 2000 });
  await records.finishAll([{ key: 'k', run: 1, finish: { ...done, againAfterMs: 50 } }], 1010);
  expect(await records.wake('timers', 31_000, timers)).toEqual([]);
  expect(Math.floor(Number(await redis.zscore(keys.timers, 'k')))).toBe(1060);
}

/** A key whose run goes on elsewhere is not run beside it. */
export async function busyKeyRests(setting: Setting): Promise<void> {
  const { process, clock } = setting;
  const elsewhere = await setting.open();
  process.onRun = () => (process.runs.length === 1 ? { kind: 'accepted', untilMs: clock.now() + 60_000 } : done);
  await elsewhere.start(process);
  await elsewhere.add(plain('k'));
  await setting.ran('k');
  await setting.settle();
  elsewhere.suspend();
  const queue = await setting.open();
  await queue.start(process);
  await queue.addLow(['k'], 'resync');
  await setting.pass(1000);
  expect(process.runs).toHaveLength(1);
}

/** Two gateways together run no more keys at a time than `concurrency`. */
export async function slotsAreCounted(setting: Setting): Promise<void> {
  const { process, clock } = setting;
  const gateways = [await setting.open({ concurrency: 2 }), await setting.open({ concurrency: 2 })];
  let mostAtOnce = 0;
  process.onRun = async () => {
    mostAtOnce = Math.max(mostAtOnce, process.inFlight.length);
    await clock.sleep(5);
    return done;
  };
  for (const gateway of gateways) await gateway.start(process);
  await Promise.all(gateways.map((gateway, at) => gateway.add(plain(...numbered(`${at}/`, 20)))));
  await setting.atRest();
  expect(mostAtOnce).toBe(2);
}
