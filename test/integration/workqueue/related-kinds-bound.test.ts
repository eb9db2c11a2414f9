import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, inject, it } from 'vitest';
import { silentLogger, silentMetrics, systemClock } from '../../../src/core/index.ts';
import { generateSecret, LEVELHOOK_HEADER } from '../../../src/contract/index.ts';
import { importExtractableSecret } from '../../../src/contract/signature.ts';
import { MAX_RELATED_KINDS } from '../../../src/contract/outcome.ts';
import { CacheAccess } from '../../../src/gateway/controller/access/cache-access.ts';
import { Dispatcher } from '../../../src/gateway/controller/dispatch/dispatcher.ts';
import { RelatedObjects } from '../../../src/gateway/controller/dispatch/related-objects.ts';
import { Endpoint } from '../../../src/gateway/controller/endpoint/endpoint.ts';
import type { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { ownBounds } from '../../harness/own-bounds.ts';
import { RedisQueueFixture } from '../../harness/redis-queue.ts';

let fixture: RedisQueueFixture;
let queue: BullMqWorkQueue;
let related: RelatedObjects;

beforeEach(async () => {
  fixture = await RedisQueueFixture.create(inject('redisUrl'), systemClock);
  queue = await fixture.open();
  related = newRelatedObjects();
});

const newRelatedObjects = (): RelatedObjects =>
  new RelatedObjects({
    rules: queue.relatedRules,
    budget: ownBounds().budget,
    kinds: undefined,
    complete: () => new Set(['v1/Watched']),
    exists: async () => true,
  });

afterEach(() => fixture.close());

const rulesOf = (key: number, count = 64) =>
  Array.from({ length: count }, (_, at) => ({ apiVersion: 'v1', kind: `Kind${key}x${at}` }));

/** @returns why the rules are not stored. */
async function record(key: number, rules: Parameters<RelatedObjects['record']>[1]): Promise<string | undefined> {
  await fixture.redis.hset(`${fixture.keys.recordPrefix}a/${key}`, 'run', '1');
  return related.record({ key: `a/${key}`, run: 1 }, rules);
}

it('results that come at once do not name more related kinds together than a controller may have', async () => {
  const keys = Array.from({ length: 100 }, (_, key) => key);
  expect(new Set(await Promise.all(keys.map((key) => related.refusal(rulesOf(key)))))).toEqual(new Set([undefined]));
  const ends = await Promise.all(keys.map((key) => record(key, rulesOf(key))));
  expect(ends.filter((refusal) => refusal === undefined)).toHaveLength(2);
  expect(new Set(ends)).toEqual(new Set([undefined, 'the keys name related objects of 192 kinds: 128 at most']));
  const index = await fixture.redis.zrange(fixture.keys.relatedIndex, '0', '-1');
  const stored = new Set(index.map((member) => member.split('\n')[0]));
  expect(stored.size).toBe(MAX_RELATED_KINDS);
  expect(new Set(await queue.relatedRules.kinds())).toEqual(stored);
});

const TOO_MANY = 'the keys name related objects of 129 kinds: 128 at most';

it('a run whose related kinds are too many when they are stored fails with the reason, by its answer or a callback', async () => {
  const result = { status: 'done', related: [{ apiVersion: 'v1', kind: 'Watched' }] } as const;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { [LEVELHOOK_HEADER]: 'v1' }).end(JSON.stringify({ version: 'v1', results: [result] }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const endpoint = new Endpoint(url, [await importExtractableSecret(generateSecret())], { connections: 1 });
  const cacheAccess = new CacheAccess({ views: [], api: undefined, clock: systemClock });
  const newDispatcher = (): Dispatcher =>
    new Dispatcher({
      bounds: ownBounds(),
      controller: 'c',
      views: [],
      starts: { keys: { allow() {} }, ending: new AbortController().signal },
      // The other instance has refused rules when it stored them, and counts the next ones before.
      target: { endpoint, cacheAccess, related: newRelatedObjects() },
      runtime: { clock: systemClock, logger: silentLogger, metrics: silentMetrics },
      settings: { logTriggers: false, startWindowMs: 0 },
    });
  try {
    await record(0, rulesOf(0));
    await record(1, rulesOf(1));
    await fixture.redis.hset(`${fixture.keys.recordPrefix}a/2`, 'run', '1');
    const run = { key: 'a/2', run: 1, failures: 0, deadlineMs: systemClock.now() + 60_000 };
    const failed = { kind: 'ended', failures: 'count', error: TOO_MANY };
    expect(await newDispatcher().run([{ ...run, incarnation: 'i', reasons: [] }])[0]).toMatchObject(failed);
    expect(await newDispatcher().concluded(run, result)).toMatchObject(failed);
    expect(await fixture.redis.hexists(fixture.keys.related, 'a/2')).toBe(0);
  } finally {
    await endpoint.close();
    server.close();
  }
});

it('a run whose related kinds were too many when they were stored fails the next time, until there is room', async () => {
  await record(0, rulesOf(0));
  await record(1, rulesOf(1));
  const watched = [{ apiVersion: 'v1', kind: 'Watched' }];
  expect(await record(2, watched)).toBe(TOO_MANY);
  expect(await related.refusal(watched)).toBe(TOO_MANY);
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
