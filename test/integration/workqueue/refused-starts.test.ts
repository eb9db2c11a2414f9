import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BullMqJobs } from '../../../src/gateway/controller/workqueue/worker/bullmq-jobs.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { RecordingProcess } from '../../harness/recording-process.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';
import { ShiftedClock } from '../../harness/test-clock.ts';

/** Every start is refused as if Redis had no memory, while this key is there. */
const REFUSE = 'refuse-starts';
const START = readFileSync(
  new URL('../../../src/gateway/controller/workqueue/records/lua/start.lua', import.meta.url),
  'utf8',
);
const REFUSABLE = `if redis.call('EXISTS', '${REFUSE}') == 1 then
  return redis.error_reply("OOM command not allowed when used memory > 'maxmemory'.")
end
${START}`;

let redis: RedisServer;
let clock: ShiftedClock;
let fixture: RedisQueueFixture;
let process: RecordingProcess;

beforeEach(async () => {
  redis = await startRedis({ ignoreEnvironment: true });
  clock = new ShiftedClock();
  fixture = await RedisQueueFixture.create(redis.url, clock, { start: REFUSABLE });
  process = new RecordingProcess();
});

afterEach(async () => {
  await fixture.close();
  await redis.stop();
  expect(process.overlaps).toEqual([]);
});

const plain = (...keys: string[]) => keys.map((key) => ({ key, reasons: [] }));
const atRest = (limitMs = 30_000) => eventually(async () => expect(await fixture.pending()).toBe(0), limitMs, 20);
const active = () => fixture.redis.llen(fixture.keys.active);

describe('a start that Redis refuses', () => {
  it('ends no job: every key waits until it can start, and is told of once', async () => {
    const queue = await fixture.open();
    await queue.add(plain('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'));
    await fixture.redis.set(REFUSE, '1');
    await queue.start(process);
    await eventually(async () => expect(await active()).toBe(1));
    await sleep(500);
    expect(process.runs).toEqual([]);
    expect((await queue.inspector.levels()).sizes.queued).toBe(8);
    await fixture.redis.del(REFUSE);
    await atRest();
    expect(process.keys().toSorted()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']);
    expect(fixture.troubles).toEqual([expect.stringContaining('runs could not be started')]);
  });

  it('leaves the job to the next gateway when this one ends meanwhile', async () => {
    const queue = await fixture.open({ timeoutMs: 1000 });
    await queue.add(plain('a', 'b', 'c', 'd', 'e', 'f'));
    await fixture.redis.set(REFUSE, '1');
    await queue.start(process);
    await eventually(async () => expect(await active()).toBe(1));
    await queue.stop(1000);
    await sleep(200);
    expect((await queue.inspector.levels()).sizes.queued).toBe(6);
    await fixture.redis.del(REFUSE);
    const next = await fixture.open({ timeoutMs: 1000 });
    await next.start(process);
    await eventually(async () => expect(process.keys().toSorted()).toEqual(['a', 'b', 'c', 'd', 'e', 'f']), 60_000, 50);
    await atRest();
  });

  it('is not run twice when its answer got lost, and has its whole time', async () => {
    // The script does its work, and the answer is an error.
    const lua = START.replace(
      /\nreturn (\{ answers, .*)\n$/,
      `\nlocal all = $1
if redis.call('DEL', '${REFUSE}') == 1 then
  return redis.error_reply("LOADING no answer")
end
return all\n`,
    );
    expect(lua).not.toBe(START);
    const own = await RedisQueueFixture.create(redis.url, clock, { start: lua });
    const queue = await own.open({ timeoutMs: 2000 });
    await own.redis.set(REFUSE, '1');
    let onRecordMs = 0;
    process.onRun = async ({ key }) => {
      onRecordMs = (await queue.inspector.status(key)).running?.deadlineMs ?? 0;
      return { kind: 'ended', failures: 'forget' };
    };
    await queue.add(plain('k'));
    await queue.start(process);
    await eventually(async () => expect(await own.pending()).toBe(0));
    expect(process.runs).toHaveLength(1);
    expect(process.losses).toEqual([]);
    expect(onRecordMs).toBe(process.runs[0]?.deadlineMs);
    await own.close();
  });

  it('is taken back when its answer came after its deadline, and is no failure of its key', async () => {
    // The script takes longer than the run may, once.
    const lua = `if redis.call('DEL', '${REFUSE}') == 1 then
  local function now()
    local time = redis.call('TIME')
    return time[1] * 1000 + time[2] / 1000
  end
  local endMs = now() + 400
  while now() < endMs do end
end
${START}`;
    const own = await RedisQueueFixture.create(redis.url, clock, { start: lua });
    const queue = await own.open({ timeoutMs: 300, maxAttempts: 1 });
    await own.redis.set(REFUSE, '1');
    await queue.start(process);
    await queue.add(plain('k'));
    await eventually(async () => expect(process.keys()).toEqual(['k']));
    await eventually(async () => expect(await own.pending()).toBe(0));
    expect(process.losses).toEqual([]);
    expect(process.runs[0]?.failures).toBe(0);
    expect(process.runs[0]?.run).toBeGreaterThan(1);
    expect((await queue.inspector.status('k')).deadSinceMs).toBeUndefined();
    await own.close();
  });

  it('for what one record holds stops no other key, gives its slot back, and is tried again', async () => {
    const queue = await fixture.open({ concurrency: 8 });
    // Their jobs count as lost a second after this time.
    clock.advance(5000);
    await queue.add(plain('a', 'b', 'bad', 'c', 'd'));
    clock.advance(-5000);
    // A run without a deadline: no script of ours leaves this behind.
    await fixture.redis.hset(`${fixture.keys.recordPrefix}bad`, 'run', '7');
    await queue.start(process);
    await eventually(async () => expect(process.keys().toSorted()).toEqual(['a', 'b', 'c', 'd']));
    await eventually(async () => expect(await active()).toBe(0));
    expect(fixture.troubles).toEqual([
      expect.stringMatching(/Redis refuses to start a key because of its record.*"key":"bad"/),
    ]);
    await queue.add(plain('e'));
    await eventually(async () => expect(process.keys()).toContain('e'));
    clock.advance(6000);
    expect((await queue.inspector.levels()).oldestDueMs).toBeGreaterThan(0);

    await fixture.redis.hdel(`${fixture.keys.recordPrefix}bad`, 'run');
    clock.advance(40_000);
    await eventually(async () => expect(process.keys()).toContain('bad'));
    await atRest();
    expect((await queue.inspector.levels()).oldestDueMs).toBeUndefined();
  });
});

describe('a job that a gateway was given at its end', () => {
  it('may end although its key cannot be handed over: the next gateway finds the key', async () => {
    const queue = await fixture.open({ timeoutMs: 1000 });
    await queue.start(process);
    // The worker waits for a job, and takes the first one in spite of the pause.
    await eventually(async () => expect(String(await fixture.redis.client('LIST'))).toContain('cmd=bzpopmin'));
    queue.suspend();
    await queue.add(plain('k'));
    await eventually(async () => expect(await active()).toBe(1));
    await fixture.redis.config('SET', 'maxmemory', '1');
    await queue.stop(1000);
    expect(process.runs).toEqual([]);
    await fixture.redis.config('SET', 'maxmemory', '0');
    const next = await fixture.open({ timeoutMs: 1000 });
    await next.start(process);
    await eventually(async () => expect(process.keys()).toEqual(['k']), 60_000, 50);
    await atRest();
  });
});

describe('what BullMQ has lost', () => {
  it.each([
    ['the list of waiting jobs', (names: { waiting: string }) => fixture.redis.del(names.waiting)],
    ['the data of the jobs', async () => void (await Promise.all(jobs().map((id) => fixture.redis.del(id))))],
    ['everything', async () => void (await fixture.redis.del(...(await bullmqKeys())))],
  ])('%s is made good within a minute', async (_, lose) => {
    const queue = await fixture.open();
    // Their jobs count as lost a second after this time.
    clock.advance(5000);
    await queue.add(plain('a', 'b', 'c'));
    clock.advance(-5000);
    await lose(fixture.keys);
    await queue.start(process);
    await sleep(300);
    expect(process.runs).toEqual([]);
    clock.advance(40_000);
    await eventually(async () => expect(process.keys().toSorted()).toEqual(['a', 'b', 'c']));
    await atRest();
    expect(fixture.troubles).toEqual([expect.stringMatching(/queued keys had lost their jobs.*"keys":3/)]);
  });

  it('is found by reading the jobs, unless there are too many', async () => {
    const { redis: client, keys, scope } = fixture;
    const jobs = new BullMqJobs({ redis: client, keys, name: scope.name, concurrency: 1, onError: () => {} });
    const all = Array.from({ length: 1000 }, (_, at) => `k${at}`);
    await jobs.add(all);
    expect([...((await jobs.keysOfJobs()) ?? [])]).toHaveLength(1000);
    const [oldest = ''] = await client.lrange(keys.waiting, '-1', '-1');
    await client.lrem(keys.waiting, 1, oldest);
    const found = await jobs.keysOfJobs();
    // A job has 25 keys.
    expect(all.filter((key) => !found?.has(key))).toEqual(all.slice(0, 25));
    await client.lpush(keys.waiting, ...Array.from({ length: 10_000 }, (_, at) => `none${at}`));
    expect(await jobs.keysOfJobs()).toBeUndefined();
    await jobs.close(true);
  });

  const jobs = (): string[] => ['1'].map((id) => fixture.keys.bullmqPrefix + id);
  const bullmqKeys = async (): Promise<string[]> => {
    const names = await fixture.names();
    const stem = `${fixture.scope.name}:`;
    return names.flatMap((name) => (name.startsWith(stem) ? [`${fixture.keys.prefix}:${name}`] : []));
  };
});

it('a paused namespace with 100,000 low keys costs no job and no start', async () => {
  const queue = await fixture.open();
  const low = Array.from({ length: 100_000 }, (_, at) => `paused/k${at}`);
  await queue.pause('namespace/paused');
  for (let from = 0; from < low.length; from += 5000) await queue.addLow(low.slice(from, from + 5000), 'resync');
  await queue.start(process);
  await queue.add(plain('live/a', 'live/b'));
  await eventually(async () =>
    expect((await queue.inspector.list('waiting', { offset: 0, limit: 1 })).total).toBe(100_000),
  );
  expect(process.keys().toSorted()).toEqual(['live/a', 'live/b']);
  // BullMQ counts its jobs. Both added keys started at once and needed none.
  expect(await fixture.redis.get(`${fixture.keys.bullmqPrefix}id`)).toBeNull();
  expect(await fixture.records()).toBe(0);
  await fixture.lose();
});

it('a record with nothing but a barrier has no expiry', async () => {
  const queue = await fixture.open();
  process.onRun = () => ({ kind: 'ended', failures: 'forget', barrier: 'b' });
  await queue.start(process);
  await queue.add(plain('k'));
  await eventually(async () => expect(process.keys()).toEqual(['k']));
  await atRest();
  expect(await fixture.redis.hget(`${fixture.keys.recordPrefix}k`, 'barrier')).toBe('b');
  expect(await fixture.redis.pttl(`${fixture.keys.recordPrefix}k`)).toBe(-1);
});
