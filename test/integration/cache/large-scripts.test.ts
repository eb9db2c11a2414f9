import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { ObjectKeptOutError } from '../../../src/contract/node/codec.ts';
import { cachedKey } from '../../../src/contract/node/cached-name.ts';
import { reasonOf } from '../../../src/gateway/informer/cache/change.ts';
import { readMemory } from '../../../src/ground/redis/redis-memory.ts';
import { TimeSlice } from '../../../src/ground/time-slice.ts';
import { compareObserved } from '../../../src/gateway/informer/cache/backfill.ts';
import { observedSpec } from '../../../src/gateway/informer/cache/observations.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { ANSWER_BYTES } from '../../../src/gateway/informer/cache/view-objects.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { encodeEntry, viewKeys } from '../../../src/contract/cache-layout.ts';
import { Barriers } from '../../../src/gateway/controller/dispatch/barrier.ts';
import { PAUSED } from '../../../src/gateway/controller/handlers/paused.ts';
import { pausedAmong } from '../../../src/gateway/controller/running/paused-keys.ts';
import { configMaps } from '../../harness/cluster.ts';
import { expectShortScripts } from '../../harness/slow-commands.ts';
import { createView } from '../../harness/views.ts';

const MIB = 2 ** 20;
let server: RedisServer;
let redis: Redis;

beforeEach(async () => {
  server = await startRedis({ ignoreEnvironment: true });
  redis = await connectRedis(server.url);
});

afterEach(async () => {
  redis.disconnect();
  await server.stop();
});

/** As fifty declarations of one tenant may observe. */
const FIELDS = Array.from({ length: 400 }, (_, at) => `data.field-${at}`);

function objectsAt(version: number): KubernetesObject[] {
  return Array.from({ length: 300 }, (_, at) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'a', name: `object-${at}`, uid: `uid-${at}`, resourceVersion: String(version + at) },
    data: Object.fromEntries(FIELDS.map((_, field) => [`field-${field}`, `${version}-${field}`])),
  }));
}

it('many observed fields of many objects are written in scripts that block Redis no longer than a few objects', async () => {
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  view.observations.maintain(FIELDS.map(observedSpec), () => 1);
  const applier = applierOf(view);
  await applier.apply(listOf('1000', objectsAt(1)));
  await expectShortScripts(redis, (round) =>
    applier.apply(objectsAt(1000 + 1000 * round).map((object) => ({ kind: 'changed' as const, object }))),
  );
  // Fields that are declared when the objects are there already.
  await expectShortScripts(redis, (round) => {
    const specs = FIELDS.map((field) => observedSpec(`${field}x${round}`));
    view.observations.maintain(specs, () => 1);
    return compareObserved(view, specs, new AbortController().signal);
  });
});

it('many observed items of many objects are compared in scripts that block Redis no longer than a few objects', async () => {
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  const fields = Array.from({ length: 64 }, (_, at) => `items{name,f${at}}`);
  const objects = (version: number): KubernetesObject[] =>
    Array.from({ length: 60 }, (_, at) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace: 'a', name: `object-${at}`, uid: `uid-${at}`, resourceVersion: String(version + at) },
      items: Array.from({ length: 340 }, (__, item) => ({ name: `${item}` })),
    }));
  view.observations.maintain(fields.map(observedSpec), () => 1);
  const applier = applierOf(view);
  await applier.apply(listOf('1000', objects(1)));
  await expectShortScripts(redis, (round) =>
    applier.apply(objects(1000 + 1000 * round).map((object) => ({ kind: 'changed' as const, object }))),
  );
  await expectShortScripts(redis, (round) => {
    const specs = fields.map((field) => observedSpec(field.replace('name', `name,x${round}`)));
    view.observations.maintain(specs, () => 1);
    return compareObserved(view, specs, new AbortController().signal);
  });
});

it('barriers and pauses look at entries of any length, of which Redis sends the first lines', async () => {
  const view = createView(redis, configMaps);
  await view.writer.claim('writer');
  await applierOf(view).apply(listOf('10', []));
  const keys = Array.from({ length: 30 }, (_, at) => `a/large-${at}`);
  const long = Array.from({ length: 1000 }, (_, at) => `field:data.x=${'v'.repeat(280)}${at}`);
  const paused = [`${PAUSED}true`, ...long.slice(500)];
  const fields = keys.map((key, at) => {
    const indexEntries = at === 7 ? [...long.slice(0, 500), ...paused] : long;
    return [key, encodeEntry({ resourceVersion: '5', uid: key, terminating: at > 28, indexEntries })] as const;
  });
  await redis.hset(viewKeys(view.location.prefix).entries, Object.fromEntries(fields));
  const received = (): number => (redis as unknown as { stream: Socket }).stream.bytesRead;

  const before = received();
  const barriers = new Barriers([view]);
  const about = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'a' };
  const deletes = keys.map((key) => ({ ...about, name: key.slice(2), uid: key, deleted: true as const }));
  const barrier = (await barriers.afterWrites(deletes)) ?? '';
  let looked = 0;
  await expectShortScripts(redis, async () => {
    expect(await barriers.passed(barrier, { tenant: 'a', paid: (bytes) => (looked += bytes) })).toBe(false);
  });
  expect(looked).toBeGreaterThan(8 * MIB);
  expect(await pausedAmong([view], [...keys, 'a/absent'])).toEqual(new Set(['a/large-7']));
  expect(received() - before).toBeLessThan(256 * 1024);
  const heads = await view.objects.heads(['a/absent', 'a/large-28', 'a/large-29'], { index: PAUSED });
  expect(heads).toEqual([
    undefined,
    { resourceVersion: '5', uid: 'a/large-28', terminating: false, indexEntries: [] },
    { resourceVersion: '5', uid: 'a/large-29', terminating: true, indexEntries: [] },
  ]);
});

it('long entries are read a few at a time, also on a connection that has few bytes', async () => {
  const view = createView(redis, configMaps);
  const keys = Array.from({ length: 40 }, (_, at) => `a/large-${at}`);
  const { entries } = viewKeys(view.location.prefix);
  for (const key of keys) {
    await redis.hset(entries, key, ['1', key.replace('a/', ''), '', 'x'.repeat(1e6)].join('\n'));
  }
  const before = (await readMemory(redis)).used;
  let read: unknown[] = [];
  const most = await mostMemory(async () => (read = await view.objects.entries(keys)));
  expect(read).toHaveLength(keys.length);
  expect((most - before) / MIB).toBeLessThan(12);
  // For clients that do not read their answers, and not for the gateway.
  await redis.config('SET', 'maxmemory-clients', '1mb');
  expect(await redis.hget(entries, keys[0] ?? '')).toHaveLength(1e6 + 11);
  expect(await view.objects.entries(keys)).toHaveLength(keys.length);
});

/** The most memory that Redis uses during the work, in bytes. */
async function mostMemory(work: () => Promise<unknown>): Promise<number> {
  const admin = await connectRedis(server.url);
  const over = new AbortController();
  let most = 0;
  const watching = (async (): Promise<void> => {
    for (; !over.signal.aborted; await sleep(1)) most = Math.max(most, (await readMemory(admin)).used);
  })();
  await work();
  over.abort();
  await watching;
  admin.disconnect();
  return most;
}

/** The apiserver limits no name of a role, and the key of an object is a member of each of its indexes. */
const roles = resource('rbac.authorization.k8s.io/v1', 'Role');

function roleOf(name: string, version: number, names: number): KubernetesObject {
  const resourceNames = Array.from({ length: names }, (_, at) => `${version}-${at}`);
  const { apiVersion, kind } = roles;
  const metadata = { namespace: 'a', name, uid: 'uid', resourceVersion: String(version) };
  return { apiVersion, kind, metadata, rules: [{ resourceNames }] } as KubernetesObject;
}

it.each([1024, 1025, 250_000])(
  'a role whose name has %i characters costs no more than its bytes, in its indexes and in the keys that it wakes',
  async (length) => {
    const view = createView(redis, roles);
    await view.writer.claim('writer');
    view.indexer.maintain(['field:rules.resourceNames']);
    const waking = {
      needsOld: () => true,
      handle: (change: Parameters<typeof reasonOf>[0]) =>
        Array.from({ length: 900 }, (_, at) => ({ controller: 'b.c', key: `a/${at}`, reasons: [reasonOf(change)] })),
    };
    const applier = applierOf(view, { 'b.c': waking });
    await applier.apply(listOf('10', []));
    const name = 'n'.repeat(length);
    const before = (await readMemory(redis)).used;
    await expectShortScripts(redis, (round) =>
      applier.apply([{ kind: 'changed', object: roleOf(name, 1000 * round, 970) }]),
    );
    expect(((await readMemory(redis)).used - before) / MIB).toBeLessThan(16);
    const key = cachedKey({ namespace: 'a', name });
    const { stored } = await view.reader().get(key);
    if (length > 1024) expect(() => view.reader().found(key, stored)?.decode()).toThrow(ObjectKeptOutError);
    else expect(view.reader().found(key, stored)?.decode().metadata.name).toBe(name);
    await applier.apply([{ kind: 'deleted', object: roleOf(name, 9000, 0) }]);
    expect(await view.objects.size()).toBe(0);
    expect(await view.indexer.keptOutCount()).toBe(0);
  },
);

const READS: Readonly<Record<string, (view: View, keys: readonly string[]) => Promise<number>>> = {
  'for their keys': async (view, keys) => {
    let found = 0;
    for await (const { encoded } of view.objects.eachEncoded(keys, new TimeSlice('hostile'))) if (encoded) found += 1;
    return found;
  },
  'as clients': async (view) => {
    let found = 0;
    const reader = view.reader('hostile');
    const state = await reader.state();
    if (!state) throw new Error('the view cannot be read');
    for await (const batch of reader.select({}, { state, commandBytes: ANSWER_BYTES })) found += batch.length;
    return found;
  },
};

it.each(Object.entries(READS))(
  'objects that fifty controllers read at once wait in this process: %s',
  async (_, readAll) => {
    const view = createView(redis, configMaps);
    await view.writer.claim('writer');
    const { apiVersion, kind } = configMaps;
    // Random, so that Redis holds them as they are.
    const text = (): string => Array.from({ length: 40_000 }, () => Math.random().toString(36).slice(2, 12)).join('');
    const names = Array.from({ length: 8 }, (_, at) => `large-${at}`);
    for (const [at, name] of names.entries()) {
      const metadata = { namespace: 'a', name, uid: name, resourceVersion: `${at + 1}` };
      await applierOf(view).apply([
        { kind: 'changed', object: { apiVersion, kind, metadata, data: { text: text() } } as never },
      ]);
    }
    const keys = names.map((name) => `a/${name}`);
    const before = (await readMemory(redis)).used;
    let read: number[] = [];
    const most = await mostMemory(async () => {
      read = await Promise.all(Array.from({ length: 50 }, () => readAll(view, keys)));
    });
    expect(read).toEqual(Array.from({ length: 50 }, () => 8));
    expect((most - before) / MIB).toBeLessThan(20);
  },
);
