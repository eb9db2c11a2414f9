import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { OwnRuns } from '../../../src/gateway/controller/workqueue/records/own-runs.ts';
import { type QueueKeys, queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { RunsInFlight } from '../../../src/gateway/controller/workqueue/records/runs-in-flight.ts';
import { uniqueName } from '../../harness/levelhook.ts';

describe('a run is in flight', () => {
  let redis: Redis;
  let keys: QueueKeys;
  let ownRuns: OwnRuns;
  let runs: RunsInFlight;

  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
    keys = queueKeys({ keyPrefix: uniqueName('test'), clusterId: 'c' }, 'web');
    ownRuns = new OwnRuns();
    runs = new RunsInFlight({ redis, keys, ownRuns, clock: { now: () => 1000 } });
    await redis.hset(keys.queue, 'incarnation', 'i');
    await redis.hset(`${keys.recordPrefix}a`, { run: 7, deadline: 2000 });
    await redis.hset(`${keys.recordPrefix}late`, { run: 8, deadline: 1000 });
    await redis.hset(`${keys.recordPrefix}over`, { failures: 0 });
  });
  afterAll(async () => {
    await redis.del(keys.queue, ...['a', 'late', 'over'].map((key) => keys.recordPrefix + key));
    redis.disconnect();
  });

  it('as its record has it, of this incarnation of the queue, before its deadline', async () => {
    expect(await runs.hasAny([{ key: 'a', run: 7 }], 'i')).toBe(true);
    expect(await runs.hasAny([{ key: 'a', run: 6 }], 'i')).toBe(false);
    expect(await runs.hasAny([{ key: 'a', run: 7 }], 'j')).toBe(false);
    expect(await runs.hasAny([{ key: 'late', run: 8 }], 'i')).toBe(false);
    expect(await runs.hasAny([{ key: 'over', run: 6 }], 'i')).toBe(false);
    expect(await runs.hasAny([], 'i')).toBe(false);
  });

  it('when any of a batch is', async () => {
    const over = [
      { key: 'over', run: 5 },
      { key: 'late', run: 8 },
    ];
    expect(await runs.hasAny([...over, { key: 'a', run: 7 }], 'i')).toBe(true);
    expect(await runs.hasAny(over, 'i')).toBe(false);
  });

  it('without a question to Redis while this gateway waits for its answer', async () => {
    ownRuns.begin({ key: 'own', run: 9, incarnation: 'i', deadlineMs: 2000 }, 900);
    expect(await runs.hasAny([{ key: 'own', run: 9 }], 'i')).toBe(true);
    expect(await runs.hasAny([{ key: 'own', run: 9 }], 'j')).toBe(false);
    ownRuns.finish({ key: 'own', run: 9, finish: { kind: 'ended', failures: 'forget' } });
    expect(await runs.hasAny([{ key: 'own', run: 9 }], 'i')).toBe(false);
  });
});
