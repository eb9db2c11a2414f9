import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { silentLogger, systemClock } from '../../../src/core/index.ts';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import { CONTROLLER_FIELD, removedValue } from '../../../src/gateway/election/registry-fields.ts';
import { redisRunId } from '../../../src/gateway/informer/cache/incarnation.ts';
import { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { OwnRuns } from '../../../src/gateway/controller/workqueue/records/own-runs.ts';
import { type QueueKeys, queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { GarbageCollector, keysToDisown } from '../../../src/gateway/recovery/garbage-collection.ts';
import { loadScript, type Script } from '../../../src/ground/redis/redis.ts';
import { redisLocation, type RedisLocation } from '../../../src/ground/redis/redis-location.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';

const FIELD = 'controller:gone';

let redis: Redis;
let location: RedisLocation;
let keys: QueueKeys;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

beforeEach(() => {
  location = redisLocation(redis, uniqueName('garbage'), 'c');
  keys = queueKeys(location, 'gone');
});

afterAll(() => redis.disconnect());

/** @param liveOwner asks the apiserver. Default: there is no such function. */
const collector = (liveOwner: () => Promise<string | undefined> = async () => undefined): GarbageCollector =>
  new GarbageCollector({ location, runtime: { clock: systemClock, logger: silentLogger }, liveOwner });

const script = (name: string): Script =>
  loadScript(redis, import.meta.resolve('../../../src/gateway/recovery/garbage-collection.ts'), name);

const left = async (): Promise<string[]> => (await redis.keys(`${keys.prefix}*`)).toSorted();

it.each([
  ['the last run on record', 5000, 0, 5000],
  ['the pause for runs without a record, if it is later', 5000, 9000, 9000],
  ['now, without either', 0, 0, 0],
])('the record of a removal ends with %s', async (_, runMs, pauseMs, expectedMs) => {
  const nowMs = systemClock.now();
  await redis.hset(keys.queue, { incarnation: 'i', runId: await redisRunId(redis) });
  await redis.hset(location.registryKey, FIELD, '1');
  if (runMs > 0) await redis.zadd(keys.inFlight, nowMs + runMs, 'a/b');
  if (pauseMs > 0) await redis.zadd(keys.pauseEnds, nowMs + pauseMs, 'recovery');
  expect(await collector().forget('gone')).toBe(true);
  const overMs = systemClock.now();
  const [, , end] = (await redis.hget(location.registryKey, FIELD))?.split(':') ?? [];
  expect(Number(end)).toBeGreaterThanOrEqual(nowMs + expectedMs);
  expect(Number(end)).toBeLessThanOrEqual(Math.max(nowMs + expectedMs, overMs));
  expect(await redis.keys(`${keys.prefix}*`)).toEqual([]);
});

/** @returns how many scans have begun since. */
function countScans(): () => number {
  const { mock } = vi.spyOn(redis, 'scan').mockClear();
  return () => mock.calls.filter(([cursor]) => cursor === '0').length;
}

it('scans Redis once for a queue, and not for a function that never had one', async () => {
  const scans = countScans();
  await redis.hset(location.registryKey, FIELD, '1');
  expect(await collector().forget('gone')).toBe(true);
  expect(scans()).toBe(0);
  await redis.hset(keys.queue, { incarnation: 'i', runId: await redisRunId(redis) });
  await redis.hset(`${keys.recordPrefix}a/b`, 'state', 'idle');
  expect(await collector().forget('gone')).toBe(true);
  expect(scans()).toBe(1);
  expect(await left()).toEqual([]);
});

/** Makes queues with data that name no owner. @returns their names. */
async function abandon(count: number, prefix: string): Promise<string[]> {
  const names = Array.from({ length: count }, (_, at) => `${prefix}${at}`);
  for (const name of names) {
    const { queue, recordPrefix, timers } = queueKeys(location, name);
    await redis.hset(queue, { incarnation: 'i', runId: await redisRunId(redis) });
    await redis.hset(`${recordPrefix}a/}:b`, 'state', 'idle');
    await redis.zadd(timers, 1, 'a/}:b');
    await redis.hset(location.registryKey, `controller:${name}`, '1');
  }
  return names;
}
const allLeft = (): Promise<string[]> => redis.keys(`{${location.keyPrefix}:v1:c:queue:*`);

it('removals that come together share two scans of Redis, and remove no other queue', async () => {
  const names = await abandon(20, 'gone');
  const [kept = ''] = await abandon(1, 'kept');
  const scans = countScans();
  const together = collector();
  expect(await Promise.all(names.map((name) => together.forget(name)))).toEqual(names.map(() => true));
  // The first of them begins a scan at once, the others share the next one.
  expect(scans()).toBeLessThanOrEqual(2);
  const queue = queueKeys(location, kept);
  expect((await allLeft()).toSorted()).toEqual([`${queue.recordPrefix}a/}:b`, queue.queue, queue.timers].toSorted());
});

it('the queues that earlier gateways have left are removed with few scans, whatever their number', async () => {
  await abandon(20, 'gone');
  expect(await allLeft()).toHaveLength(60);
  const scans = countScans();
  await collector().collect({ removeUnused: async () => [] }, { configured: new Set(['other']), declared: [] });
  expect(scans()).toBeLessThanOrEqual(2);
  expect(await allLeft()).toEqual([]);
});

/** What may be written of a queue before it is in order, and so before it has its hash. */
const FIRST_WRITES: readonly [string, (queue: BullMqWorkQueue, own: OwnRuns) => Promise<unknown>][] = [
  ['an add', (queue) => queue.add([{ key: 'a/b', reasons: [] }])],
  ['a low-priority add', (queue) => queue.addLow(['a/b'], 'resync')],
  ['an add for later', (queue) => queue.addAfter('a/b', 60_000)],
  ['a pause', (queue) => queue.pause('controller')],
  ['a pause that ends', (queue) => queue.pause('recovery', systemClock.now() + 60_000)],
  ["BullMQ's metadata, where the first check was broken off", () => redis.hset(keys.settings, 'version', '5')],
  ['a sample', () => redis.hset(keys.samples, '1', '0')],
  [
    'a run of the owner before, put back',
    (queue, own) => {
      own.begin({ key: 'a/b', run: 7, incarnation: 'i', deadlineMs: systemClock.now() + 60_000 }, systemClock.now());
      return queue.putBackRuns('process');
    },
  ],
];

it.each(FIRST_WRITES)('nothing is left of a queue that was never in order: %s', async (_, write) => {
  const own = new OwnRuns();
  const queue = new BullMqWorkQueue({
    name: 'gone',
    behaviour: { concurrency: 1, timeoutMs: 60_000 },
    location: { ...location, owner: 'mine' },
    runtime: quietRuntime({}),
    ownRuns: own,
  });
  queue.suspend();
  await write(queue, own);
  const deadlineMs = Math.max(0, ...own.inFlight(systemClock.now()).map((run) => run.deadlineMs));
  expect(await left()).not.toEqual([]);
  await queue.stop(0);
  const scan = vi.spyOn(redis, 'scan').mockImplementationOnce(() => {
    throw new Error('the gateway ends in the middle');
  });
  await expect(collector().forget('gone')).rejects.toThrow('in the middle');
  scan.mockRestore();
  expect(await queue.record.state()).toMatchObject({ isForeign: true });
  // The registry has the end of its runs, and the next gateway finds the rest by it.
  const [, , end] = (await redis.hget(location.registryKey, FIELD))?.split(':') ?? [];
  expect(Number(end)).toBeGreaterThanOrEqual(deadlineMs);
  await collector().collect({ removeUnused: async () => [] }, { configured: new Set(['other']), declared: [] });
  expect(await left()).toEqual([]);
});

it('a late mark of a removed controller goes from all views when its last runs are over', async () => {
  const nowMs = systemClock.now();
  const removals = { over: { atMs: nowMs - 20_000, endMs: nowMs }, running: { atMs: nowMs, endMs: nowMs + 60_000 } };
  const views = ['one', 'two'].map((name) => viewKeys(`${location.keyPrefix}:${name}`).view);
  await redis.sadd(location.viewsKey, `${location.keyPrefix}:one`, `${location.keyPrefix}:two`);
  for (const view of views) {
    await redis.hset(view, {
      users: 'over\nrunning\nhere',
      'missed:over': '1',
      'missed:running': '1',
      'missed:here': '1',
    });
  }
  for (const [name, removal] of Object.entries(removals)) {
    await redis.hset(location.registryKey, CONTROLLER_FIELD + name, removedValue(removal));
  }
  await collector().collect({ removeUnused: async () => [] }, { configured: new Set(['here']), declared: [] });
  for (const view of views) {
    expect(await redis.hgetall(view)).toEqual({ users: 'running\nhere', 'missed:running': '1', 'missed:here': '1' });
  }
  expect(await redis.hkeys(location.registryKey)).toEqual([`${CONTROLLER_FIELD}running`]);
});

it('keys that a late request has queued after a removal go when its last runs are over', async () => {
  const removal = { atMs: systemClock.now() - 20_000 };
  /** @returns the keys of Redis that it has written. */
  const late = async (name: string, endMs: number): Promise<string[]> => {
    const { backlog, recordPrefix } = queueKeys(location, name);
    await redis.zadd(backlog, 1, 'a/b');
    await redis.hset(`${recordPrefix}a/b`, 'state', 'ready');
    await redis.hset(location.registryKey, CONTROLLER_FIELD + name, removedValue({ ...removal, endMs }));
    return [backlog, `${recordPrefix}a/b`];
  };
  await late('ns.over', removal.atMs);
  const { queue } = queueKeys(location, 'ns.back');
  await redis.hset(queue, 'incarnation', 'i');
  const kept = [...(await late('ns.back', removal.atMs)), queue];
  // Its queue is not in order yet.
  kept.push(...(await late('ns.starting', removal.atMs)));
  kept.push(...(await late('ns.running', systemClock.now() + 60_000)));
  const ending = new AbortController();
  const clock = { ...systemClock, now: () => systemClock.now(), sleep: async () => {} };
  let sweeps = 0;
  await new GarbageCollector({
    location,
    runtime: { clock, logger: silentLogger },
    liveOwner: async () => undefined,
  }).sweep({
    signal: ending.signal,
    leads: () => {
      if (sweeps === 1) ending.abort();
      sweeps += 1;
      return sweeps === 1;
    },
    isThere: (name) => name === 'ns.starting',
  });
  expect((await allLeft()).toSorted()).toEqual(kept.toSorted());
  expect((await redis.hkeys(location.registryKey)).toSorted()).toEqual(
    ['ns.running', 'ns.starting'].map((name) => CONTROLLER_FIELD + name),
  );
});

it('a queue that was made and never used has written nothing', async () => {
  const queue = new BullMqWorkQueue({
    name: 'gone',
    behaviour: { concurrency: 1, timeoutMs: 60_000 },
    location,
    runtime: quietRuntime({}),
  });
  await queue.jobs.lists();
  await queue.stop(0);
  expect(await left()).toEqual([]);
});

describe('a queue with an owner', () => {
  beforeEach(async () => {
    await redis.hset(keys.queue, { incarnation: 'i', owner: 'mine', runId: await redisRunId(redis) });
    await redis.zadd(keys.dead, 1, 'a/b');
    await redis.hset(`${keys.recordPrefix}a/b`, 'state', 'idle');
  });

  it('goes when its ReconcileFunction is not there, or another one has its name', async () => {
    for (const owner of [undefined, 'another']) {
      await redis.hset(keys.queue, { incarnation: 'i', owner: 'mine' });
      expect(await collector(async () => owner).forget('gone')).toBe(true);
      expect(await left()).toEqual([]);
    }
  });

  it('stays when that is the one that the apiserver has, whatever the caller has heard', async () => {
    const before = await left();
    expect(before).toHaveLength(3);
    expect(await collector(async () => 'mine').forget('gone')).toBe(false);
    expect(await left()).toEqual(before);
    expect(await redis.hget(keys.queue, 'incarnation')).toBe('i');
  });

  it('stays when it was begun anew while the caller asked', async () => {
    const before = await left();
    const asks = collector(async () => {
      await redis.hset(keys.queue, { incarnation: 'j', owner: 'next' });
      return 'next';
    });
    expect(await asks.forget('gone')).toBe(false);
    expect(await left()).toEqual(before);
    expect(await redis.hget(keys.queue, 'incarnation')).toBe('j');
  });

  it('has its removal begun once where the script is sent twice', async () => {
    const disown = script('disown');
    await redis.zadd(keys.inFlight, 7, 'a/b');
    for (let times = 0; times < 2; times += 1) {
      expect(await disown(keysToDisown(keys), ['mine'])).toEqual(['7', '0', 1]);
    }
    await redis.hset(keys.queue, { incarnation: 'j', owner: 'next' });
    expect(await disown(keysToDisown(keys), ['mine'])).toBeNull();
  });

  it('stays while the apiserver does not answer', async () => {
    const before = await left();
    const refused = collector(() => Promise.reject(new Error('connection refused')));
    await expect(refused.forget('gone')).rejects.toThrow('connection refused');
    expect(await left()).toEqual(before);
  });

  it('loses no key once it is in use again, to a removal that stood still in the middle', async () => {
    const unlinkRest = script('unlink-rest');
    expect(await unlinkRest([keys.queue, keys.dead, keys.queue], [])).toBe(0);
    expect(await left()).toHaveLength(3);
    await redis.hdel(keys.queue, 'incarnation');
    expect(await unlinkRest([keys.queue, keys.dead, keys.queue], [])).toBe(1);
    expect(await left()).toEqual([`${keys.recordPrefix}a/b`]);
  });
});
