import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import type { Selection } from '../../../src/contract/index.ts';
import { ObjectCodec } from '../../../src/contract/node/codec.ts';
import { KeyRing } from '../../../src/contract/node/key-ring.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import { backfill } from '../../../src/gateway/informer/cache/backfill.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { createView } from '../../harness/views.ts';

const pods = resource('v1', 'Pod');
const APP = 'label:app';

function pod(name: string, version: number, owner: string, app = 'x'): KubernetesObject {
  const reference = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r', uid: owner, controller: true };
  const metadata = { namespace: 'n', name, uid: name, resourceVersion: String(version), labels: { app } };
  return { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, ownerReferences: [reference] } };
}

describe.each([
  ['the keys of an index', Infinity],
  ['all keys in order, since the index has too many,', 0],
])('a list that reads %s', (_how, most) => {
  let redis: Redis;
  let view: View;
  let applier: Applier;

  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
  });
  afterAll(() => redis.disconnect());

  const open = async (keyRing?: KeyRing): Promise<void> => {
    view = createView(redis, pods, (prefix) => new ObjectCodec({ prefix, keyRing }));
    applier = applierOf(view);
    view.indexer.maintain([APP]);
    await view.writer.claim('writer');
    await view.indexer.record([APP]);
    const listed = [pod('a', 1, 'o'), pod('b', 2, 'o'), pod('c', 3, 'other'), pod('d', 4, 'o', 'y')];
    await applier.apply(listOf('9', listed));
  };
  beforeEach(() => open());

  const owned: Selection = { controlledBy: { metadata: { uid: 'o', namespace: 'n' } } };
  const change = (object: KubernetesObject) => applier.apply([{ kind: 'changed', object }]);

  /** What is found, when `between` happens after the look at the index. */
  async function list(
    selection: Selection,
    between: () => Promise<unknown> = () => Promise.resolve(),
  ): Promise<string[]> {
    const reader = view.reader();
    const state = await reader.state(selection, most);
    if (!state) throw new Error('the view is not complete');
    await between();
    const names: string[] = [];
    for await (const batch of reader.select(selection, { state, verbatim: true })) {
      names.push(...batch.map(({ key }) => key));
    }
    return names;
  }

  /** An object that breaks its parser. */
  const spoil = (key: string) => redis.hset(viewKeys(view.location.prefix).objects, key, '{ this is not JSON');

  it.each<[string, Selection, string[]]>([
    ['namespace', { namespace: 'n' }, ['n/a', 'n/b', 'n/c', 'n/d']],
    ['controller', owned, ['n/a', 'n/b', 'n/d']],
    ['controller and declared index', { ...owned, index: { spec: APP, value: 'y' } }, ['n/d']],
    ['another namespace', { ...owned, namespace: 'm' }, []],
    ['name in all namespaces', { fields: [{ field: 'metadata.name', operator: '=', value: 'b' }] }, ['n/b']],
  ])('by %s parses none of them', async (_, selection, names) => {
    await Promise.all(['n/a', 'n/b', 'n/c', 'n/d'].map(spoil));
    expect(await list(selection)).toEqual(names);
  });

  it('by label looks at them', async () => {
    const labels = [{ key: 'app', operator: 'In' as const, values: ['x'] }];
    expect(await list({ ...owned, labels })).toEqual(['n/a', 'n/b']);
    await spoil('n/a');
    await expect(list({ ...owned, labels })).rejects.toThrow(SyntaxError);
  });

  it('leaves out what has gone to another owner or was deleted after the index was read', async () => {
    const found = await list(owned, async () => {
      await change(pod('a', 10, 'other'));
      await applier.apply([{ kind: 'deleted', object: pod('b', 11, 'o') }]);
    });
    expect(found).toEqual(['n/d']);
  });

  it('keeps what is just being taken out of a withdrawn index', async () => {
    const selection: Selection = { index: { spec: APP, value: 'y' } };
    expect(await list(selection, () => backfill(view, [], new AbortController().signal))).toEqual(['n/d']);
  });

  it('does not take the word of an entry for encrypted objects', async () => {
    await open(new KeyRing([{ id: 'k', bytes: randomBytes(32) }]));
    const { entries, indexPrefix } = viewKeys(view.location.prefix);
    // What somebody could do who may write to Redis and has no key.
    await redis.sadd(`${indexPrefix}controller:o`, 'n/c');
    await redis.hset(entries, 'n/c', (await redis.hget(entries, 'n/a')) ?? '');
    expect(await list(owned)).toEqual(['n/a', 'n/b', 'n/d']);
  });
});
