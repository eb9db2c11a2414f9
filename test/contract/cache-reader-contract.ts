import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource, SelectorError, systemClock } from '../../src/core/index.ts';
import { viewPrefix } from '../../src/contract/cache-layout.ts';
import type { CacheLocation, IndexSpec } from '../../src/contract/index.ts';
import type { CacheReader, ListOptions } from '../../src/function/index.ts';
import type { ApiClient } from '../../src/ground/apiserver/api-client.ts';
import type { Applier } from '../../src/gateway/informer/cache/applier.ts';
import { backfill } from '../../src/gateway/informer/cache/backfill.ts';
import { connectRedis, type Redis } from '../../src/ground/redis/redis.ts';
import { View } from '../../src/gateway/informer/cache/view.ts';
import { applierOf, listOf } from '../harness/applier.ts';
import { CacheApiServer } from '../harness/cache-api-server.ts';
import { uniqueName } from '../harness/levelhook.ts';

/** Opens the reader under test over views in Redis. Called for each test. */
export type OpenReader = (world: ReaderWorld) => Promise<{ reader: CacheReader; close: () => Promise<unknown> }>;

export interface ReaderWorld {
  readonly redis: Redis;
  readonly views: readonly View[];
  readonly location: CacheLocation;
  readonly syncWaitMs: number;
}

/** The definition of `things`, as the apiserver has it. */
const definition = {
  spec: { versions: [{ name: 'v1', selectableFields: [{ jsonPath: '.spec.size' }, { jsonPath: '.spec.colour' }] }] },
};

/** Serves the views through the cache API. @returns with the location as a trigger has it. */
export async function serveViews({
  views,
  location,
}: ReaderWorld): Promise<{ server: CacheApiServer; location: CacheLocation }> {
  const client: Pick<ApiClient, 'json'> = {
    json: async <T>({ path }: { readonly path: string }) => {
      if (!path.endsWith('/customresourcedefinitions/things.example.com')) throw new Error('there is no apiserver');
      return definition as T;
    },
  };
  const server = await CacheApiServer.start({ views: () => views, client });
  const position = location.views['v1/Pod']?.[0]?.position;
  const scope = { 'v1/Pod': '*', 'v1/ConfigMap': ['a', 'b'], 'v1/Node': '*', 'example.com/v1/Thing': '*' } as const;
  // Not longer than the reader waits at all, so that the bound is the reader's.
  const token = server.token(scope, 'x', 60, position === undefined ? {} : { 'v1/Pod': { '': position } });
  return { server, location: { ...location, url: server.url, token } };
}

const pods = resource('v1', 'Pod');
const configMaps = resource('v1', 'ConfigMap');
const nodes = resource('v1', 'Node', { namespaced: false });
const services = resource('v1', 'Service');
const things = resource('example.com/v1', 'Thing');
const ON_NODE: IndexSpec = 'field:spec.nodeName';
const GREETS: IndexSpec = 'annotation:greets/whom';

function object(
  kind: string,
  key: string,
  version: number,
  metadata: object = {},
  rest: object = {},
): KubernetesObject {
  const [first = '', second] = key.split('/');
  const named = second === undefined ? { name: first } : { namespace: first, name: second };
  return {
    apiVersion: 'v1',
    kind,
    metadata: { ...named, uid: `uid-${key}`, resourceVersion: String(version), ...metadata },
    ...rest,
  };
}
const pod = (key: string, version: number, metadata: object = {}, rest: object = {}): KubernetesObject =>
  object('Pod', key, version, metadata, rest);
const thing = (key: string, spec: object): KubernetesObject => ({
  ...object('Thing', key, 1, {}, { spec }),
  apiVersion: 'example.com/v1',
});
const ownedBy = (uid: string, controller = true, kind = 'Node') => ({
  ownerReferences: [{ apiVersion: 'v1', kind, name: 'x', uid, controller }],
});

/** Without a namespace: a cluster-scoped one. */
const owner = (uid: string, namespace?: string) => ({ metadata: { uid, namespace } });

/** What every `CacheReader` does. Run by each implementation. */
export function cacheReaderContract(name: string, open: OpenReader): void {
  let redis: Redis;
  let view: View;
  let applier: Applier;
  let reader: CacheReader;
  let close: () => Promise<unknown>;
  let views: View[];
  let location: CacheLocation;

  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
  });
  afterAll(() => redis.disconnect());

  async function newView(of: typeof pods, settings: string, namespace?: string): Promise<View> {
    const prefix = viewPrefix({ keyPrefix: scope, clusterId: 'c', resource: of, settings });
    const made = new View(redis, of, { prefix, ...(namespace === undefined ? {} : { namespace }) });
    await made.writer.claim('writer');
    return made;
  }
  const newApplier = (of: View): Applier => applierOf(of);

  let scope: string;

  async function list(to: Applier, version: number, ...objects: KubernetesObject[]): Promise<void> {
    await to.apply(listOf(String(version), objects));
  }

  async function start(syncWaitMs = 300): Promise<void> {
    ({ reader, close } = await open({ redis, views, location, syncWaitMs }));
  }

  beforeEach(async () => {
    scope = uniqueName('test');
    view = await newView(pods, 's');
    const inA = await newView(configMaps, 'a', 'a');
    const inB = await newView(configMaps, 'b', 'b');
    const ofNodes = await newView(nodes, 's');
    const ofThings = await newView(things, 's');
    views = [view, inA, inB, ofNodes, ofThings];
    applier = newApplier(view);
    // As the gateway tells them: each kind's views, in no particular order.
    location = {
      views: {
        'v1/Pod': [view.location],
        'v1/ConfigMap': [inB.location, inA.location],
        'v1/Node': [ofNodes.location],
        'example.com/v1/Thing': [ofThings.location],
      },
      now: Math.round(systemClock.now()),
    };
    await list(newApplier(inA), 20, object('ConfigMap', 'a/one', 1));
    await list(newApplier(inB), 30, object('ConfigMap', 'b/two', 2), object('ConfigMap', 'b/one', 3));
    await list(newApplier(ofNodes), 40, object('Node', 'n1', 1), object('Node', 'n2', 2, { labels: { disk: 'fast' } }));
    await list(
      newApplier(ofThings),
      50,
      thing('a/large', { size: 9007199254740993n, colour: 'red' }),
      thing('a/small', { size: 5, colour: 'red' }),
      thing('b/plain', { colour: 'blue' }),
    );
    await start();
  });
  afterEach(() => close());

  async function names(options?: ListOptions, of = pods): Promise<string[]> {
    const { items } = await reader.list(of, options);
    return items.map(({ metadata: { namespace, name: own } }) => (namespace ? `${namespace}/${own}` : own));
  }

  describe(`${name}, over a view that the gateway has filled`, () => {
    const mine = pod(
      'a/mine',
      1,
      { ...ownedBy('o1'), labels: { app: 'x', constructor: 'y' } },
      { spec: { nodeName: 'n1' } },
    );
    const theirs = pod('a/theirs', 2, { ...ownedBy('o2'), annotations: { 'greets/whom': 'a=b, c' } });
    const free = pod('a/free', 3, { labels: { app: 'x', tier: 'front' } }, { spec: { nodeName: 'n1' } });
    const claimed = pod('a/claimed', 4, { ...ownedBy('o1', false), labels: { size: '7' } });
    const far = pod('b/far', 5, ownedBy('o1'), { spec: { nodeName: 'n2' }, status: { phase: 'Running' } });

    beforeEach(() => list(applier, 10, mine, theirs, free, claimed, far));

    it('gets an object whole, and nothing for one that is not there', async () => {
      expect(await reader.get(pods, { namespace: 'a', name: 'mine' })).toEqual(mine);
      expect(await reader.get(pods, { namespace: 'b', name: 'mine' })).toBeUndefined();
      expect(await reader.get(pods, { name: 'mine' })).toBeUndefined();
      expect(await reader.get(pods, { namespace: 'nowhere', name: '../pods' })).toBeUndefined();
      expect((await reader.get(nodes, { name: 'n2' }))?.metadata.labels).toEqual({ disk: 'fast' });
      expect(await reader.get(nodes, { name: 'n3' })).toBeUndefined();
    });

    it('tells for how long the value of an observed field is unchanged', async () => {
      const unchanged = (name: string, field = 'spec.nodeName') =>
        reader.secondsUnchanged(pods, { namespace: 'a', name }, field);
      expect(await unchanged('mine')).toBeUndefined();
      let agoMs = 3_600_000;
      view.observations.maintain(['field:spec.nodeName'], () => systemClock.now() - agoMs);
      const moved = pod('a/mine', 11, {}, { spec: { nodeName: 'n3' } });
      await applier.apply([{ kind: 'changed', object: moved }]);
      const seconds = await unchanged('mine');
      expect(seconds).toBeGreaterThan(3500);
      expect(seconds).toBeLessThan(3700);
      agoMs = 0;
      // Another version with the same value, and then one with another value.
      await applier.apply([
        { kind: 'changed', object: pod('a/mine', 12, { labels: { app: 'y' } }, { spec: { nodeName: 'n3' } }) },
      ]);
      expect(await unchanged('mine')).toBeGreaterThan(3500);
      await applier.apply([{ kind: 'changed', object: pod('a/mine', 13, {}, { spec: { nodeName: 'n1' } }) }]);
      expect(await unchanged('mine')).toBeLessThan(100);
      expect(await unchanged('theirs')).toBeUndefined();
      expect(await unchanged('nowhere')).toBeUndefined();
      expect(await unchanged('mine', 'spec.other')).toBeUndefined();
      await expect(reader.secondsUnchanged(services, { namespace: 'a', name: 'x' }, 'spec')).rejects.toThrow(TypeError);
    });

    it('tells for how long an item of an observed list is there, whatever comes and goes beside it', async () => {
      const field = 'spec.taints{key,value}';
      let agoMs = 3_600_000;
      view.observations.maintain([`field:${field}`], () => systemClock.now() - agoMs);
      const taint = { key: 'only', value: 'é/&', effect: 'x' };
      const change = (version: number, ...taints: object[]) =>
        applier.apply([{ kind: 'changed', object: pod('a/mine', version, {}, { spec: { taints } }) }]);
      await change(11, taint);
      agoMs = 1_800_000;
      await change(12, { key: 'other' }, { ...taint, effect: 'y' });
      const seconds = (item?: object) => reader.secondsUnchanged(pods, { namespace: 'a', name: 'mine' }, field, item);
      expect(await seconds(taint)).toBeGreaterThan(3500);
      expect(await seconds(taint)).toBeLessThan(3700);
      expect(await seconds({ key: 'other', value: '' })).toBeLessThan(1900);
      expect(await seconds({ key: 'none' })).toBeUndefined();
      expect(await seconds({ key: 'x'.repeat(3000) })).toBeUndefined();
      expect(await seconds()).toBeLessThan(1900);
    });

    it('keeps integers of 64 bits, listed or changed since', async () => {
      const numbers = { max: 9223372036854775807n, some: [9007199254740993n, 5, 0.1], min: -9223372036854775808n };
      await list(applier, 20, pod('a/listed', 11, {}, { spec: numbers }));
      await applier.apply([{ kind: 'changed', object: pod('a/changed', 21, {}, { spec: numbers }) }]);
      expect(await reader.get(pods, { namespace: 'a', name: 'listed' })).toMatchObject({ spec: numbers });
      const { items } = await reader.list(pods);
      expect(items).toMatchObject([{ spec: numbers }, { spec: numbers }]);
    });

    it('gives the reader copies of its own', async () => {
      const first = await reader.get(pods, { namespace: 'a', name: 'mine' });
      first!.metadata.labels = { changed: 'yes' };
      expect(await reader.get(pods, { namespace: 'a', name: 'mine' })).toEqual(mine);
    });

    it('lists all in order, by namespace, by controller, those without one, and by all of them together', async () => {
      expect((await reader.list(pods, { namespace: 'b' })).items).toEqual([far]);
      expect(await names()).toEqual(['a/claimed', 'a/free', 'a/mine', 'a/theirs', 'b/far']);
      expect(await names({ namespace: 'a' })).toEqual(['a/claimed', 'a/free', 'a/mine', 'a/theirs']);
      expect(await names({ controlledBy: owner('o1') })).toEqual(['a/mine', 'b/far']);
      expect(await names({ controlledBy: owner('o1'), namespace: 'a' })).toEqual(['a/mine']);
      expect(await names({ orphansIn: 'a' })).toEqual(['a/claimed', 'a/free']);
      expect(await names({ orphansIn: 'b' })).toEqual([]);
      expect(await names({ orphansIn: 'a', controlledBy: owner('o1') })).toEqual([]);
      expect(await names({ orphansIn: 'a', namespace: 'b' })).toEqual([]);
      expect(await names({ namespace: 'nowhere' })).toEqual([]);
      expect(await names({}, nodes)).toEqual(['n1', 'n2']);
    });

    it('finds nothing by the UID of a namespaced owner alone, which anyone may have copied', async () => {
      await list(
        applier,
        11,
        pod('a/own', 6, ownedBy('o3', true, 'ConfigMap')),
        pod('b/copy', 7, ownedBy('o3', true, 'ConfigMap')),
      );
      expect(await names({ controlledBy: owner('o3', 'a') })).toEqual(['a/own']);
      expect(await names({ controlledBy: owner('o3', '') })).toEqual([]);
      expect(await names({ controlledBy: owner('o3') })).toEqual([]);
    });

    it.each<[ListOptions['labelSelector'], string[]]>([
      [{ matchLabels: { app: 'x' } }, ['a/free', 'a/mine']],
      [{ matchLabels: { constructor: 'y' } }, ['a/mine']],
      [{ matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] }, ['a/claimed', 'a/theirs', 'b/far']],
      [
        { matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['front', 'back'] }] },
        ['a/claimed', 'a/mine', 'a/theirs', 'b/far'],
      ],
      [{ matchLabels: { app: 'x' }, matchExpressions: [{ key: 'tier', operator: 'Exists' }] }, ['a/free']],
      [{}, ['a/claimed', 'a/free', 'a/mine', 'a/theirs', 'b/far']],
      ['', ['a/claimed', 'a/free', 'a/mine', 'a/theirs', 'b/far']],
      ['app=x', ['a/free', 'a/mine']],
      ['app==x, tier!=front', ['a/mine']],
      ['app in (x, y),tier', ['a/free']],
      ['!app,size>6', ['a/claimed']],
      ['size<7', []],
      ['tier notin (front,), app', ['a/mine']],
      ['app in ()', []],
    ])('lists by labels: %j', async (labelSelector, expected) => {
      expect(await names({ labelSelector: labelSelector ?? '' })).toEqual(expected);
    });

    it.each<[string, string[]]>([
      ['metadata.name=mine', ['a/mine']],
      ['metadata.namespace!=a', ['b/far']],
      ['metadata.name!=mine,metadata.namespace=a', ['a/claimed', 'a/free', 'a/theirs']],
      ['spec.nodeName=n1', ['a/free', 'a/mine']],
      ['spec.nodeName=', ['a/claimed', 'a/theirs']],
      ['status.phase=Running,spec.nodeName!=n1', ['b/far']],
    ])('lists by fields: %s', async (fieldSelector, expected) => {
      expect(await names({ fieldSelector })).toEqual(expected);
    });

    it.each<[string, string[]]>([
      ['spec.colour=red', ['a/large', 'a/small']],
      ['spec.size=9007199254740993', ['a/large']],
      ['spec.size=,spec.colour!=red', ['b/plain']],
      ['spec.colour=red,metadata.name!=large', ['a/small']],
      ['metadata.name=plain', ['b/plain']],
    ])(
      'lists a custom resource by the fields that its definition makes selectable: %s',
      async (fieldSelector, found) => {
        expect(await names({ fieldSelector }, things)).toEqual(found);
        const inA = found.filter((key) => key.startsWith('a/'));
        expect(await names({ fieldSelector, namespace: 'a' }, things)).toEqual(inA);
      },
    );

    it('refuses a field of a custom resource that its definition does not make selectable', async () => {
      await expect(reader.list(things, { fieldSelector: 'spec.weight=1' })).rejects.toThrow(SelectorError);
    });

    it('finds one by name in its namespace', async () => {
      expect(await names({ namespace: 'a', fieldSelector: 'metadata.name=mine' })).toEqual(['a/mine']);
      expect(await names({ namespace: 'b', fieldSelector: 'metadata.name=mine' })).toEqual([]);
      expect(await names({ namespace: 'a', fieldSelector: 'metadata.name=mine', labelSelector: 'app=y' })).toEqual([]);
    });

    it('lists by a declared index, before it is filled and after', async () => {
      const onNode = (value: string): ListOptions => ({ index: { spec: ON_NODE, value } });
      const greeting: ListOptions = { index: { spec: GREETS, value: 'a=b, c' } };
      const look = async () => [
        await names(onNode('n1')),
        await names({ ...onNode('n1'), controlledBy: owner('o1') }),
        await names({ ...onNode('n1'), namespace: 'b' }),
        await names(onNode('n3')),
        await names(greeting),
      ];
      const expected = [['a/free', 'a/mine'], ['a/mine'], [], [], ['a/theirs']];
      expect(await look()).toEqual(expected);
      view.indexer.maintain([ON_NODE, GREETS]);
      await backfill(view, [ON_NODE, GREETS], new AbortController().signal);
      expect(await view.indexer.complete()).toEqual([ON_NODE, GREETS]);
      expect(await look()).toEqual(expected);
    });

    it('lists by the index of all labels, before it is filled and after', async () => {
      const by = (labelSelector: string, more: ListOptions = {}) => names({ ...more, labelSelector, index: 'labels' });
      const look = async () => [
        await by('app=x'),
        await by('app=x', { namespace: 'b' }),
        await by('app in (x)', { controlledBy: owner('o1') }),
        await by('app in (x,y)'),
        await by('app!=x'),
        await by('app=x,app=y'),
        await by('app=none'),
        await by(''),
      ];
      const without = async (labelSelector: string, more: ListOptions = {}) => names({ ...more, labelSelector });
      const expected = [
        await without('app=x'),
        await without('app=x', { namespace: 'b' }),
        await without('app=x', { controlledBy: owner('o1') }),
        await without('app in (x,y)'),
        await without('app!=x'),
        [],
        [],
        await without(''),
      ];
      expect(expected[0]).not.toEqual([]);
      expect(await look()).toEqual(expected);
      view.indexer.maintain(['labels']);
      await backfill(view, ['labels'], new AbortController().signal);
      expect(await view.indexer.complete()).toEqual(['labels']);
      expect(await look()).toEqual(expected);
    });

    it.each<ListOptions>([
      { labelSelector: 'a===b' },
      { labelSelector: 'app in x' },
      { labelSelector: '-x=1' },
      { labelSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: [] }] } },
      { labelSelector: { matchLabels: { 'a b': 'c' } } },
      { fieldSelector: 'metadata.name' },
      { fieldSelector: 'spec.containers=1' },
    ])('refuses a selector that it does not understand: %j', async (options) => {
      await expect(reader.list(pods, options)).rejects.toThrow(SelectorError);
    });

    it('lists what an owner manages in its own namespace alone, whatever UID others name elsewhere', async () => {
      expect(await names({ controlledBy: owner('o1', 'a') })).toEqual(['a/mine']);
      expect(await names({ controlledBy: owner('o1', 'b') })).toEqual(['b/far']);
      expect(await names({ controlledBy: owner('o1', 'c') })).toEqual([]);
      expect(await names({ controlledBy: owner('o1', 'a'), namespace: 'b' })).toEqual([]);
      expect(await names({ controlledBy: owner('o1', 'a'), orphansIn: 'b' })).toEqual([]);
      expect(await names({ controlledBy: owner('o1', 'a'), labelSelector: 'app=x' })).toEqual(['a/mine']);
      expect(await names({ controlledBy: owner('o1', 'a') }, nodes)).toEqual([]);
      expect(await names({ controlledBy: owner('o1', 'a') }, configMaps)).toEqual([]);
    });

    it('tells the version up to which the cache is complete, of several views the oldest', async () => {
      expect((await reader.list(pods)).version).toBe('10');
      await applier.apply([{ kind: 'bookmark', version: '20' }]);
      expect((await reader.list(pods, { namespace: 'nowhere' })).version).toBe('20');
      expect((await reader.list(configMaps)).version).toBe('20');
      expect((await reader.list(configMaps, { namespace: 'b' })).version).toBe('30');
    });

    it('reads a kind that is cached namespace by namespace, each alone and all together', async () => {
      expect(await names({}, configMaps)).toEqual(['a/one', 'b/one', 'b/two']);
      expect(await names({ namespace: 'b' }, configMaps)).toEqual(['b/one', 'b/two']);
      expect(await names({ namespace: 'c' }, configMaps)).toEqual([]);
      expect((await reader.get(configMaps, { namespace: 'b', name: 'two' }))?.metadata.resourceVersion).toBe('2');
      expect(await reader.get(configMaps, { namespace: 'c', name: 'two' })).toBeUndefined();
    });

    it('follows an object out of one index into another', async () => {
      await applier.apply([{ kind: 'changed', object: pod('a/mine', 11, ownedBy('o2')) }]);
      expect(await names({ controlledBy: owner('o1') })).toEqual(['b/far']);
      expect(await names({ controlledBy: owner('o2') })).toEqual(['a/mine', 'a/theirs']);
      await applier.apply([{ kind: 'changed', object: pod('a/mine', 12) }]);
      expect(await names({ controlledBy: owner('o2') })).toEqual(['a/theirs']);
      expect(await names({ orphansIn: 'a' })).toEqual(['a/claimed', 'a/free', 'a/mine']);
      await applier.apply([{ kind: 'deleted', object: pod('a/mine', 13) }]);
      expect(await names({ orphansIn: 'a' })).toEqual(['a/claimed', 'a/free']);
      expect(await reader.get(pods, { namespace: 'a', name: 'mine' })).toBeUndefined();
    });

    it('lists nothing that has left the index, or is gone, by the time it is read', async () => {
      // As if the change had come between the reader's two trips: the index still names them.
      await redis.sadd(`${view.location.prefix}:index:controller:o1`, 'a/theirs', 'a/gone');
      expect(await names({ controlledBy: owner('o1') })).toEqual(['a/mine', 'b/far']);
    });

    it('reads while the view is listed again', async () => {
      await applier.apply([
        { kind: 'init', rewound: false },
        { kind: 'listed', object: pod('a/new', 30) },
      ]);
      expect(await names({ namespace: 'a' })).toContain('a/new');
      expect((await reader.list(pods)).version).toBe('10');
    });

    it('lists many, each once and in order', async () => {
      const many = Array.from({ length: 1234 }, (_, at) => pod(`c/p${at}`, 100 + at, ownedBy('o9')));
      await applier.apply(many.map((each) => ({ kind: 'changed' as const, object: each })));
      const expected = many.map(({ metadata }) => `c/${metadata.name}`).toSorted();
      expect(await names({ namespace: 'c' })).toEqual(expected);
      expect(await names({ controlledBy: owner('o9') })).toEqual(expected);
      expect(await names({ fieldSelector: 'metadata.namespace=c' })).toEqual(expected);
    });

    it('has no kind that the controller did not declare', async () => {
      await expect(reader.get(services, { namespace: 'a', name: 'n' })).rejects.toThrow(TypeError);
      await expect(reader.list(services)).rejects.toThrow('name it in for, owns, watches or reads');
    });
  });

  describe(`${name}, over a view in a Redis that loses its last writes`, () => {
    const KEY = { namespace: 'a', name: 'b' };
    const LACKS = /lacks writes|is being checked/;
    const wait = { kind: 'bookmark', version: '12' } as const;

    beforeEach(() => list(applier, 10, pod('a/b', 1)));

    /** What Redis has of the view now; puts it back. */
    async function remembered(): Promise<() => Promise<void>> {
      const pattern = `${view.location.prefix.replace('{', '\\{')}:*`;
      const [, found] = await redis.scan(0, 'MATCH', pattern, 'COUNT', 1_000_000);
      const values = await Promise.all(found.map(async (key) => [key, await redis.dumpBuffer(key)] as const));
      return async () => {
        for (const [key, value] of values) await redis.restore(key, 0, value, 'REPLACE');
      };
    }

    it('reads nothing older than what it has read', async () => {
      const lose = await remembered();
      await applier.apply([{ kind: 'changed', object: pod('a/b', 11) }, wait]);
      expect(await reader.get(pods, KEY)).toEqual(pod('a/b', 11));
      await lose();
      await expect(reader.get(pods, KEY)).rejects.toThrow(LACKS);
      await expect(reader.get(pods, { ...KEY, name: 'none' })).rejects.toThrow(LACKS);
      await expect(reader.list(pods)).rejects.toThrow(LACKS);
      await expect(reader.list(pods, { controlledBy: owner('uid') })).rejects.toThrow(LACKS);
    });

    it('reads nothing older than a list that it has read', async () => {
      const lose = await remembered();
      await applier.apply([{ kind: 'changed', object: pod('a/b', 11) }, wait]);
      expect((await reader.list(pods)).items).toEqual([pod('a/b', 11)]);
      await lose();
      await expect(reader.get(pods, KEY)).rejects.toThrow(LACKS);
    });

    it('reads nothing older than what was there when its run began', async () => {
      const lose = await remembered();
      await applier.apply([{ kind: 'changed', object: pod('a/b', 11) }, wait]);
      const position = await view.record.position();
      location = { ...location, views: { ...location.views, 'v1/Pod': [{ ...view.location, position } as never] } };
      await close();
      await start();
      await lose();
      await expect(reader.get(pods, KEY)).rejects.toThrow(LACKS);
      await expect(reader.list(pods)).rejects.toThrow(LACKS);
    });

    it('waits until all of it is there again', async () => {
      await close();
      await start(30_000);
      const lose = await remembered();
      const later = [{ kind: 'changed', object: pod('a/b', 11) } as const, wait];
      await applier.apply(later);
      expect(await reader.get(pods, KEY)).toEqual(pod('a/b', 11));
      await lose();
      const reads = Promise.all([reader.get(pods, KEY), reader.list(pods)]);
      await sleep(150);
      // Its writer remembers no more what it has written.
      await view.writer.claim('writer');
      await applier.apply(later);
      const [got, listed] = await reads;
      expect([got, listed.items]).toEqual([pod('a/b', 11), [pod('a/b', 11)]]);
    });
  });

  describe(`${name}, over a view that is not complete`, () => {
    const halfListed = () =>
      applier.apply([
        { kind: 'init', rewound: false },
        { kind: 'listed', object: pod('a/b', 1) },
      ]);

    it('reads nothing rather than half of it', async () => {
      await expect(reader.get(pods, { namespace: 'a', name: 'b' })).rejects.toThrow(/not complete|cannot be read now/);
      await halfListed();
      await expect(reader.get(pods, { namespace: 'a', name: 'b' })).rejects.toThrow(/not complete|cannot be read now/);
      await expect(reader.list(pods)).rejects.toThrow(/the cache of v1\/Pod (is not complete yet|cannot be read now)/);
    });

    it('waits for it', async () => {
      await close();
      await start(30_000);
      await halfListed();
      const reads = Promise.all([reader.get(pods, { namespace: 'a', name: 'b' }), reader.list(pods)]);
      await sleep(150);
      await applier.apply([{ kind: 'init-done', version: '9', list: 0 }]);
      const [got, listed] = await reads;
      expect(got).toEqual(pod('a/b', 1));
      expect(listed).toEqual({ items: [pod('a/b', 1)], version: '9' });
    });

    it('waits while a list of rewound data is under way', async () => {
      await list(applier, 50, pod('a/old', 40));
      await view.record.markRewound();
      await expect(reader.get(pods, { namespace: 'a', name: 'old' })).rejects.toThrow(
        /not complete|cannot be read now/,
      );
      await expect(reader.list(pods)).rejects.toThrow(/not complete|cannot be read now/);
      await applier.apply([{ kind: 'init', rewound: true }, ...listOf('30', [pod('a/older', 20)]).slice(1)]);
      expect(await names()).toContain('a/older');
    });
  });
}
