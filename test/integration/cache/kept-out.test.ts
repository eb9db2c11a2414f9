import { afterAll, beforeAll, expect, inject, it, vi } from 'vitest';
import { KEPT_OUT_INDEX, LEFT_OUT_INDEX, viewKeys } from '../../../src/contract/cache-layout.ts';
import { cachedKey } from '../../../src/contract/node/cached-name.ts';
import { ObjectKeptOutError } from '../../../src/contract/node/codec.ts';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { backfill } from '../../../src/gateway/informer/cache/backfill.ts';
import { MAX_LENGTH } from '../../../src/gateway/informer/cache/kept-out.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { newSeed, randomOf } from '../../harness/random.ts';
import { createView } from '../../harness/views.ts';

const roles = resource('rbac.authorization.k8s.io/v1', 'Role');
const SEED = newSeed();
let redis: Redis;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
});

afterAll(() => redis.disconnect());

function roleOf(name: string, version: number, more: object = {}): KubernetesObject {
  const { apiVersion, kind } = roles;
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: 'owner', controller: true };
  const annotations = { text: 'x'.repeat(8000) };
  const metadata = { namespace: 'n', name, uid: name.slice(-9), resourceVersion: `${version}`, annotations };
  return { apiVersion, kind, metadata: { ...metadata, ownerReferences: [owner] }, ...more };
}

it('an object with a long name is found by it, and is not the object that the server is asked for', async () => {
  const view = createView(redis, roles);
  await view.writer.claim('writer');
  const [short, long] = [roleOf('short', 10), roleOf('x'.repeat(2000), 11)];
  await applierOf(view).apply(listOf('20', [short, long]));
  for (const namespace of [undefined, 'n']) {
    const selection = {
      ...(namespace === undefined ? {} : { namespace }),
      fields: [{ field: 'metadata.name', operator: '=' as const, value: long.metadata.name }],
    };
    const state = await view.reader().state(selection);
    if (!state) throw new Error('the view is not complete');
    const keptOut: ObjectKeptOutError[] = [];
    for await (const found of view.reader().select(selection, { state, onKeptOut: (error) => keptOut.push(error) })) {
      expect(found).toEqual([]);
    }
    expect(keptOut.map(({ metadataOnly }) => metadataOnly.metadata.uid)).toEqual([long.metadata.uid]);
  }
  expect((await view.objects.newest())?.key).toBe('n/short');
  await view.discard();
});

it.each([
  ['nested too deeply', (name: string) => roleOf(name, 10, { rules: deep(300) }), 'deep'],
  ['too long', (name: string) => roleOf(name, 10, { rules: 'x'.repeat(MAX_LENGTH) }), 'long'],
  ['of a long name', (name: string) => roleOf(name.repeat(1000), 10), 'named'],
])('an object %s has all of its metadata again once there is memory', async (_, objectOf, name) => {
  let leftOut: string | undefined = 'there is no memory';
  const memory = { reserve: async () => {}, leftOut: () => leftOut };
  const view = new View(redis, roles, createView(redis, roles).location, undefined, { memory });
  await view.writer.claim('writer');
  const applier = applierOf(view);
  const object = objectOf(name);
  const key = cachedKey({ namespace: 'n', name: object.metadata.name });
  const kept = async (): Promise<readonly string[] | undefined> => {
    const { stored } = await view.reader().get(key);
    try {
      view.reader().found(key, stored);
    } catch (error) {
      if (error instanceof ObjectKeptOutError) return Object.keys(error.metadataOnly.metadata);
    }
    return undefined;
  };
  await applier.apply(listOf('20', [object]));
  expect(await kept()).not.toContain('ownerReferences');
  expect(await view.indexer.leftOutNamespaces()).toEqual(['n']);
  leftOut = undefined;
  await applier.apply(listOf('21', [object]));
  expect(await kept()).toContain('ownerReferences');
  expect(await view.indexer.leftOutNamespaces()).toEqual([]);
  expect(await view.indexer.keptOutCount()).toBe(1);
  await view.discard();
});

it('counts the objects of each namespace that are kept out, with one command however many they are', async () => {
  const random = randomOf(SEED);
  const below = (count: number): number => Math.floor(random() * count);
  const without = new Set<string>();
  const memory = {
    reserve: async () => {},
    leftOut: (_place: unknown, of: string | undefined) => (without.has(of ?? '') ? 'there is no memory' : undefined),
  };
  const view = new View(redis, roles, createView(redis, roles).location, undefined, { memory });
  await view.writer.claim('writer');
  let applier = applierOf(view);
  await applier.apply(listOf('1', []));
  const { indexPrefix } = viewKeys(view.location.prefix);
  const places = ['a', 'b', 'ab'];
  let version = 1;
  for (let step = 0; step < 60; step += 1) {
    if (below(10) === 0) applier = applierOf(view);
    const place = places[below(places.length)] ?? '';
    if (below(4) === 0 && !without.delete(place)) without.add(place);
    const events = Array.from({ length: 1 + below(5) }, () => {
      version += 1;
      const object = roleOf(`r${below(6)}`, version, below(3) === 0 ? { rules: deep(300) } : {});
      const kind = below(4) === 0 ? ('deleted' as const) : ('changed' as const);
      return { kind, object: { ...object, metadata: { ...object.metadata, namespace: place } } };
    });
    await applier.apply(events);
    // The same chunk again changes nothing.
    if (below(5) === 0) await applierOf(view).apply(events);
    if (below(10) === 0) await backfill(view, [`label:${step}`], new AbortController().signal);
    for (const index of [KEPT_OUT_INDEX, LEFT_OUT_INDEX]) {
      const members = await redis.smembers(indexPrefix + index);
      const counted = await Promise.all(places.map((each) => view.indexer.keptOutCount([each], index)));
      const expected = places.map((each) => members.filter((key) => key.startsWith(`${each}/`)).length);
      expect(counted, `${index}, TEST_SEED=${SEED}`).toEqual(expected);
      expect(await view.indexer.keptOutCount(places, index)).toBe(members.length);
    }
    const members = await redis.smembers(indexPrefix + LEFT_OUT_INDEX);
    const named = new Set(members.map((key) => key.split('/')[0]));
    expect(new Set(await view.indexer.leftOutNamespaces())).toEqual(named);
  }
  without.add('many');
  const many = Array.from({ length: 5000 }, (_, at) => {
    const object = roleOf(`m${at}`, 10_000 + at);
    return { kind: 'changed' as const, object: { ...object, metadata: { ...object.metadata, namespace: 'many' } } };
  });
  await applier.apply(many);
  const sent = vi.spyOn(redis, 'sendCommand');
  expect(await view.indexer.keptOutCount(['many'])).toBe(5000);
  expect(await view.indexer.leftOutNamespaces()).toContain('many');
  expect(sent).toHaveBeenCalledTimes(2);
  sent.mockRestore();
  await view.discard();
});

it('marks that another build has not counted, or has removed, are counted when the view is taken', async () => {
  const memory = { reserve: async () => {}, leftOut: () => 'there is no memory' };
  const view = new View(redis, roles, createView(redis, roles).location, undefined, { memory });
  await view.writer.claim('writer');
  const list = ['one', 'two', 'three'].map((name, at) => roleOf(name, 10 + at));
  await applierOf(view).apply(listOf('20', list));
  const { view: hash, indexPrefix } = viewKeys(view.location.prefix);
  const counted = async (): Promise<unknown> => [
    await view.indexer.keptOutCount(['n']),
    await view.indexer.keptOutCount(['n'], LEFT_OUT_INDEX),
    await view.indexer.leftOutNamespaces(),
  ];
  await redis.hdel(hash, 'kept-out:n', 'left-out:n');
  expect(await counted()).toEqual([0, 0, []]);
  await view.indexer.recount();
  expect(await counted()).toEqual([3, 3, ['n']]);
  await redis.del(indexPrefix + LEFT_OUT_INDEX);
  await view.indexer.recount();
  expect(await counted()).toEqual([3, 0, []]);
  const sent = vi.spyOn(redis, 'sendCommand');
  await view.indexer.recount();
  expect(sent).toHaveBeenCalledTimes(4);
  sent.mockRestore();
  await view.discard();
});

function deep(levels: number): object {
  let value: object = {};
  for (let level = 0; level < levels; level += 1) value = { value };
  return value;
}
