import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type KubernetesObject, resource, silentLogger, silentMetrics } from '../../../src/core/index.ts';
import { viewPrefix } from '../../../src/contract/cache-layout.ts';
import { ObjectKeptOutError } from '../../../src/contract/node/codec.ts';
import { nodeOf } from '../../../src/ground/redis/cluster.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { MemoryShares } from '../../../src/ground/redis/memory-shares.ts';
import { readMemory } from '../../../src/ground/redis/redis-memory.ts';
import { connectRedis, type Redis, takeOutOfMemory } from '../../../src/ground/redis/redis.ts';
import { TimeSlice } from '../../../src/ground/time-slice.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { garbageCollector } from '../../harness/memory-use.ts';
import { RedisClusterNodes } from '../../harness/redis-process.ts';
import { Started } from '../../harness/started.ts';
import { ShiftedClock } from '../../harness/test-clock.ts';

const things = resource('example.com/v1', 'Thing');
const MIB = 2 ** 20;
const LIMIT = 64 * MIB;

let server: RedisServer;
let redis: Redis;
let view: View;
let applier: Applier;
let memory: MemoryShares;
/** Further views. */
let others: View[];
let knowsReaders = true;
let version = 1;
const clock = new ShiftedClock();

/** What cannot be compressed. */
const thing = (namespace: string, name: string, bytes: number) => {
  version += 1;
  const metadata = { namespace, name, uid: `uid-${namespace}-${name}`, resourceVersion: String(version) };
  return {
    apiVersion: 'example.com/v1',
    kind: 'Thing',
    metadata,
    spec: { text: randomBytes((bytes * 3) / 4).toString('base64') },
  };
};

/** Without the buffers of connections, which shrink when they are idle. */
const dataMiB = async (): Promise<number> => {
  const buffers = /^mem_clients_normal:(\d+)/m.exec(await redis.info('memory'))?.[1];
  return (await usedMiB()) - Number(buffers) / MIB;
};
const usedMiB = async (): Promise<number> => (await readMemory(redis)).used / MIB;
const found = async (key: string, of = view): Promise<boolean> => {
  const { stored } = await of.reader().get(key);
  return of.reader().found(key, stored) !== undefined;
};
const reasonOf = async (key: string, of = view): Promise<string | undefined> => {
  try {
    expect(await found(key, of)).toBe(true);
    return undefined;
  } catch (error) {
    if (error instanceof ObjectKeptOutError) return error.reason;
    throw error;
  }
};

const shares = (): MemoryShares =>
  new MemoryShares({
    redis,
    runtime: { clock, logger: silentLogger, metrics: silentMetrics },
    holders: () => [view, ...others],
    knowsReaders: () => knowsReaders,
    onChanged: () => {},
    onTakeBack: () => {},
  });

beforeAll(async () => {
  server = await startRedis({ ignoreEnvironment: true });
  redis = await connectRedis(server.url);
  await redis.config('SET', 'maxmemory', LIMIT);
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

beforeEach(async () => {
  await redis.flushall('SYNC');
  others = [];
  knowsReaders = true;
  memory = shares();
  await memory.look();
  view = await openView();
  applier = applierOf(view);
});

async function openView(of = things): Promise<View> {
  const prefix = viewPrefix({ keyPrefix: uniqueName('test'), clusterId: 'c', resource: of, settings: 's' });
  const opened = new View(redis, of, { prefix }, undefined, { memory });
  await opened.writer.claim('writer');
  return opened;
}

const change = async (object: KubernetesObject): Promise<void> => {
  await applier.apply([{ kind: 'changed', object }]);
};

describe('Redis of 64 MB', () => {
  it('is never full by the objects of one namespace, and the others are served', async () => {
    await applier.apply(listOf('1', []));
    const used: number[] = [];
    for (let at = 0; at < 100; at += 1) {
      await change(thing('large', `o${at}`, MIB));
      await change(thing('small', `o${at}`, 2000));
      used.push(await usedMiB());
    }
    // The buffers of a write come on top.
    expect(Math.max(...used)).toBeLessThan(56);
    expect(takeOutOfMemory(redis)).toBe(false);
    const small = await Promise.all(Array.from({ length: 100 }, (_, at) => reasonOf(`small/o${at}`)));
    expect(small).toEqual(Array.from({ length: 100 }, () => undefined));
    const large = await Promise.all(Array.from({ length: 100 }, (_, at) => reasonOf(`large/o${at}`)));
    expect(large.filter((each) => each === undefined).length).toBeGreaterThan(30);
    expect(large.at(-1)).toMatch(/more than its share of the memory of Redis/);
    expect(await view.indexer.leftOutNamespaces()).toEqual(['large']);
  });

  it('is never full by the objects of a kind without namespaces, and the others are served', async () => {
    const clusterThings = resource('example.com/v1', 'ClusterThing', { namespaced: false });
    const cluster = await openView(clusterThings);
    others = [cluster];
    const ofCluster = applierOf(cluster);
    await Promise.all([applier.apply(listOf('1', [])), ofCluster.apply(listOf('1', []))]);
    const used: number[] = [];
    for (let at = 0; at < 100; at += 1) {
      const { metadata, ...rest } = thing('', `o${at}`, MIB);
      const { namespace: _, ...named } = metadata;
      await ofCluster.apply([{ kind: 'changed', object: { ...rest, kind: 'ClusterThing', metadata: named } }]);
      await change(thing('small', `o${at}`, 2000));
      used.push(await usedMiB());
    }
    expect(Math.max(...used)).toBeLessThan(56);
    const small = await Promise.all(Array.from({ length: 100 }, (_, at) => reasonOf(`small/o${at}`)));
    expect(small).toEqual(Array.from({ length: 100 }, () => undefined));
    expect(await reasonOf('o99', cluster)).toMatch(/its kind, holds more than its share of the memory of Redis/);
    expect(await cluster.indexer.leftOutNamespaces()).toEqual(['']);
    await cluster.indexer.recount();
    expect(await cluster.indexer.leftOutNamespaces()).toEqual(['']);
  });

  it('is never full by the first list of a view, in which readers are told of each object that is left out', async () => {
    const objects = Array.from({ length: 90 }, (_, at) => [
      thing('large', `o${String(at).padStart(2, '0')}`, MIB),
      thing('small', `o${at}`, 2000),
    ]).flat();
    const events = listOf('1000', objects);
    for (let at = 0; at < events.length; at += 16) await applier.apply(events.slice(at, at + 16));
    await applier.waitForPendingWrite();
    expect(takeOutOfMemory(redis)).toBe(false);
    expect(await usedMiB()).toBeLessThan(56);
    const state = await view.reader().state({});
    if (!state) throw new Error('the view is not complete');
    const told: string[] = [];
    const names: string[] = [];
    const onKeptOut = ({ key }: ObjectKeptOutError): void => void told.push(key);
    for await (const batch of view.reader().select({}, { state, onKeptOut }))
      names.push(...batch.map(({ key }) => key));
    expect(told.every((key) => key.startsWith('large/'))).toBe(true);
    expect(told.length + names.length).toBe(180);
    expect(names.filter((key) => key.startsWith('small/'))).toHaveLength(90);
  });

  it('takes objects back at the version that their marks have, once there is room', async () => {
    const objects = Array.from({ length: 60 }, (_, at) => thing('large', `o${String(at).padStart(2, '0')}`, MIB));
    await applier.apply(listOf('1', []));
    for (const object of objects) await change(object);
    const [first, last] = ['large/o00', 'large/o59'];
    expect(await reasonOf(last)).toBeDefined();
    for (const object of objects.slice(0, 40)) {
      version += 1;
      const metadata = { ...object.metadata, resourceVersion: String(version) };
      await applier.apply([{ kind: 'deleted', object: { ...object, metadata } }]);
    }
    await memory.look();
    expect(view.leftOut('large')).toBeUndefined();
    await applier.apply(listOf('9000', objects.slice(40)));
    expect([await reasonOf(last), await found(first)]).toEqual([undefined, false]);
    expect(await view.indexer.leftOutNamespaces()).toEqual([]);
    expect(await view.indexer.keptOutCount()).toBe(0);
  });

  it('leaves nobody out who has half of it while there is room, and finds the same after a restart', async () => {
    await applier.apply(listOf('1', []));
    for (let at = 0; at < 32; at += 1) await change(thing('large', `o${at}`, MIB));
    await memory.look();
    expect([view.leftOut('large'), await view.indexer.keptOutCount()]).toEqual([undefined, 0]);
    for (let at = 32; at < 60; at += 1) await change(thing('large', `o${at}`, MIB));
    // A look without a write: others fill it meanwhile.
    await redis.set('filler', Buffer.alloc(6 * MIB));
    const again = shares();
    await again.look();
    expect([memory, again].map((each) => each.leftOut(view, 'large'))).toEqual([
      expect.stringContaining('more than its share'),
      expect.stringContaining('more than its share'),
    ]);
    expect(again.leftOut(view, 'small')).toBeUndefined();
    // A burst is over, and most of the memory stays in use.
    await redis.del('filler');
    for (let at = 0; at < 6; at += 1) {
      await applier.apply([{ kind: 'deleted', object: thing('large', `o${at}`, 10) }]);
    }
    expect((await usedMiB()) / 64).toBeGreaterThan(0.6);
    await again.look();
    expect(again.leftOut(view, 'large')).toBeDefined();
    clock.advance(600_000);
    await again.look();
    expect(again.leftOut(view, 'large')).toBeUndefined();
  });

  it('is never full by a kind that one namespace declares, and the owners of its objects keep what they read themselves', async () => {
    const declared = await openView();
    declared.onlyReader = 'greedy';
    const theirs = await openView();
    others = [declared, theirs];
    const [applierOfDeclared, applierOfTheirs] = [applierOf(declared), applierOf(theirs)];
    for (const each of [applier, applierOfDeclared, applierOfTheirs]) await each.apply(listOf('1', []));
    // Each owner has less than the twentieth of the memory that nobody is left out for; one has more than others.
    const owners: [string, number][] = Array.from({ length: 40 }, (_, at) => (at === 0 ? ['n0', 3] : [`n${at}`, 2]));
    for (const [owner, count] of owners) {
      for (let at = 0; at < count; at += 1) {
        await applierOfDeclared.apply([{ kind: 'changed', object: thing(owner, `o${at}`, MIB) }]);
      }
    }
    expect(takeOutOfMemory(redis)).toBe(false);
    expect(await usedMiB()).toBeLessThan(56);
    expect(declared.leftOut('n0')).toMatch(/functions that read it hold more than their share/);
    expect(await reasonOf('n39/o1', declared)).toMatch(/functions that read it/);
    // In views that others read, or they themselves.
    for (const [owner] of owners) expect(view.leftOut(owner)).toBeUndefined();
    expect([theirs.leftOut('n1'), declared.leftOut('greedy')]).toEqual([undefined, undefined]);
    await change(thing('n1', 'own', 2000));
    expect(await reasonOf('n1/own')).toBeUndefined();
    // Nothing more of any namespace, nor of its indexes.
    expect(['never-seen', ''].map((each) => declared.leftOut(each) !== undefined)).toEqual([true, true]);
    // Another one that reads the kind does not pay for what this one has declared.
    declared.onlyReader = undefined;
    expect(declared.leftOut('n0')).toBeUndefined();
    declared.onlyReader = 'greedy';
    knowsReaders = false;
    expect(declared.leftOut('n0')).toBeUndefined();
  });

  it('is never full by objects that no function of their namespace reads, however many others do', async () => {
    await applier.apply(listOf('1', []));
    for (let at = 0; at < 80; at += 1) {
      await change(thing('spammer', `o${at}`, MIB));
      await change(thing(`n${at % 20}`, `o${at}`, 2000));
    }
    expect(takeOutOfMemory(redis)).toBe(false);
    expect(await view.indexer.leftOutNamespaces()).toEqual(['spammer']);
  });

  it('leaves out those objects of a kind that one namespace declares whose owner has filled the memory', async () => {
    const declared = await openView();
    declared.onlyReader = 'operator';
    others = [declared];
    const own = applierOf(declared);
    await own.apply(listOf('1', []));
    for (let at = 0; at < 80; at += 1) {
      await own.apply([{ kind: 'changed', object: thing('spammer', `o${at}`, MIB) }]);
      await own.apply([{ kind: 'changed', object: thing(`n${at % 20}`, `o${at}`, 2000) }]);
    }
    expect(takeOutOfMemory(redis)).toBe(false);
    expect(await declared.indexer.leftOutNamespaces()).toEqual(['spammer']);
  });

  it('weighs objects and entries as Redis does, within a factor of two', async () => {
    await applier.apply(listOf('1', []));
    view.indexer.maintain(['field:spec.refs']);
    const before = await dataMiB();
    for (let at = 0; at < 20; at += 1) {
      const object = thing('large', `o${at}`, 256 * 1024);
      const refs = Array.from({ length: 900 }, (_, nth) => `ref-${at}-${nth}`);
      await change({ ...object, spec: { ...object.spec, refs } } as KubernetesObject);
    }
    for (let at = 0; at < 5000; at += 100) {
      const events = Array.from({ length: 100 }, (_, nth) => thing('many', `o${at + nth}`, 200));
      await applier.apply(events.map((object) => ({ kind: 'changed', object })));
    }
    const taken = (await dataMiB()) - before;
    const weighed = await view.weigh();
    const sum = [...weighed.values()].reduce((all, each) => all + each, 0) / MIB;
    expect(sum / taken).toBeGreaterThan(1 / 2);
    expect(sum / taken).toBeLessThan(2);
  });
});

describe('a read of many large objects', () => {
  it('has Redis hold few of them in the memory of its answers', async () => {
    const own = await startRedis({ ignoreEnvironment: true });
    const connection = await connectRedis(own.url);
    try {
      const prefix = viewPrefix({ keyPrefix: uniqueName('test'), clusterId: 'c', resource: things, settings: 's' });
      const all = new View(connection, things, { prefix });
      await all.writer.claim('writer');
      const objects = Array.from({ length: 40 }, (_each, at) => thing('large', `o${at}`, MIB));
      for (const each of [[], ...objects.map((object) => [object])]) {
        await applierOf(all).apply(each.map((object) => ({ kind: 'changed' as const, object })));
      }
      const peakMiB = async (): Promise<number> =>
        Number(/^used_memory_peak:(\d+)/m.exec(await connection.info('memory'))?.[1]) / MIB;
      const before = await peakMiB();
      const keys = objects.map(({ metadata }) => `large/${metadata.name}`);
      const read: unknown[] = [];
      for await (const { object } of all.objects.each(keys)) read.push(object);
      expect(read).toEqual(objects);
      expect((await peakMiB()) - before).toBeLessThan(12);
    } finally {
      connection.disconnect();
      await own.stop();
    }
  });

  it('holds few of them parsed, however many readers a tenant has', async () => {
    const prefix = viewPrefix({ keyPrefix: uniqueName('test'), clusterId: 'c', resource: things, settings: 's' });
    const own = await startRedis({ ignoreEnvironment: true });
    const connection = await connectRedis(own.url);
    try {
      const all = new View(connection, things, { prefix });
      await all.writer.claim('writer');
      // Each takes the thread longer to parse than a slice, so that each reader waits between two of them.
      const x = Array.from({ length: 100_000 }, () => ({}));
      const objects = ['a', 'b', 'c'].map((name) => ({ ...thing('large', name, 1), spec: { x } }));
      for (const each of [[], ...objects.map((object) => [object])]) {
        await applierOf(all).apply(each.map((object) => ({ kind: 'changed' as const, object })));
      }
      const collect = garbageCollector();
      const seen: WeakRef<KubernetesObject>[] = [];
      let most = 0;
      let looks = 0;
      const look = (_key: string, object: KubernetesObject | undefined): void => {
        looks += 1;
        collect();
        most = Math.max(most, seen.filter((each) => each.deref() !== undefined).length);
        if (object) seen.push(new WeakRef(object));
      };
      const keys = objects.map(({ metadata }) => `large/${metadata.name}`);
      await Promise.all(Array.from({ length: 10 }, () => all.objects.visit(keys, look, new TimeSlice('large'))));
      expect(looks).toBe(30);
      expect(most).toBeLessThan(4);
    } finally {
      connection.disconnect();
      await own.stop();
    }
  });
});

describe('a Redis Cluster', () => {
  const started = new Started();
  afterAll(() => started.stop());

  it('has a verdict for each master: a namespace is left out of views on the one that it fills', async () => {
    const cluster = await RedisClusterNodes.start(started);
    for (const node of cluster.connections) await node.config('SET', 'maxmemory', LIMIT);
    const connection = await connectRedis(cluster.url);
    started.add(async () => connection.disconnect());
    const viewOf = (keyPrefix: string): View => {
      const prefix = viewPrefix({ keyPrefix, clusterId: 'c', resource: things, settings: 's' });
      return new View(connection, things, { prefix }, undefined, { memory: guard });
    };
    const views: View[] = [];
    const guard = new MemoryShares({
      redis: connection,
      runtime: { clock, logger: silentLogger, metrics: silentMetrics },
      holders: () => views,
      knowsReaders: () => true,
      onChanged: () => {},
      onTakeBack: () => {},
    });
    await guard.look();
    const places = new Map<string, View>();
    for (let at = 0; places.size < 2; at += 1) {
      const each = viewOf(uniqueName(`test${at}`));
      const place = await nodeOf(connection, each.prefix);
      if (!places.has(place)) places.set(place, each);
    }
    views.push(...places.values());
    const [full, roomy] = views;
    if (!full || !roomy) throw new Error('there are no two masters');
    for (const each of [full, roomy]) await each.writer.claim('writer');
    for (let at = 0; at < 80; at += 1) {
      await applierOf(full).apply([{ kind: 'changed', object: thing('large', `o${at}`, MIB) }]);
    }
    await applierOf(roomy).apply([{ kind: 'changed', object: thing('large', 'other', MIB) }]);
    expect(takeOutOfMemory(connection)).toBe(false);
    expect([full.leftOut('large'), roomy.leftOut('large')]).toEqual([expect.any(String), undefined]);
    expect(await full.indexer.leftOutNamespaces()).toEqual(['large']);
    expect(await roomy.indexer.leftOutNamespaces()).toEqual([]);
  });
});
