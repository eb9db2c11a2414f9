import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { silentLogger, systemClock } from '../../../src/core/index.ts';
import { redisRunId } from '../../../src/gateway/informer/cache/incarnation.ts';
import { type QueueKeys, queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { GarbageCollector } from '../../../src/gateway/recovery/garbage-collection.ts';
import { loadScript, type Script } from '../../../src/ground/redis/redis.ts';
import { redisLocation, type RedisLocation } from '../../../src/ground/redis/redis-location.ts';
import { uniqueName } from '../../harness/levelhook.ts';

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
  const [, , end] = (await redis.hget(location.registryKey, FIELD))?.split(':') ?? [];
  expect(Number(end) - nowMs).toBeGreaterThanOrEqual(expectedMs);
  expect(Number(end) - nowMs).toBeLessThan(expectedMs + 1000);
  expect(await redis.keys(`${keys.prefix}*`)).toEqual([]);
});

it('scans Redis once for a queue, and not for a function that never had one', async () => {
  const scans = vi.spyOn(redis, 'scanStream');
  await redis.hset(location.registryKey, FIELD, '1');
  expect(await collector().forget('gone')).toBe(true);
  expect(scans).toHaveBeenCalledTimes(0);
  await redis.hset(keys.queue, { incarnation: 'i', runId: await redisRunId(redis) });
  await redis.hset(`${keys.recordPrefix}a/b`, 'state', 'idle');
  expect(await collector().forget('gone')).toBe(true);
  expect(scans).toHaveBeenCalledTimes(1);
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
    const [queue, inFlight, pauseEnds, backlog] = [keys.queue, keys.inFlight, keys.pauseEnds, keys.backlog];
    await redis.zadd(inFlight, 7, 'a/b');
    for (let times = 0; times < 2; times += 1) {
      expect(await disown([queue, inFlight, pauseEnds, backlog], ['mine'])).toEqual(['7', '0']);
    }
    await redis.hset(queue, { incarnation: 'j', owner: 'next' });
    expect(await disown([queue, inFlight, pauseEnds, backlog], ['mine'])).toBeNull();
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
