import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, inject, it } from 'vitest';
import { silentLogger } from '../../../src/core/index.ts';
import { Replays } from '../../../src/gateway/http/dashboard/replays.ts';
import { redisLocation, type RedisLocation } from '../../../src/ground/redis/redis-location.ts';
import { ReplayRecords } from '../../../src/gateway/controller/workqueue/records/replay-records.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { ShiftedClock } from '../../harness/test-clock.ts';

let redis: Redis;
let other: Redis;
let location: RedisLocation;
let clock: ShiftedClock;

beforeAll(() => {
  redis = new Redis(inject('redisUrl'));
  other = new Redis(inject('redisUrl'));
});

beforeEach(() => {
  location = redisLocation(redis, uniqueName('replays'), 'c');
  clock = new ShiftedClock();
});

afterAll(() => {
  redis.disconnect();
  other.disconnect();
});

interface Work {
  readonly onProgress: (done: number, total: number) => void;
  readonly end: (done: number) => void;
  readonly fail: (error: Error) => void;
}

/** A replay whose progress the test tells. Undefined when it may not begin. */
async function begin(records: ReplayRecords, controller = 'web'): Promise<Work | undefined> {
  const replays = new Replays({ records, clock, logger: silentLogger });
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let tell: Work['onProgress'] = () => {};
  const begun = await replays.start(controller, 'all dead letters', (onProgress) => {
    tell = onProgress;
    return promise;
  });
  return begun ? { onProgress: (done, total) => tell(done, total), end: resolve, fail: reject } : undefined;
}

/** Of two gateways. */
function gateways(): [ReplayRecords, ReplayRecords] {
  return [new ReplayRecords(location, clock), new ReplayRecords({ ...location, redis: other }, clock)];
}

it('each gateway sees the progress and the end of a replay of another one', async () => {
  const [here, elsewhere] = gateways();
  const work = await begin(here);
  expect(await elsewhere.recent()).toMatchObject([{ controller: 'web', label: 'all dead letters', done: 0 }]);
  clock.advance(1000);
  work?.onProgress(500, 1200);
  await eventually(async () => expect(await elsewhere.recent()).toMatchObject([{ done: 500, total: 1200 }]));
  expect((await elsewhere.recent())[0]).not.toHaveProperty('endedMs');
  // Within the same second: only the end is recorded.
  work?.onProgress(1000, 1200);
  work?.end(1200);
  await eventually(async () => {
    expect(await elsewhere.recent()).toMatchObject([{ done: 1200, endedMs: expect.any(Number) as number }]);
  });
});

it('a controller has one replay at a time over all gateways, and another one afterwards', async () => {
  const [here, elsewhere] = gateways();
  const first = await begin(here);
  expect(await begin(elsewhere)).toBeUndefined();
  expect(await begin(here)).toBeUndefined();
  expect(await begin(elsewhere, 'api')).toBeDefined();
  first?.fail(new Error(`the queue is away ${'!'.repeat(2000)}`));
  await eventually(async () => {
    const [failed] = (await elsewhere.recent()).filter(({ controller }) => controller === 'web');
    expect(failed?.error).toMatch(/^the queue is away/);
    expect(failed?.error?.length).toBeLessThanOrEqual(1024);
  });
  expect(await begin(elsewhere)).toBeDefined();
  expect(await here.recent()).toHaveLength(2);
});

it('a replay whose gateway was killed gives way after a minute, and its late news changes nothing', async () => {
  const [here, elsewhere] = gateways();
  const first = await begin(here);
  clock.advance(50_000);
  expect(await begin(elsewhere)).toBeUndefined();
  clock.advance(11_000);
  expect(await begin(elsewhere)).toBeDefined();
  const [second] = await elsewhere.recent();
  // It only stood still.
  first?.onProgress(7, 9);
  first?.end(9);
  await here.report({ ...(second ?? expect.fail()), id: 'of the first', done: 9 });
  await redis.ping();
  expect(await elsewhere.recent()).toEqual([second]);
});

it('replays go away by themselves', async () => {
  const [here] = gateways();
  (await begin(here, 'old'))?.end(1);
  await eventually(async () => expect((await here.recent())[0]).toHaveProperty('endedMs'));
  expect(await redis.pttl(location.replaysKey)).toBeGreaterThan(9 * 60_000);
  expect(await redis.pttl(location.replaysKey)).toBeLessThanOrEqual(10 * 60_000);
  clock.advance(10 * 60_000 + 1);
  expect(await here.recent()).toEqual([]);
  // Another replay keeps the key, not what is old in it.
  await begin(here, 'new');
  expect(await redis.hkeys(location.replaysKey)).toEqual(['new']);
});

it('a record that cannot be read neither stops a replay nor shows', async () => {
  const [here] = gateways();
  await redis.hset(location.replaysKey, { web: 'not JSON', api: '{"seenMs":"soon"}' });
  expect(await here.recent()).toEqual([]);
  expect(await begin(here)).toBeDefined();
  expect(await here.recent()).toMatchObject([{ controller: 'web' }]);
});
