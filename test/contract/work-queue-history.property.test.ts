import { afterEach, expect, inject, it } from 'vitest';
import { newSeed, randomOf } from '../harness/random.ts';
import { RedisQueueFixture } from '../harness/redis-queue.ts';
import { ModelHistory } from './work-queue/model-history.ts';
import { Setting } from './work-queue/setting.ts';

/** `QUEUE_ADDS` for the long variant. */
const ADDS = Number(process.env['QUEUE_ADDS'] ?? 2000);

let setting: Setting;
afterEach(() => setting.close());

const seed = newSeed();

it(`the queue keeps the model's promises through a random history of ${ADDS} adds (TEST_SEED=${seed})`, async () => {
  setting = await Setting.create((clock) => RedisQueueFixture.create(inject('redisUrl'), clock), false);
  // A gateway's end costs seconds of real time, until BullMQ gives its jobs to another.
  const history = new ModelHistory(setting, randomOf(seed), 2);
  await history.play(ADDS);
  expect(history.model.idleRuns).toBeLessThanOrEqual(5 + history.model.runs / 200);
  expect(history.model.lost).toBeGreaterThan(0);
}, 3_600_000);
