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

function idOf(begun: Awaited<ReturnType<WriteRecords['begin']>>): string {
  return typeof begun === 'object' ? begun.id : '';
}

describe('the writes of a run', () => {
  it('outlive the end of an older run, which another gateway settles as well', async () => {
    const older = await start(1000);
    await records.finishAll([{ ...older, finish: done }], 1100);
    const newer = await start(1200);
    const begun = await writes.begin(newer, 'note', 1300);
    await writes.end(newer, idOf(begun), 'outcome');
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
      await writes.end(run, idOf(begun), outcome);
    }
    expect(await redis.memory('USAGE', keys.writesPrefix + run.key, 'SAMPLES', 0)).toBeLessThan(100_000);
    const { writes: recorded, more } = await writes.endAll(run, 1000);
    expect(recorded).toEqual(Array.from({ length: 4 }, () => outcome));
    expect(more).toBe(46);
  });

  it('have a bound in number while they have no outcome, because the end of the run reads them all', async () => {
    const { redis, keys } = fixture;
    const run = await start(1000);
    const begun = [];
    for (let at = 0; at < 3000; at += 1) begun.push(writes.begin(run, 'note', 1100));
    const answers = await Promise.all(begun);
    const begunBefore = answers.findIndex((each) => each === 'full');
    expect(begunBefore).toBeGreaterThanOrEqual(1000);
    expect(answers.slice(begunBefore).every((each) => each === 'full')).toBe(true);
    expect(await redis.hlen(keys.writesPrefix + run.key)).toBeLessThanOrEqual(2500);
    // A write that gets its outcome makes room.
    const [first] = answers;
    await writes.end(run, idOf(first), undefined);
    expect(await writes.begin(run, 'note', 1200)).toBeTypeOf('object');
    expect(await writes.begin(run, 'note', 1200)).toBe('full');
    expect((await writes.endAll(run, 0)).writes).toHaveLength(begunBefore);
  });

  it('without an outcome leave room for as many outcomes as the bound in bytes lets in', async () => {
    const run = await start(1000);
    // The shortest entry that there is.
    const outcome = JSON.stringify({ unclear: { apiVersion: 'v1', kind: 'Pod' } });
    for (let at = 0; at < 2000; at += 1) {
      const begun = await writes.begin(run, 'note', 1100);
      await writes.end(run, idOf(begun), outcome);
    }
    const open = await Promise.all(Array.from({ length: 1000 }, () => writes.begin(run, 'note', 1200)));
    expect(open).not.toContain('full');
  });
});
