import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import { RedisRecords } from '../../../src/gateway/controller/workqueue/records/redis-records.ts';
import { WriteRecords } from '../../../src/gateway/controller/workqueue/records/write-records.ts';
import { done } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let fixture: RedisQueueFixture;
let records: RedisRecords;
let writes: WriteRecords;

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
  const { redis, keys } = fixture;
  await redis.hset(keys.queue, 'incarnation', 'i');
  records = new RedisRecords(redis, keys, { concurrency: 4 });
  writes = new WriteRecords(redis, keys);
});

afterEach(() => fixture.close());

/** Starts a run of the key `k`. */
async function start(nowMs: number): Promise<{ key: string; run: number; incarnation: string }> {
  await records.recordAdds([{ key: 'k', reasons: [] }], nowMs);
  const times = { nowMs, deadlineMs: nowMs + 1000, slotMs: nowMs + 1000 };
  const { starts } = await records.startAll([{ key: 'k', nonce: `${nowMs}` }], times);
  const [go] = starts;
  return { key: 'k', run: go?.kind === 'go' ? go.run : 0, incarnation: 'i' };
}

describe('the writes of a run', () => {
  it('outlive the end of an older run, which another gateway settles as well', async () => {
    const older = await start(1000);
    await records.finishAll([{ ...older, finish: done }], 1100);
    const newer = await start(1200);
    const begun = await writes.begin(newer, 'note', 1300);
    await writes.end(newer, begun?.id ?? '', 'outcome');
    expect(await writes.endAll(older, 0)).toEqual({ writes: [], more: 0 });
    expect(await writes.begin(newer, 'second', 1400)).toBeDefined();
    expect((await writes.endAll(newer, 0)).writes.toSorted()).toEqual(['outcome', 'second']);
  });

  it('take the place of the writes of an older run, and end once', async () => {
    const older = await start(1000);
    await writes.begin(older, 'old', 1050);
    await records.finishAll([{ ...older, finish: done }], 1100);
    const newer = await start(1200);
    expect(await writes.endAll(newer, 0)).toEqual({ writes: [], more: 0 });
    expect(await writes.begin(newer, 'late', 1300)).toBeUndefined();
  });

  it('have a bound in bytes on record; beyond it they are counted', async () => {
    const { redis, keys } = fixture;
    const run = { key: 'a/b', run: 1, incarnation: 'i' };
    const deadlineMs = systemClock.now() + 60_000;
    await redis.hset(keys.recordPrefix + run.key, { run: run.run, deadline: deadlineMs });
    await redis.hset(keys.queue, 'incarnation', run.incarnation);
    const outcome = 'x'.repeat(16_384);
    for (let at = 0; at < 50; at += 1) {
      const begun = await writes.begin(run, 'note', systemClock.now());
      await writes.end(run, begun?.id ?? '', outcome);
    }
    expect(await redis.memory('USAGE', keys.writesPrefix + run.key, 'SAMPLES', 0)).toBeLessThan(100_000);
    const { writes: recorded, more } = await writes.endAll(run, 1000);
    expect(recorded).toEqual(Array.from({ length: 4 }, () => outcome));
    expect(more).toBe(46);
  });
});
