import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { LEFT_OUT_INDEX, namespaceIndex, orphanIndex, viewKeys } from '../../../src/contract/cache-layout.ts';
import { RedisReader } from '../../../src/function/node/redis-reader.ts';
import { keysOfPart } from '../../../src/gateway/controller/running/keys-in-scope.ts';
import { HandlerError } from '../../../src/gateway/informer/cache/change.ts';
import { type LookupBudget, resolveLookup, unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { configMaps } from '../../harness/cluster.ts';
import { newSeed, randomOf } from '../../harness/random.ts';
import { expectShortCommands } from '../../harness/slow-commands.ts';
import { createView } from '../../harness/views.ts';

let server: RedisServer;
let admin: Redis;
let redis: Redis;
let view: View;

beforeAll(async () => {
  // Of its own: the commands of others must not stand in its log.
  server = await startRedis({ ignoreEnvironment: true });
  admin = await connectRedis(server.url);
  redis = await connectRedis(server.url);
});

afterAll(async () => {
  redis.disconnect();
  admin.disconnect();
  await server.stop();
});

/** Puts keys under index entries, as the apply script does with their objects. */
async function put(keys: readonly string[], entries: readonly string[]): Promise<void> {
  const { entries: hash, order, indexPrefix } = viewKeys(view.location.prefix);
  for (let from = 0; from < keys.length; from += 5000) {
    const part = keys.slice(from, from + 5000);
    await admin.hset(hash, ...part.flatMap((key) => [key, '1\nu\n']));
    await admin.zadd(order, ...part.flatMap((key) => [0, key]));
    for (const entry of entries) await admin.sadd(indexPrefix + entry, ...part);
  }
}

const namesIn = (namespace: string, count: number): string[] =>
  Array.from({ length: count }, (_, at) => `${namespace}/object-${at}`);

/** The most texts that one answer of Redis had during `work`. */
async function largestAnswer(work: () => Promise<unknown>): Promise<number> {
  const sent = vi.spyOn(redis, 'sendCommand');
  await work();
  const answers = await Promise.all(sent.mock.calls.map(([{ promise }]) => promise as Promise<unknown>));
  sent.mockRestore();
  return Math.max(...answers.map((answer) => [answer].flat(Infinity).length));
}

/** Of one tenant. */
const MANY = 150_000;
/** No answer has more keys. */
/** Of an index alone: one key more shows that there are more. */
const MOST = 5001;

describe('a namespace with 150,000 objects', () => {
  const large = namesIn('large', MANY);
  const other = namesIn('other', 3);

  // Once: no test of these writes.
  beforeAll(async () => {
    view = createView(redis, configMaps);
    await put(large, [namespaceIndex('large'), LEFT_OUT_INDEX, 'labels=app=x']);
    await put(other, [namespaceIndex('other'), LEFT_OUT_INDEX]);
  });

  it.each<{ by: string; read: () => Promise<number>; count: number }>([
    { by: 'view', read: async () => (await view.indexer.keysWith([])).length, count: MANY + 3 },
    {
      by: 'namespace',
      read: async () => (await view.indexer.keysWith([namespaceIndex('large')])).length,
      count: MANY,
    },
    {
      by: 'two indexes',
      read: async () => (await view.indexer.keysWith([namespaceIndex('large'), 'labels=app=x'])).length,
      count: MANY,
    },
    {
      by: 'one of several entries',
      read: async () =>
        (await view.indexer.keysWith([], { anyOf: ['labels=app=x', namespaceIndex('large'), namespaceIndex('other')] }))
          .length,
      count: MANY + 3,
    },
    {
      by: 'part of a controller',
      read: async () => {
        let sum = 0;
        for await (const keys of keysOfPart({ view, namespace: 'large' })) sum += keys.length;
        return sum;
      },
      count: MANY,
    },
  ])('is read in pages, none of which blocks Redis for long: by $by', async ({ read, count }) => {
    let found = 0;
    expect(await largestAnswer(async () => (found = await read()))).toBeLessThanOrEqual(MOST);
    expect(found).toBe(count);
    await expectShortCommands(admin, read);
  });

  it.each<{ by: string; budget: (spend: () => void) => Partial<LookupBudget> }>([
    { by: 'keys that it finds', budget: (spend) => ({ chargeKeys: spend }) },
    {
      by: 'objects that it looks at',
      budget: (spend) => ({
        labelSelector: { matchLabels: { app: 'x' } },
        run: (work) => {
          spend();
          return work();
        },
      }),
    },
  ])('is read by a lookup as far as its controller can pay for the $by', async ({ budget }) => {
    let left = 3;
    const spend = (): void => {
      if (left === 0) throw new HandlerError('no time left');
      left -= 1;
    };
    const lookup = { view: view.location.prefix, entries: [namespaceIndex('large')] };
    const sent = vi.spyOn(redis, 'sendCommand');
    await expect(resolveLookup(view, lookup, { ...unlimitedLookups, ...budget(spend) })).rejects.toThrow(HandlerError);
    const commands = sent.mock.calls.length;
    sent.mockRestore();
    expect(commands).toBeLessThanOrEqual(4);
  });

  it('has no cost for another one, which is read with one command', async () => {
    await view.indexer.keysWith([namespaceIndex('other')]);
    const sent = vi.spyOn(redis, 'sendCommand');
    expect((await view.indexer.keysWith([namespaceIndex('other'), LEFT_OUT_INDEX])).toSorted()).toEqual(other);
    expect((await view.indexer.keysWith([namespaceIndex('large'), namespaceIndex('other')])).toSorted()).toEqual([]);
    expect(sent).toHaveBeenCalledTimes(2);
  });
});

describe('pages of a large index', () => {
  beforeEach(() => {
    view = createView(redis, configMaps);
  });

  it('are what a function reads of 20,000 objects', async () => {
    const count = 20_000;
    const objects = Array.from({ length: count }, (_, at) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace: 'a', name: `object-${at}`, uid: `u${at}`, resourceVersion: String(at + 1) },
    }));
    await view.writer.claim('writer');
    await applierOf(view).apply(listOf(String(count), objects));
    const reader = new RedisReader(redis, { views: { 'v1/ConfigMap': [view.location] } });
    let found: string[] = [];
    const largest = await largestAnswer(async () => {
      const { items } = await reader.list(configMaps, { orphansIn: 'a' });
      found = items.map(({ metadata }) => metadata.name);
    });
    expect(largest).toBeLessThanOrEqual(MOST);
    expect(found).toEqual(objects.map(({ metadata }) => metadata.name).toSorted());
    expect(await redis.scard(viewKeys(view.location.prefix).indexPrefix + orphanIndex('a'))).toBe(count);
  });

  it('have the keys that the whole index has, and during changes each key that carries the entries throughout', async () => {
    const seed = newSeed();
    const random = randomOf(seed);
    const below = (count: number): number => Math.floor(random() * count);
    const { order, indexPrefix } = viewKeys(view.location.prefix);
    const places = ['', 'a', 'a-', 'b'];
    // Of more than a page and of less.
    const sizes: Record<string, number> = { '': 500, a: 9000, 'a-': 2000, b: 2001 };
    const all = places.flatMap((place) =>
      Array.from({ length: sizes[place] ?? 0 }, (_, at) => (place === '' ? `n${at}` : `${place}/n${at}`)),
    );
    const entries = { few: 0.01, half: 0.5, most: 0.95 };
    const carried = new Map<string, Set<string>>();
    for (const place of places.slice(1)) {
      carried.set(namespaceIndex(place), new Set(all.filter((key) => key.startsWith(`${place}/`))));
    }
    for (const [entry, share] of Object.entries(entries)) {
      carried.set(entry, new Set(all.filter(() => random() < share)));
    }
    await put(all, []);
    for (const [entry, keys] of carried) await put([...keys], [entry]);
    const names = [...carried.keys(), 'none'];
    const wholeOf = (query: readonly string[], anyOf: readonly string[]): string[] => {
      const has = (key: string, entry: string): boolean => carried.get(entry)?.has(key) ?? false;
      return all
        .filter((key) => query.every((entry) => has(key, entry)))
        .filter((key) => anyOf.length === 0 || anyOf.some((entry) => has(key, entry)))
        .toSorted();
    };
    const picked = (most: number): string[] =>
      Array.from({ length: below(most + 1) }, () => names[below(names.length)] ?? '');

    let found = 0;
    for (let at = 0; at < 20; at += 1) {
      // One read of everything: small draws alone would show little.
      const [query, anyOf] = at === 0 ? [[], []] : [[...new Set(picked(3))], picked(2)];
      const said = JSON.stringify({ seed, query, anyOf });
      const whole = wholeOf(query, anyOf);
      expect((await view.indexer.keysWith(query, { anyOf })).toSorted(), said).toEqual(whole);
      // During the next read other keys come and go.
      const gone = new Set(Array.from({ length: 100 }, () => all[below(all.length)] ?? ''));
      const come = Array.from({ length: 100 }, (_, nth) => `a/m${at}-${nth}`);
      const changes = async (): Promise<void> => {
        // As one script does: no read may find a key that is gone from some of its sets alone.
        for (const key of gone) {
          const multi = admin.multi().zrem(order, key);
          for (const entry of names) multi.srem(indexPrefix + entry, key);
          await multi.exec();
        }
      };
      const [during] = await Promise.all([
        view.indexer.keysWith(query, { anyOf }),
        changes(),
        put(come, [namespaceIndex('a'), 'most']),
      ]);
      const read = new Set(during);
      const ofAll = new Set([...whole, ...come]);
      expect(read.size, `${said}: a key twice`).toBe(during.length);
      expect(
        whole.filter((key) => !gone.has(key) && !read.has(key)),
        `${said}: missed`,
      ).toEqual([]);
      expect(
        during.filter((key) => !ofAll.has(key)),
        `${said}: found without the entries`,
      ).toEqual([]);
      found += during.length;
      // As before.
      for (const [entry, keys] of carried)
        await put(
          [...gone].filter((key) => keys.has(key)),
          [entry],
        );
      await put([...gone], []);
      const undo = admin.multi().zrem(order, ...come);
      for (const entry of [namespaceIndex('a'), 'most']) undo.srem(indexPrefix + entry, ...come);
      await undo.exec();
    }
    expect(found).toBeGreaterThan(10_000);
  });
});
