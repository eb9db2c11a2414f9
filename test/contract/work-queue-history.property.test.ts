import { afterEach, expect, inject, it } from 'vitest';
import { MemoryQueueFixture } from '../harness/memory-queue.ts';
import { newSeed, randomOf } from '../harness/random.ts';
import { RedisQueueFixture } from '../harness/redis-queue.ts';
import { ModelHistory } from './work-queue/model-history.ts';
import { type CreateFixture, Setting } from './work-queue/setting.ts';

/** `QUEUE_ADDS` for the long variant. */
const ADDS = Number(process.env['QUEUE_ADDS'] ?? 20_000);

let setting: Setting;
afterEach(() => setting.close());

/** In Redis a gateway's end costs seconds of real time, until BullMQ gives its jobs to another. */
const implementations: [string, number, number, CreateFixture][] = [
  ['MemoryWorkQueue', ADDS, 5, async (clock) => new MemoryQueueFixture(clock)],
  ['BullMqWorkQueue', ADDS / 10, 2, (clock) => RedisQueueFixture.create(inject('redisUrl'), clock)],
];

for (const [name, adds, crashes, create] of implementations) {
  const seed = newSeed();
  it(`${name} keeps the model's promises through a random history of ${adds} adds (TEST_SEED=${seed})`, async () => {
    setting = await Setting.create(create, false);
    const history = new ModelHistory(setting, randomOf(seed), crashes);
    await history.play(adds);
    expect(history.model.runs).toBeGreaterThan(adds / 20);
    expect(history.model.idleRuns).toBeLessThanOrEqual(5 + history.model.runs / 200);
    expect(history.model.lost).toBeGreaterThan(0);
  }, 3_600_000);
}
