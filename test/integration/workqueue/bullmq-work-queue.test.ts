import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { RedisRecords } from '../../../src/gateway/controller/workqueue/records/redis-records.ts';
import type { Ended } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { TestProcess } from '../../harness/process.ts';
import { done, RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { ShiftedClock } from '../../harness/test-clock.ts';

let clock: ShiftedClock;
let fixture: RedisQueueFixture;
let process: RecordingProcess;
let killed: TestProcess | undefined;

beforeEach(async () => {
  clock = new ShiftedClock();
  fixture = await RedisQueueFixture.create(inject('redisUrl'), clock);
  process = new RecordingProcess();
});

afterEach(async () => {
  await killed?.kill();
  await fixture.close();
  expect(process.overlaps).toEqual([]);
  expect(fixture.troubles).toEqual([]);
});

const plain = (...keys: string[]) => keys.map((key) => ({ key, reasons: [] }));
const atRest = () => eventually(async () => expect(await fixture.pending()).toBe(0), 60_000, 20);

describe('the queue in Redis', () => {
  it('holds nothing at rest but its own hash, the counter of runs, the history and what BullMQ keeps of every queue', async () => {
    const queue = await fixture.open();
    await queue.record.renew('run-id');
    const finishes = new Map([
      ['fails', { kind: 'ended', failures: 'count', againAfterMs: 1 } as const],
      ['again', { kind: 'ended', failures: 'forget', againAfterMs: 1 } as const],
      ['writes', { kind: 'ended', failures: 'forget', againAfterMs: 1, barrier: 'b' } as const],
    ]);
    process.onRun = ({ key }) => {
      const finish = finishes.get(key) ?? done;
      finishes.delete(key);
      return finish;
    };
    await queue.start(process);
    await queue.add(plain('fails', 'again', 'writes', 'plain', 'plain'));
    await queue.addLow(['low', 'plain'], 'initial');
    await queue.addAfter('later', 30);
    await atRest();
    // The keys that a gateway has taken from the backlog are remembered until the runs' deadline, or the queue stops.
    const [taken = ''] = (await fixture.names()).filter((name) => name.startsWith('taken:'));
    expect(await fixture.redis.pttl(`${fixture.keys.prefix}:${taken}`)).toBeGreaterThan(0);
    await queue.stop(1000);
    await eventually(async () => expect(await fixture.redis.exists(`${fixture.keys.prefix}:${taken}`)).toBe(0));
    const names = await fixture.names();
    const own = names.filter((name) => !name.startsWith('controller:'));
    expect(own.filter((name) => name !== 'samples')).toEqual(['histories', 'history:fails', 'queue', 'recent', 'runs']);
    // A bad time is remembered for a while.
    expect(await fixture.redis.pttl(`${fixture.keys.historyPrefix}fails`)).toBeGreaterThan(0);
    expect(await fixture.redis.pttl(fixture.keys.histories)).toBeGreaterThan(0);
    const bullmq = names.filter((name) => name.startsWith('controller:')).map((name) => name.slice(11));
    // No job, no list of jobs, no mark of a key.
    const known = ['events', 'id', 'marker', 'meta', 'stalled-check'];
    expect(bullmq.filter((name) => !known.includes(name))).toEqual([]);
    expect(await fixture.redis.xlen(`${fixture.keys.prefix}:controller:events`)).toBeLessThan(300);
  });

  it.each([
    ['its attempts', { kind: 'ended', failures: 'count', error: 'broke' } as const],
    ['a terminal error', { kind: 'ended', failures: 'keep', dead: true, error: 'broke' } as const],
  ])('keeps the history of a dead letter by %s for an hour after it succeeded', async (_, failure) => {
    const queue = await fixture.open({ maxAttempts: 1 });
    const history = `${fixture.keys.historyPrefix}k`;
    process.onRun = () => failure;
    await queue.start(process);
    await queue.add(plain('k'));
    await eventually(async () => expect(await fixture.redis.pttl(history)).toBe(-1));
    // The first run after the replay does nothing yet.
    process.onRun = () => (process.runs.length === 2 ? { kind: 'ended', failures: 'keep', againAfterMs: 1 } : done);
    await queue.add(plain('k'));
    await eventually(async () => expect(process.runs).toHaveLength(3));
    await atRest();
    expect(await fixture.redis.pttl(history)).toBeGreaterThan(0);
    expect(await queue.history.lastErrors(['k'])).toEqual([undefined]);
    expect((await queue.history.runsOf('k')).map(({ outcome }) => outcome)).toEqual(['done', 'deferred', 'dead']);
    expect(process.runs.map(({ failures }) => failures)).toEqual([0, 0, 0]);
    expect(await fixture.redis.exists(`${fixture.keys.recordPrefix}k`)).toBe(0);
  });

  it('reports the dead letter of another gateway although it has been at rest since', async () => {
    const leader = await fixture.open();
    await leader.start(process);
    const seenDead = async (): Promise<number | undefined> => {
      await leader.stalledMs();
      return leader.stall.levels?.sizes.dead;
    };
    const follower = await fixture.open();
    const others = new RecordingProcess();
    others.onRun = () => ({ kind: 'ended', failures: 'keep', dead: true });
    await follower.start(others);
    await sleep(200);
    expect(await seenDead()).toBe(0);
    await follower.add(plain('k'));
    await eventually(async () => expect(await seenDead()).toBe(1));
    expect(others.keys()).toEqual(['k']);
  });

  it('starts no key of a queue that another owner of the same name has by now, and changes nothing of it', async () => {
    const follower = await fixture.open({}, { owner: 'old' });
    await follower.record.renew('run-id');
    await follower.start(process);
    await follower.add(plain('before'));
    await eventually(async () => expect(process.keys()).toEqual(['before']));
    await atRest();
    // The leader knows that the owner has changed, and the follower does not.
    await fixture.lose();
    const leader = await fixture.open({}, { owner: 'new' });
    await leader.record.renew('run-id');
    await follower.add(plain('early'));
    expect(await leader.record.state()).toMatchObject({ isForeign: false });
    expect(await follower.record.state()).toMatchObject({ isForeign: true });
    await leader.add(plain('late'));
    await sleep(500);
    expect(process.keys()).toEqual(['before']);
    expect(await fixture.redis.exists(fixture.keys.runs)).toBe(0);
    // The follower holds no job of the keys, though it has not stopped.
    const next = new RecordingProcess();
    await leader.start(next);
    await eventually(async () => expect(next.keys().toSorted()).toEqual(['early', 'late']));
    await atRest();
    await follower.stop(1000);
  });

  it('gives a queue of an earlier build, which names no owner, the owner that starts a key of it', async () => {
    const queue = await fixture.open({}, { owner: 'mine' });
    await queue.record.renew('run-id');
    await fixture.redis.hdel(fixture.keys.queue, 'owner');
    await queue.start(process);
    await queue.add(plain('key'));
    await eventually(async () => expect(process.keys()).toEqual(['key']));
    expect(await fixture.redis.hget(fixture.keys.queue, 'owner')).toBe('mine');
  });

  it('logs nothing of a job whose lock has expired, and runs its key once', { timeout: 60_000 }, async () => {
    const queue = await fixture.open({ concurrency: 1 });
    const first = Promise.withResolvers<Ended>();
    process.onRun = ({ key }) => (key === 'first' ? first.promise : done);
    await queue.start(process);
    await queue.add(plain('first'));
    await eventually(async () => expect(process.keys()).toEqual(['first']));
    await queue.add(plain('second'));
    await eventually(async () => expect(await fixture.redis.llen(fixture.keys.active)).toBe(1));
    const [id = ''] = await fixture.redis.lrange(fixture.keys.active, 0, -1);
    expect(await fixture.redis.del(`${fixture.keys.bullmqPrefix}${id}:lock`)).toBe(1);
    // The worker renews its locks every 2 s.
    await sleep(3000);
    first.resolve(done);
    await atRest();
    expect(process.keys()).toEqual(['first', 'second']);
  });

  it('logs few of many failures, and how many it has left out', async () => {
    const queue = await fixture.open({ concurrency: 300, timeoutMs: 60_000 });
    process.onRun = () => ({ kind: 'unknown' });
    process.onLost = () => {
      throw new Error('no version');
    };
    await queue.start(process);
    await queue.add(plain(...Array.from({ length: 200 }, (_, at) => `k${at}`)));
    await eventually(async () => expect(process.runs).toHaveLength(200));
    clock.advance(70_000);
    await eventually(async () => expect(process.losses.length).toBeGreaterThanOrEqual(200), 30_000);
    const failed = 'a part of the work queue failed {"controller":"controller","part":"run","error":"no version"';
    await eventually(async () => expect(fixture.troubles).toEqual([`${failed}}`, `${failed}}`, `${failed}}`]));
    clock.advance(10_000);
    await queue.add(plain('k0'));
    await eventually(async () => expect(fixture.troubles).toHaveLength(4), 30_000);
    expect(fixture.troubles.splice(0).at(-1)).toMatch(/"no version","leftOut":\d{3,}}$/);
  });

  it('holds nothing of a queue whose data were removed while a repair or a resync was under way', async () => {
    const queue = await fixture.open();
    await queue.start(process);
    await queue.record.renew('before');
    const renewed = queue.record.renew('meanwhile');
    await queue.stop(1000);
    await fixture.lose();
    await renewed;
    await queue.record.renew('after');
    await queue.record.setInitial('hash');
    await queue.record.setResyncAt(1);
    expect(await fixture.names()).toEqual([]);
  });

  it('remembers its incarnation and what its controller was given at first', async () => {
    const queue = await fixture.open();
    expect(await queue.record.state()).toEqual({
      incarnation: undefined,
      isForeign: false,
      runId: undefined,
      initial: undefined,
    });
    await queue.record.renew('r1');
    await queue.record.setInitial('hash');
    const { incarnation } = await queue.record.state();
    expect(await queue.record.state()).toEqual({ incarnation, isForeign: false, runId: 'r1', initial: 'hash' });
    await queue.record.renew('r2');
    expect((await queue.record.state()).incarnation).not.toBe(incarnation);
  });

  it('keeps 2 KiB of reasons, the oldest', async () => {
    const queue = await fixture.open();
    const reason = (at: number) => ({
      type: 'updated' as const,
      object: `v1/Pod a/${'x'.repeat(100)}`,
      resourceVersion: `${at}`,
    });
    for (let at = 1; at <= 100; at += 1) await queue.add([{ key: 'k', reasons: [reason(at)] }]);
    await queue.start(process);
    await atRest();
    const reasons = process.runs[0]?.reasons ?? [];
    expect(reasons[0]).toEqual(reason(1));
    expect(JSON.stringify(reasons).length).toBeLessThan(2300);
    expect(reasons.length).toBeGreaterThan(10);
  });

  it('takes up what a killed gateway had in flight, once its time is over, and what it had not started', async () => {
    killed = new TestProcess(
      'test/integration/workqueue/gateway-process.ts',
      [
        inject('redisUrl'),
        JSON.stringify(fixture.scope),
        JSON.stringify({ seed: 1, concurrency: 2, timeoutMs: 4000, mode: 'hang' }),
      ],
      {},
    );
    await killed.line(({ msg }) => msg === 'started');
    const queue = await fixture.open({ concurrency: 2, timeoutMs: 4000 });
    await queue.add(plain('a', 'b', 'c'));
    const first = await killed.line(({ key }) => key !== undefined);
    await killed.line(({ key }) => key !== undefined && key !== first['key']);
    // Touched while it ran there: to be run again after it is settled, and not twice.
    await queue.add(plain('a'));
    await killed.kill('SIGKILL');
    const starts: { key: string; at: number }[] = [];
    process.onRun = ({ key }) => {
      starts.push({ key, at: clock.now() });
      return done;
    };
    await queue.start(process);
    await eventually(async () => expect(new Set(process.keys())).toEqual(new Set(['a', 'b', 'c'])), 60_000, 50);
    await atRest();
    expect(process.losses.map(({ key }) => key).toSorted()).toEqual(['a', 'b']);
    for (const { key, at } of starts) {
      const there = killed.lines.find((line) => line['key'] === key);
      if (there) expect(at).toBeGreaterThanOrEqual(Number(there['deadlineMs']) + 1000);
    }
    expect(process.runsOf('a')[0]?.failures).toBe(1);
    expect(process.runsOf('c')[0]?.failures).toBe(0);
  });
});

describe('a job whose keys may not start here', () => {
  it(
    'ends, and its keys run later, when Redis refuses a new job for them',
    { timeout: 120_000 },
    async ({ onTestFinished }) => {
      const redis = await startRedis({ ignoreEnvironment: true });
      onTestFinished(() => redis.stop());
      const full = await RedisQueueFixture.create(redis.url, clock);
      onTestFinished(() => full.close());
      const queue = await full.open({ concurrency: 1 });
      let end = (): void => {};
      process.onRun = ({ key }) =>
        key === 'first' ? new Promise((resolve) => (end = () => resolve(done))) : Promise.resolve(done);
      await queue.start(process);
      await queue.add(plain('first'));
      await eventually(async () => expect(process.keys()).toEqual(['first']));
      await queue.add(plain('second'));
      await eventually(async () => expect(await full.redis.llen(full.keys.active)).toBe(1));
      await full.redis.config('SET', 'maxmemory', '1');
      queue.allow(0);
      await eventually(async () => expect(full.troubles).toContainEqual(expect.stringContaining('OOM')));
      await full.redis.config('SET', 'maxmemory', '0');
      end();
      queue.allow(Infinity);
      await eventually(async () => expect(process.keys()).toEqual(['first', 'second']), 60_000, 50);
      await eventually(async () => expect(await full.pending()).toBe(0), 60_000, 20);
      await queue.stop(1000);
    },
  );
});

interface Started {
  nowMs: number;
  deadlineMs: number;
  nonce: string;
  passedBarrier?: string;
}

describe('the scripts on the records of keys', () => {
  let records: RedisRecords;
  const at = (nowMs: number, nonce = `${nowMs}`) => ({ nowMs, deadlineMs: nowMs + 100, nonce });
  /** In whole milliseconds: the fraction only tells one run's timer from another's. */
  const score = async (set: 'timers' | 'inFlight' | 'backlog', key: string) => {
    const text = await fixture.redis.zscore(fixture.keys[set], key);
    return text === null ? null : String(Math.floor(Number(text)));
  };
  const record = (key: string) => fixture.redis.hgetall(fixture.keys.recordPrefix + key);
  const forget = { kind: 'ended', failures: 'forget' } as const;

  beforeEach(() => {
    records = new RedisRecords(fixture.redis, fixture.keys, { concurrency: 4 });
  });

  const startOne = async (key: string, { nowMs, deadlineMs, ...request }: Started) => {
    const { starts } = await records.startAll([{ key, ...request }], { nowMs, deadlineMs, slotMs: deadlineMs });
    return starts[0];
  };
  const finishOne = async (key: string, run: number, finish: Ended, nowMs: number) => {
    const [finished] = await records.finishAll([{ key, run, finish }], nowMs);
    return finished?.current;
  };
  /** The start of a key that was added. */
  const start = async (key: string, request: Started) => {
    await records.recordAdds(plain(key), request.nowMs);
    return startOne(key, request);
  };

  it('start nothing for a job that an earlier run has served', async () => {
    await records.recordAdds(plain('k'), 1000);
    expect(await startOne('k', at(1010))).toMatchObject({ kind: 'go', run: 1 });
    expect(await startOne('k', at(1020))).toEqual({ kind: 'idle' });
    // Not marked as touched either: nobody has touched it.
    await finishOne('k', 1, forget, 1030);
    expect(await score('timers', 'k')).toBeNull();
    expect(await startOne('k', at(1040))).toEqual({ kind: 'idle' });
  });

  it('refuse the outcome of a run that is not in flight, and change nothing', async () => {
    expect(await start('k', at(1000))).toMatchObject({ kind: 'go', run: 1 });
    const before = await record('k');
    expect(await finishOne('k', 2, { kind: 'ended', failures: 'count', againAfterMs: 1, barrier: 'b' }, 1001)).toBe(
      false,
    );
    expect(await record('k')).toEqual(before);
    expect(await score('timers', 'k')).toBeNull();
    expect(await score('inFlight', 'k')).toBe('2100');
    expect(await finishOne('k', 1, forget, 1002)).toBe(true);
    // A second time, and one that comes after the next run's start.
    expect(await finishOne('k', 1, forget, 1003)).toBe(false);
    expect(await start('k', at(1004))).toMatchObject({ kind: 'go', run: 2 });
    expect(await finishOne('k', 1, forget, 1005)).toBe(false);
    expect(await record('k')).toMatchObject({ run: '2' });
  });

  it('finish the other runs of a call when the record of one cannot be read', async () => {
    for (const key of ['a', 'b', 'c']) await start(key, at(1000));
    await records.recordAdds(plain('a', 'c'), 1001);
    await fixture.redis.set(`${fixture.keys.recordPrefix}b`, 'not a HASH');
    const runs = ['a', 'b', 'c'].map((key, index) => ({ key, run: index + 1, finish: forget }));
    const [a, b, c] = await records.finishAll(runs, 1002);
    for (const each of [a, c]) expect(each).toMatchObject({ current: true, ready: true, unreadable: undefined });
    expect(b).toMatchObject({ current: false, ready: false, unreadable: expect.stringContaining('WRONGTYPE') });
  });

  it('give the same start the same answer when it is sent twice', async () => {
    const go = await start('k', at(1000, 'n'));
    expect(await start('k', at(1000, 'n'))).toMatchObject({ kind: 'go', run: 1 });
    expect(go).toMatchObject({ kind: 'go', run: 1 });
    expect(await start('k', at(1000, 'other'))).toEqual({ kind: 'busy' });
  });

  it('give a start that is sent again after its deadline another number, because the first run may be settled', async () => {
    await start('k', at(1000, 'n'));
    expect(await startOne('k', at(2100, 'other'))).toMatchObject({ kind: 'lost', run: 1 });
    expect(await startOne('k', at(2101, 'n'))).toMatchObject({ kind: 'go', run: 2, failures: 0 });
    expect(await score('inFlight', 'k')).toBe('3201');
    expect(await finishOne('k', 1, { kind: 'ended', failures: 'count', againAfterMs: 0 }, 2102)).toBe(false);
    expect(await startOne('k', at(2103, 'another'))).not.toMatchObject({ kind: 'go' });
    expect(await finishOne('k', 2, forget, 2104)).toBe(true);
    expect(await record('k')).toEqual({});
  });

  it('block a key until the deadline and the margin of its run', async () => {
    await start('k', at(1000));
    expect(await start('k', at(2099, 'a'))).toEqual({ kind: 'busy' });
    expect(await start('k', at(2100, 'b'))).toEqual({ kind: 'lost', run: 1, failures: 0 });
    // Until somebody settles it, everybody is told so.
    expect(await start('k', at(9000, 'c'))).toEqual({ kind: 'lost', run: 1, failures: 0 });
  });

  it('make a key that was touched while it ran ready again, once', async () => {
    await start('k', at(1000));
    expect((await records.recordAdds(plain('k'), 1005)).ready).toEqual([]);
    await startOne('k', at(1010, 'other'));
    const [finished] = await records.finishAll(
      [{ key: 'k', run: 1, finish: { ...forget, againAfterMs: 60_000 } }],
      1050,
    );
    expect(finished).toMatchObject({ current: true, ready: true });
    expect((await records.recordAdds(plain('k'), 1055)).ready).toEqual([]);
    expect(await startOne('k', at(1060))).toMatchObject({ kind: 'go' });
    expect(await score('timers', 'k')).toBeNull();
    await finishOne('k', 2, forget, 1070);
    expect(await record('k')).toEqual({});
  });

  it('answer that an added key became ready, unless it waits or runs already', async () => {
    expect((await records.recordAdds(plain('a', 'b', 'a'), 1000)).ready).toEqual(['a', 'b']);
    expect((await records.recordAdds(plain('a', 'c'), 1001)).ready).toEqual(['c']);
    await startOne('a', at(1002));
    expect((await records.recordAdds(plain('a'), 1003)).ready).toEqual([]);
    // A key whose timer is due while it runs becomes ready at its finish.
    await records.addTimer('a', 1004);
    const { timers } = await records.due(1010, 10);
    expect(await records.wake('timers', 31_000, timers)).toEqual([]);
    const [finished] = await records.finishAll([{ key: 'a', run: 1, finish: forget }], 1020);
    expect(finished?.ready).toBe(true);
    expect(await score('timers', 'a')).toBeNull();
  });

  it('give long barriers of due keys in answers of some 256 KiB, and leave none out', async () => {
    const names = Array.from({ length: 30 }, (_, at) => `k${at}`);
    const barrier = 'b'.repeat(32_768);
    await records.recordAdds(plain(...names), 1000);
    for (const [before, name] of names.entries()) {
      await startOne(name, at(1001));
      await finishOne(name, before + 1, { ...forget, againAfterMs: 10, barrier }, 1002);
    }
    const found: string[] = [];
    for (let read = 0; read < 5; read += 1) {
      const { timers, nextMs } = await records.due(2000, 500);
      expect(timers.length).toBeLessThan(12);
      found.push(...timers.map(({ key }) => key));
      await records.hold(
        9000,
        timers.map((timer) => ({ ...timer, barrierAtMs: 1002 })),
      );
      if (found.length < names.length) expect(nextMs).toBeLessThanOrEqual(2000);
    }
    expect(found.toSorted()).toEqual(names.toSorted());
  });

  it('give long barriers of keys at rest in answers of some 256 KiB, and leave none out', async () => {
    const names = Array.from({ length: 60 }, (_, at) => `k${at}`);
    const barrier = 'b'.repeat(32_768);
    await records.recordAdds(plain(...names), 1000);
    for (const [before, name] of names.entries()) {
      await startOne(name, at(1001));
      await finishOne(name, before + 1, { ...forget, barrier }, 1002);
    }
    const found: string[] = [];
    for (let idle = await records.idleBefore(2000, 500); idle.length > 0; idle = await records.idleBefore(2000, 500)) {
      expect(idle.length).toBeLessThan(24);
      expect(idle.every((each) => each.barrier === barrier)).toBe(true);
      found.push(...idle.map(({ key }) => key));
      await records.forgetBarriers(idle);
    }
    expect(found.toSorted()).toEqual(names.toSorted());
  });

  it('make a due key ready for one of two pollers', async () => {
    await records.addTimer('k', 500);
    const { timers } = await records.due(1000, 10);
    expect(await records.wake('timers', 31_000, timers)).toEqual(['k']);
    expect(await records.wake('timers', 31_000, timers)).toEqual([]);
    expect(await score('timers', 'k')).toBe('31000');
  });

  it('postpone a score only if it is as it was read, and never remove it', async () => {
    await records.addTimer('same', 500);
    await records.addTimer('moved', 500);
    const { timers } = await records.due(1000, 10);
    expect(timers.map(({ key, score }) => `${key} ${score}`).toSorted()).toEqual(['moved 500', 'same 500']);
    // Meanwhile a run of it has ended and asked for another time.
    await start('moved', at(1000));
    await finishOne('moved', 1, { ...forget, againAfterMs: 70 }, 1010);
    await records.postpone('timers', 31_000, timers);
    expect(await score('timers', 'same')).toBe('31000');
    expect(await score('timers', 'moved')).toBe('1080');
    // And one that is gone stays gone.
    await start('same', at(1020));
    await records.postpone('timers', 61_000, [{ key: 'same', score: '31000' }]);
    expect(await score('timers', 'same')).toBeNull();
  });

  it('let the poller look at a barrier again though it has just read the same timer', async () => {
    await start('k', at(1000));
    await records.addTimer('k', 1005);
    const { timers } = await records.due(1010, 10);
    await finishOne('k', 1, { ...forget, barrier: 'b' }, 1011);
    expect(await start('k', at(1012))).toEqual({ kind: 'barrier', barrier: 'b' });
    await records.postpone('timers', 31_010, timers);
    const again = await records.due(1040, 10);
    expect(again.timers).toMatchObject([{ key: 'k', barrier: 'b', barrierAtMs: 1011 }]);
  });

  it('start past a barrier only who has found that very barrier passed', async () => {
    await start('k', at(1000));
    await finishOne('k', 1, { ...forget, barrier: 'b' }, 1010);
    expect(await start('k', { ...at(1020), passedBarrier: 'a' })).toEqual({ kind: 'barrier', barrier: 'b' });
    expect(await start('k', { ...at(1030), passedBarrier: 'b' })).toMatchObject({ kind: 'go', run: 2 });
    await finishOne('k', 2, forget, 1040);
    expect(await record('k')).toEqual({});
  });

  it('tell with the start since when the key has waited for its barrier', async () => {
    // Added, and asked for again.
    await start('k', at(1000));
    await finishOne('k', 1, { ...forget, barrier: 'b' }, 1010);
    await records.recordAdds(plain('k'), 1015);
    expect(await start('k', at(1020))).toEqual({ kind: 'barrier', barrier: 'b' });
    expect(await start('k', at(1040))).toEqual({ kind: 'barrier', barrier: 'b' });
    expect(await start('k', { ...at(1060), passedBarrier: 'b' })).toMatchObject({ kind: 'go', run: 2, heldAtMs: 1020 });
    // Due by its timer, which a poller finds.
    await finishOne('k', 2, { ...forget, barrier: 'c', againAfterMs: 5 }, 1070);
    const { timers } = await records.due(1080, 10);
    await records.hold(1100, timers);
    const later = await records.due(1101, 10);
    await records.hold(1121, later.timers);
    const run = await start('k', { ...at(1130), passedBarrier: 'c' });
    expect(run).toMatchObject({ kind: 'go', run: 3, heldAtMs: 1075 });
    // Passed before it had a reason to run.
    await finishOne('k', 3, { ...forget, barrier: 'd' }, 1140);
    await records.recordAdds(plain('k'), 1150);
    expect(await start('k', { ...at(1160), passedBarrier: 'd' })).toMatchObject({ kind: 'go', heldAtMs: undefined });
    await finishOne('k', 4, forget, 1170);
    expect(await record('k')).toEqual({});
  });

  it('start as many keys as there are slots, and change nothing for the others', async () => {
    await records.recordAdds(plain('a', 'b', 'c', 'd', 'e', 'f'), 1000);
    const requests = ['a', 'b', 'c', 'd', 'e', 'f'].map((key) => ({ key, nonce: key }));
    const times = { nowMs: 1000, deadlineMs: 1100, slotMs: 5000 };
    const kinds = async () => (await records.startAll(requests, times)).starts.map(({ kind }) => kind);
    expect(await kinds()).toEqual(['go', 'go', 'go', 'go', 'full', 'full']);
    // A repeated call gets the same answers, and the call of another gateway finds no slot.
    expect(await kinds()).toEqual(['go', 'go', 'go', 'go', 'full', 'full']);
    expect(await startOne('e', at(1001))).toEqual({ kind: 'full' });
    await finishOne('a', 1, forget, 1002);
    expect(await startOne('e', at(1003))).toMatchObject({ kind: 'go', run: 5 });
    // A run after a 202 and a run of unknown outcome hold no slot.
    await records.finishAll([{ key: 'b', run: 2, finish: { kind: 'accepted', untilMs: 9000 } }], 1004);
    await records.finishAll([{ key: 'c', run: 3, finish: { kind: 'unknown' } }], 1004);
    expect(await startOne('f', at(1005))).toMatchObject({ kind: 'go', run: 6 });
    // A slot that is not extended expires.
    await records.prolongSlots([{ key: 'd', untilMs: 7000 }]);
    expect(await fixture.redis.zcount(fixture.keys.slots, 5001, '+inf')).toBe(1);
    await records.recordAdds(plain('g'), 6000);
    expect(await startOne('g', at(6000))).toMatchObject({ kind: 'go' });
    expect(await fixture.redis.zrange(fixture.keys.slots, '0', '-1')).toEqual(['g', 'd']);
  });

  it('start keys of the backlog in the slots that ready keys leave, and the same keys for a repeated call', async () => {
    const times = { nowMs: 2000, deadlineMs: 62_000, slotMs: 5000 };
    const take = async (count: number, first: number, nonce: string) => {
      const { low, lowLeft } = await records.startAll([], times, { count, first, nonce, gateway: 'g' });
      return { keys: low.map(({ key }) => key), lowLeft };
    };
    await records.addToBacklog(['a', 'b', 'c', 'd', 'e', 'f'], 1000, 'initial');
    expect(await take(2, 0, 'n1')).toEqual({ keys: ['a', 'b'], lowLeft: true });
    expect(await take(2, 0, 'n1')).toEqual({ keys: ['a', 'b'], lowLeft: true });
    // Two keys are ready for the two slots that are left.
    await records.recordAdds(plain('x', 'y'), 1500);
    expect(await take(2, 0, 'n2')).toEqual({ keys: [], lowLeft: true });
    expect(await take(2, 1, 'n3')).toEqual({ keys: ['c'], lowLeft: true });
    const { starts } = await records.startAll(
      ['x', 'y'].map((key) => ({ key, nonce: key })),
      times,
      { count: 1, first: 1, nonce: 'n4', gateway: 'g' },
    );
    expect(starts.map(({ kind }) => kind)).toEqual(['full', 'full']);
    // A pause of all keys leaves them in the backlog.
    await finishOne('a', 1, forget, 2000);
    await records.pause('recovery', 2000, undefined);
    expect(await take(4, 1, 'n5')).toEqual({ keys: [], lowLeft: false });
    await records.resume('recovery');
    await finishOne('b', 2, forget, 2000);
    await fixture.redis.del(fixture.keys.queued);
    expect(await take(4, 0, 'n6')).toEqual({ keys: ['e', 'f'], lowLeft: false });
  });

  it('know a low key by its start, and when a key was added first', async () => {
    await records.addToBacklog(['low', 'moved'], 1000, 'initial');
    await records.recordAdds(plain('k'), 1000);
    await records.recordAdds(plain('k'), 1500);
    const low = { reasons: [{ type: 'initial' }], queuedAtMs: 1000 };
    expect(await startOne('low', at(2000))).toMatchObject(low);
    expect(await startOne('moved', at(2000))).toMatchObject(low);
    expect(await startOne('k', at(2000))).toMatchObject({ reasons: [{ type: 'requeue' }], queuedAtMs: 1000 });
    await finishOne('k', 3, { kind: 'ended', failures: 'count' }, 2010);
    expect(await start('k', at(2020))).toMatchObject({ reasons: [{ type: 'retry' }], failures: 1 });
  });
});

describe('a timer whose add got lost', () => {
  it('fires again', async () => {
    const queue = await fixture.open();
    await queue.addAfter('k', 5000);
    // A poller that dies after its look: the score is ahead, and no job was added.
    const records = new RedisRecords(fixture.redis, fixture.keys, { concurrency: 4 });
    const now = clock.now() + 5010;
    const { timers } = await records.due(now, 10);
    expect(await records.wake('timers', now + 30_000, timers)).toEqual(['k']);
    await queue.start(process);
    await sleep(200);
    expect(process.runs).toEqual([]);
    clock.advance(40_000);
    await eventually(async () => expect(process.keys()).toEqual(['k']), 60_000, 20);
    await atRest();
    expect(fixture.troubles.splice(0)).toEqual([expect.stringContaining('queued keys had lost their jobs')]);
  });
});
