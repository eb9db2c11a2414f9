import { afterEach, beforeEach, expect, inject, it } from 'vitest';
import { systemClock } from '../../../src/core/index.ts';
import { MAX_RELATED_KINDS } from '../../../src/contract/outcome.ts';
import { RelatedObjects } from '../../../src/gateway/controller/dispatch/related-objects.ts';
import type { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { ownBounds } from '../../harness/own-bounds.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let fixture: RedisQueueFixture;
let queue: BullMqWorkQueue;
let related: RelatedObjects;

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
  queue = await fixture.open();
  related = new RelatedObjects({
    rules: queue.relatedRules,
    budget: ownBounds().budget,
    kinds: undefined,
    complete: () => new Set(['v1/Watched']),
    exists: async () => true,
  });
});

afterEach(() => fixture.close());

const rulesOf = (key: number, count = 64) =>
  Array.from({ length: count }, (_, at) => ({ apiVersion: 'v1', kind: `Kind${key}x${at}` }));

async function record(key: number, rules: Parameters<RelatedObjects['record']>[1]): Promise<void> {
  await fixture.redis.hset(`${fixture.keys.recordPrefix}a/${key}`, 'run', '1');
  await related.record({ key: `a/${key}`, run: 1 }, rules);
}

it('results that come at once do not name more related kinds together than a controller may have', async () => {
  const keys = Array.from({ length: 100 }, (_, key) => key);
  expect(new Set(await Promise.all(keys.map((key) => related.refusal(rulesOf(key)))))).toEqual(new Set([undefined]));
  const ends = await Promise.allSettled(keys.map((key) => record(key, rulesOf(key))));
  expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(2);
  const message = 'the keys name related objects of 192 kinds: 128 at most';
  expect(ends).toContainEqual({ status: 'rejected', reason: new Error(message) });
  const index = await fixture.redis.zrange(fixture.keys.relatedIndex, '0', '-1');
  const stored = new Set(index.map((member) => member.split('\n')[0]));
  expect(stored.size).toBe(MAX_RELATED_KINDS);
  expect(new Set(await queue.relatedRules.kinds())).toEqual(stored);
});

it('a run whose related kinds were too many when they were stored fails the next time, until there is room', async () => {
  await record(0, rulesOf(0));
  await record(1, rulesOf(1));
  const watched = [{ apiVersion: 'v1', kind: 'Watched' }];
  await expect(record(2, watched)).rejects.toThrow('of 129 kinds');
  expect(await related.refusal(watched)).toBe('the keys name related objects of 129 kinds: 128 at most');
  // Kinds that are on record stay allowed, for any key.
  expect(await related.refusal(rulesOf(0))).toBeUndefined();
  await record(2, rulesOf(0));
  await record(1, rulesOf(1, 63));
  expect(await related.refusal(watched)).toBeUndefined();
  await record(2, watched);
  expect(await queue.relatedRules.kinds()).toHaveLength(MAX_RELATED_KINDS);
});

it('the related kinds of a controller are read in a bounded script, however many an older gateway has stored', async () => {
  const members = Array.from({ length: 1000 }, (_, at) => [0, `v1/Kind${at}\n\n\na/0`]).flat();
  await fixture.redis.zadd(fixture.keys.relatedIndex, ...members);
  expect(await queue.relatedRules.kinds()).toHaveLength(MAX_RELATED_KINDS);
});

it('a key with a new rule runs again after its run, also when the answer that says so is lost', async () => {
  const dirty = (key: string) => fixture.redis.hget(`${fixture.keys.recordPrefix}a/${key}`, 'dirty');
  const [rule] = rulesOf(0, 1);
  // The script is sent again, and its first answer never came.
  await record(0, rule && [rule]);
  expect(await dirty('0')).toBe('1');
  await related.record({ key: 'a/0', run: 1 }, rule && [rule]);
  expect(await dirty('0')).toBe('1');
  await record(1, []);
  expect(await dirty('1')).toBeNull();
});
