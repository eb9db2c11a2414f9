import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import type { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import type { Finish } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { eventually } from '../../harness/eventually.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { ShiftedClock } from '../../harness/test-clock.ts';

const TIMEOUT_MS = 15_000;
const plain = (...keys: string[]) => keys.map((key) => ({ key, reasons: [] }));

let clock: ShiftedClock;
let fixture: RedisQueueFixture;
let process: RecordingProcess;
let queue: BullMqWorkQueue;
/** Ends the first run of the key `a`. */
let end: (finish: Finish) => void;

beforeEach(async () => {
  clock = new ShiftedClock();
  fixture = await RedisQueueFixture.create(inject('redisUrl'), clock);
  process = new RecordingProcess();
  const first = Promise.withResolvers<Finish>();
  end = first.resolve;
  process.onRun = ({ key }) => (key === 'a' && process.runsOf('a').length === 1 ? first.promise : done);
  queue = await fixture.open({ timeoutMs: TIMEOUT_MS });
  await queue.record.renew('former');
  await queue.start(process);
  // So that numbers that began anew would be smaller.
  for (const key of ['x', 'y', 'z']) await runs(key, 1);
  await queue.add(plain('a'));
  await eventually(async () => expect(process.runsOf('a')).toHaveLength(1));
});

afterEach(async () => {
  end(done);
  await fixture.close();
  expect(process.overlaps).toEqual([]);
  expect(fixture.troubles).toEqual([]);
});

async function runs(key: string, count: number): Promise<void> {
  await queue.add(plain(key));
  await eventually(async () => expect(process.runsOf(key)).toHaveLength(count));
}

async function putBack(): Promise<void> {
  queue.suspend();
  await fixture.lose();
  await queue.putBackRuns('next');
  await queue.record.renew('next');
  queue.unsuspend();
}

describe('a run whose record was lost and is put back', () => {
  it('keeps its key from starting, and ends as ever', async () => {
    await putBack();
    await queue.add(plain('a'));
    await runs('x', 2);
    expect(process.runsOf('a')).toHaveLength(1);
    expect((await queue.inspector.status('a')).running?.run).toBe(process.runsOf('a')[0]?.run);
    end({ kind: 'ended', failures: 'count', againAfterMs: 0, barrier: 'written' });
    await eventually(async () => expect(process.runsOf('a').length).toBeGreaterThan(1));
    expect(process.runsOf('a')[1]).toMatchObject({ failures: 1 });
    const numbers = process.runs.map(({ run }) => run);
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(process.losses).toEqual([]);
  });

  it('waits for the barrier that it has left', async () => {
    process.unpassed.add('written');
    await putBack();
    end({ kind: 'ended', failures: 'forget', barrier: 'written' });
    await queue.add(plain('a'));
    await runs('x', 2);
    await sleep(300);
    expect(process.runsOf('a')).toHaveLength(1);
    process.unpassed.clear();
    await eventually(async () => expect(process.runsOf('a')).toHaveLength(2));
  });

  it('is forgotten here when another gateway has recorded its end, and only then', async () => {
    const other = await fixture.open({ timeoutMs: TIMEOUT_MS });
    const run = process.runsOf('a')[0]?.run ?? 0;
    end({ kind: 'accepted', untilMs: clock.now() + 86_400_000 });
    await eventually(async () => expect(queue.ownRuns.goingOn).toBe(1));
    const compare = vi.spyOn(queue.ownRuns, 'compare');
    clock.advance(10_000);
    await eventually(async () => expect(compare).toHaveBeenCalled(), 20_000);
    expect(queue.ownRuns.goingOn).toBe(1);
    await other.settle('a', run, { kind: 'ended', failures: 'forget' });
    clock.advance(10_000);
    await eventually(async () => expect(queue.ownRuns.goingOn).toBe(0), 20_000);
  });

  it('is settled as lost at its deadline when its outcome is unknown', async () => {
    end({ kind: 'unknown' });
    await eventually(async () => expect(process.inFlight).toEqual([]));
    await putBack();
    await queue.add(plain('a'));
    clock.advance(TIMEOUT_MS - 12_000);
    await runs('x', 2);
    expect(process.runsOf('a')).toHaveLength(1);
    clock.advance(14_000);
    await runs('y', 2);
    await eventually(async () => expect(process.runsOf('a').length).toBeGreaterThan(1));
    expect(process.losses).toMatchObject([{ key: 'a', run: process.runsOf('a')[0]?.run }]);
  });

  it('goes on after a 202 for as long as it may', async () => {
    const untilMs = clock.now() + 3 * TIMEOUT_MS;
    end({ kind: 'accepted', untilMs });
    await eventually(async () => expect(process.inFlight).toEqual([]));
    await putBack();
    expect((await queue.inspector.status('a')).running).toMatchObject({ deadlineMs: Math.ceil(untilMs) });
    clock.advance(2 * TIMEOUT_MS);
    await queue.add(plain('a'));
    await runs('x', 2);
    expect(process.runsOf('a')).toHaveLength(1);
    expect(await queue.settle('a', process.runsOf('a')[0]?.run ?? 0, done)).toBe(true);
    await eventually(async () => expect(process.runsOf('a')).toHaveLength(2));
  });

  /** The run goes on after a 202, whose finish has reached Redis. */
  const accepted = async (untilMs: number): Promise<void> => {
    end({ kind: 'accepted', untilMs });
    await eventually(async () => expect(process.inFlight).toEqual([]));
    await queue.inspector.levels();
  };

  it('keeps its key from starting although its 202 reaches the empty Redis first', async () => {
    const untilMs = clock.now() + 3 * TIMEOUT_MS;
    queue.suspend();
    await fixture.lose();
    await accepted(untilMs);
    await queue.putBackRuns('next');
    await queue.record.renew('next');
    queue.unsuspend();
    await queue.add(plain('a'));
    await runs('x', 2);
    expect(process.runsOf('a')).toHaveLength(1);
    expect((await queue.inspector.status('a')).running).toMatchObject({ deadlineMs: Math.ceil(untilMs) });
  });

  it('keeps its key from starting although its 202 comes after another gateway has put its runs back', async () => {
    const other = await fixture.open({ timeoutMs: TIMEOUT_MS });
    const others = new RecordingProcess();
    await other.start(others);
    await other.add(plain('later'));
    await eventually(async () => expect(others.runs).toHaveLength(1));
    for (const each of [queue, other]) each.suspend();
    const { run = 0 } = process.runsOf('a')[0] ?? {};
    // As an older copy of the data.
    const { keys, redis } = fixture;
    await redis.set(keys.runs, run - 1);
    await redis.del(`${keys.recordPrefix}a`, keys.inFlight, keys.slots);
    await other.putBackRuns('next');
    expect(Number(await redis.get(keys.runs))).toBeGreaterThan(run);
    await accepted(clock.now() + 3 * TIMEOUT_MS);
    await queue.putBackRuns('next');
    await queue.record.renew('next');
    for (const each of [queue, other]) each.unsuspend();
    await queue.add(plain('a'));
    await runs('x', 2);
    expect([...process.runsOf('a'), ...others.runsOf('a')]).toHaveLength(1);
  });

  it('is not put back when another gateway had ended it by a callback before its 202', async () => {
    const other = await fixture.open({ timeoutMs: TIMEOUT_MS });
    expect(await other.settle('a', process.runsOf('a')[0]?.run ?? 0, done)).toBe(true);
    await accepted(clock.now() + 3 * TIMEOUT_MS);
    queue.suspend();
    await queue.putBackRuns('next');
    await queue.record.renew('next');
    queue.unsuspend();
    await runs('a', 2);
  });
});

it('nothing is put back where the queue is in order: keys may have started since', async () => {
  end(done);
  await eventually(async () => expect(process.inFlight).toEqual([]));
  await queue.record.renew('next');
  await fixture.redis.set(fixture.keys.runs, '1');
  await queue.putBackRuns('next');
  expect(await fixture.redis.get(fixture.keys.runs)).toBe('1');
});

it('a lost record that is not noticed yet: a start of the key is taken back', async () => {
  await fixture.lose();
  await queue.add(plain('a'));
  await runs('x', 2);
  await eventually(async () => expect(await fixture.redis.zscore(fixture.keys.timers, 'a')).not.toBeNull());
  expect(process.runsOf('a')).toHaveLength(1);
});
