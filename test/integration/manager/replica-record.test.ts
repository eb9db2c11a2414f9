import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, inject, it } from 'vitest';
import { silentLogger } from '../../../src/core/index.ts';
import { GarbageCollector } from '../../../src/gateway/recovery/garbage-collection.ts';
import { ReplicaRecord, type ReplicaRole } from '../../../src/gateway/election/replica-record.ts';
import { redisLocation, type RedisLocation } from '../../../src/ground/redis/redis-location.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { InstantClock, ShiftedClock } from '../../harness/test-clock.ts';

let redis: Redis;
let location: RedisLocation;
/** Only the test moves it, so that records become no older than it says. */
let clock: ShiftedClock | InstantClock;

beforeAll(async () => {
  redis = new Redis(inject('redisUrl'));
  await redis.ping();
});

beforeEach(() => {
  location = redisLocation(redis, uniqueName('replicas'), 'c');
  clock = new InstantClock();
});

afterAll(() => redis.disconnect());

interface Gateway {
  readonly record: ReplicaRecord;
  readonly become: (role: ReplicaRole) => void;
  /** Ends as by SIGTERM. */
  readonly stop: () => Promise<void>;
}

/** Without `run`, a gateway records itself when the test says so, and is killed by not doing so any more. */
function open(id: string, role: ReplicaRole, { run = false }: { readonly run?: boolean } = {}): Gateway {
  const stopping = new AbortController();
  const now = { role };
  const record = new ReplicaRecord({
    runtime: { clock, logger: silentLogger },
    location,
    id,
    version: '1.2.3',
    role: () => now.role,
  });
  const running = run ? record.run(stopping.signal) : Promise.resolve();
  const stop = async (): Promise<void> => {
    stopping.abort();
    await running;
  };
  return { record, stop, become: (next) => (now.role = next) };
}

const listed = async ({ record }: Gateway): Promise<string[]> =>
  (await record.all()).map(({ id, role }) => `${id} ${role}`);
const fields = async (): Promise<string[]> =>
  (await redis.hkeys(location.registryKey)).filter((field) => field.startsWith('replica:'));
const sweep = (): Promise<void> =>
  new GarbageCollector({
    location,
    runtime: { clock, logger: silentLogger },
    liveOwner: async () => undefined,
  }).collect({ removeUnused: async () => [] }, { configured: new Set(), declared: undefined });

it('all gateways list the same gateways, with role, version and times', async () => {
  const startedMs = clock.now();
  const gateways = [open('a', 'leader'), open('b', 'follower'), open('c', 'starting')];
  for (const { record } of gateways) await record.record();
  clock.advance(5000);
  for (const gateway of gateways) {
    expect(await listed(gateway)).toEqual(['a leader', 'b follower', 'c starting']);
    expect((await gateway.record.all()).filter(({ isThis }) => isThis)).toHaveLength(1);
  }
  const [first] = (await gateways[1]?.record.all()) ?? [];
  expect(first).toMatchObject({ id: 'a', version: '1.2.3', isThis: false });
  for (const ms of [first?.startedMs, first?.roleSinceMs, first?.seenMs]) {
    expect(ms).toBe(startedMs);
  }
});

it('a role that changes is listed at once, with the time of the change', async () => {
  const [a, b] = [open('a', 'follower'), open('b', 'follower')];
  for (const { record } of [a, b]) await record.record();
  clock.advance(3000);
  const changedMs = clock.now();
  a.become('leader');
  await a.record.record();
  expect(await listed(b)).toEqual(['a leader', 'b follower']);
  const [seen] = await b.record.all();
  expect(seen?.roleSinceMs).toBe(changedMs);
  expect(seen?.startedMs).toBe(changedMs - 3000);
});

it('a gateway that was killed is gone after 45 s, and its field with the next sweep', async () => {
  const [killed, left] = [open('killed', 'leader'), open('left', 'follower')];
  for (const { record } of [killed, left]) await record.record();
  for (let seconds = 0; seconds < 40; seconds += 10) {
    clock.advance(10_000);
    await left.record.record();
  }
  expect(await listed(left)).toEqual(['killed leader', 'left follower']);
  await sweep();
  expect(await fields()).toHaveLength(2);
  clock.advance(6000);
  expect(await listed(left)).toEqual(['left follower']);
  await sweep();
  expect(await fields()).toEqual(['replica:left']);
  // It only stood still.
  await killed.record.record();
  expect(await listed(left)).toEqual(['killed leader', 'left follower']);
});

it('a gateway that stops removes its field', async () => {
  // It sleeps between its records.
  clock = new ShiftedClock();
  const [stopped, left] = [open('stopped', 'leader', { run: true }), open('left', 'follower', { run: true })];
  await eventually(async () => expect(await fields()).toHaveLength(2));
  await stopped.stop();
  expect(await listed(left)).toEqual(['left follower']);
  await left.stop();
  expect(await fields()).toEqual([]);
});

it('an idle gateway writes once in ten seconds, and again when Redis has lost its field', async () => {
  const gateway = open('a', 'alone');
  const writes = async (): Promise<number> => {
    // Kept apart from what others do: the field is removed, and a write brings it back.
    let count = 0;
    for (let second = 0; second < 30; second += 1) {
      await redis.hdel(location.registryKey, 'replica:a');
      await gateway.record.record();
      count += (await fields()).length;
      clock.advance(1000);
    }
    return count;
  };
  expect(await writes()).toBe(3);
});

it('fields that cannot be read are left out, and removed by the next sweep', async () => {
  const gateway = open('a', 'alone');
  await gateway.record.record();
  await redis.hset(location.registryKey, { 'replica:x': 'not JSON', 'replica:y': '{"role":"king"}', dataVersion: 1 });
  expect(await listed(gateway)).toEqual(['a alone']);
  await sweep();
  expect(await redis.hkeys(location.registryKey)).toEqual(expect.arrayContaining(['replica:a', 'dataVersion']));
  expect(await fields()).toEqual(['replica:a']);
});
