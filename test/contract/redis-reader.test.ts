import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, noCheckpoint, resource, silentMetrics } from '../../src/core/index.ts';
import { viewPrefix } from '../../src/contract/index.ts';
import { RedisReader, redisCache } from '../../src/function/node/redis-reader.ts';
import { Applier } from '../../src/gateway/cache/applier.ts';
import { connectRedis, type Redis } from '../../src/gateway/cache/redis.ts';
import { View } from '../../src/gateway/cache/view.ts';
import { deaf } from '../harness/deaf-handler.ts';
import { uniqueName } from '../harness/levelhook.ts';

const pods = resource('v1', 'Pod');
const nodes = resource('v1', 'Node', { namespaced: false });

let redis: Redis;
let view: View;
let applier: Applier;
let reader: RedisReader;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
});
afterAll(() => redis.disconnect());

beforeEach(async () => {
  const scope = { keyPrefix: uniqueName('test'), clusterId: 'c', settings: 's' };
  view = new View(redis, pods, { prefix: viewPrefix({ ...scope, resource: pods }) });
  await view.take('term');
  applier = new Applier({ view, handler: deaf, users: () => [], metrics: silentMetrics, checkpoint: noCheckpoint });
  reader = new RedisReader(redis, { views: { 'v1/Pod': [view.location] } });
});

function pod(key: string, version: number, rest: object = {}): KubernetesObject {
  const [namespace = '', name = ''] = key.split('/');
  const metadata = { namespace, name, uid: `uid-${key}`, resourceVersion: String(version), ...rest };
  return { apiVersion: 'v1', kind: 'Pod', metadata };
}
const ownedBy = (uid: string, controller = true) => ({
  ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid, controller }],
});

async function list(version: number, ...objects: KubernetesObject[]): Promise<void> {
  await applier.apply([
    { kind: 'init', timeWentBackwards: false },
    ...objects.map((object) => ({ kind: 'listed' as const, object })),
    { kind: 'init-done', version: String(version), list: 0 },
  ]);
}

async function names(options?: Parameters<RedisReader['list']>[1]): Promise<string[]> {
  const { items } = await reader.list(pods, options);
  return items.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).toSorted();
}

describe('RedisReader, over a view that the gateway has filled', () => {
  const mine = pod('a/mine', 1, { ...ownedBy('o1'), labels: { app: 'x', constructor: 'y' } });
  const theirs = pod('a/theirs', 2, ownedBy('o2'));
  const free = pod('a/free', 3, { labels: { app: 'x' } });
  const claimed = pod('a/claimed', 4, ownedBy('o1', false));
  const far = pod('b/far', 5, ownedBy('o1'));

  beforeEach(() => list(10, mine, theirs, free, claimed, far));

  it('gets an object whole, and nothing for one that is not there', async () => {
    expect(await reader.get(pods, { namespace: 'a', name: 'mine' })).toEqual(mine);
    expect(await reader.get(pods, { namespace: 'b', name: 'mine' })).toBeUndefined();
    expect(await reader.get(pods, { name: 'mine' })).toBeUndefined();
  });

  it('gives the reader copies of its own', async () => {
    const first = await reader.get(pods, { namespace: 'a', name: 'mine' });
    first!.metadata.labels = { changed: 'yes' };
    expect(await reader.get(pods, { namespace: 'a', name: 'mine' })).toEqual(mine);
  });

  it('lists all, by namespace, by controller, those without one, by labels, and by all of them together', async () => {
    expect(await names()).toEqual(['a/claimed', 'a/free', 'a/mine', 'a/theirs', 'b/far']);
    expect(await names({ namespace: 'a' })).toEqual(['a/claimed', 'a/free', 'a/mine', 'a/theirs']);
    expect(await names({ controlledBy: 'o1' })).toEqual(['a/mine', 'b/far']);
    expect(await names({ controlledBy: 'o1', namespace: 'a' })).toEqual(['a/mine']);
    expect(await names({ orphansIn: 'a' })).toEqual(['a/claimed', 'a/free']);
    expect(await names({ orphansIn: 'b' })).toEqual([]);
    expect(await names({ orphansIn: 'a', controlledBy: 'o1' })).toEqual([]);
    expect(await names({ labelSelector: { matchLabels: { app: 'x' } } })).toEqual(['a/free', 'a/mine']);
    expect(
      await names({ namespace: 'a', labelSelector: { matchExpressions: [{ key: 'app', operator: 'DoesNotExist' }] } }),
    ).toEqual(['a/claimed', 'a/theirs']);
    expect(await names({ namespace: 'nowhere' })).toEqual([]);
  });

  it('tells the version up to which the cache is complete', async () => {
    expect((await reader.list(pods)).version).toBe('10');
    await applier.apply([{ kind: 'bookmark', version: '20' }]);
    expect((await reader.list(pods, { namespace: 'nowhere' })).version).toBe('20');
  });

  it('follows an object out of one index into another', async () => {
    await applier.apply([{ kind: 'changed', object: pod('a/mine', 11, ownedBy('o2')) }]);
    expect(await names({ controlledBy: 'o1' })).toEqual(['b/far']);
    expect(await names({ controlledBy: 'o2' })).toEqual(['a/mine', 'a/theirs']);
    await applier.apply([{ kind: 'changed', object: pod('a/mine', 12) }]);
    expect(await names({ controlledBy: 'o2' })).toEqual(['a/theirs']);
    expect(await names({ orphansIn: 'a' })).toEqual(['a/claimed', 'a/free', 'a/mine']);
    await applier.apply([{ kind: 'deleted', object: pod('a/mine', 13) }]);
    expect(await names({ orphansIn: 'a' })).toEqual(['a/claimed', 'a/free']);
    expect(await reader.get(pods, { namespace: 'a', name: 'mine' })).toBeUndefined();
  });

  it('lists nothing that has left the index, or is gone, by the time it is read', async () => {
    // As if the change had come between the reader's two trips: the index still names them.
    await redis.sadd(`${view.location.prefix}:index:controller:o1`, 'a/theirs', 'a/gone');
    expect(await names({ controlledBy: 'o1' })).toEqual(['a/mine', 'b/far']);
  });

  it('reads while the view is listed again', async () => {
    await applier.apply([
      { kind: 'init', timeWentBackwards: false },
      { kind: 'listed', object: pod('a/new', 30) },
    ]);
    expect(await names({ namespace: 'a' })).toContain('a/new');
    expect((await reader.list(pods)).version).toBe('10');
  });

  it('has no kind that the controller did not declare', async () => {
    await expect(reader.get(nodes, { name: 'n' })).rejects.toThrow(TypeError);
    await expect(reader.list(nodes)).rejects.toThrow('name it in for, owns or reads');
  });

  it('opens one connection for all triggers, at the first read', async () => {
    let asked = 0;
    const open = redisCache(() => {
      asked += 1;
      return inject('redisUrl');
    });
    expect(asked).toBe(0);
    const location = { views: { 'v1/Pod': [view.location] } };
    expect(await open(location).get(pods, { namespace: 'a', name: 'mine' })).toEqual(mine);
    expect(await open(location).get(pods, { namespace: 'b', name: 'far' })).toEqual(far);
    expect(asked).toBe(1);
  });
});

describe('RedisReader, over a view that is not complete', () => {
  it('reads nothing rather than half of it', async () => {
    await expect(reader.get(pods, { namespace: 'a', name: 'b' })).rejects.toThrow('not complete');
    await applier.apply([
      { kind: 'init', timeWentBackwards: false },
      { kind: 'listed', object: pod('a/b', 1) },
    ]);
    await expect(reader.get(pods, { namespace: 'a', name: 'b' })).rejects.toThrow('not complete');
    await expect(reader.list(pods)).rejects.toThrow('the cache of v1/Pod is not complete yet');
  });
});
