import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import type { MemoryPlace } from '../../../src/ground/redis/memory-shares.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import type { WatchEvent } from '../../../src/gateway/informer/reflector/watch-event.ts';
import { ForeignWriterError } from '../../../src/gateway/informer/cache/view-writer.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { createView } from '../../harness/views.ts';
import { CacheWorld, pods } from './cache-world.ts';

let redis: Redis;
let world: CacheWorld;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
});
afterAll(() => redis.disconnect());
beforeEach(async () => {
  world = await new CacheWorld(redis).start();
});
afterEach(() => world.close());

function pod(name: string, version: number, owner?: string, uid = `uid-${name}`): KubernetesObject {
  const ownerReferences = [
    { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: owner ?? '', uid: `uid-${owner}`, controller: true },
  ];
  const metadata = {
    namespace: 'a',
    name,
    uid,
    resourceVersion: String(version),
    ...(owner ? { ownerReferences } : {}),
  };
  return { apiVersion: 'v1', kind: 'Pod', metadata };
}
const listed = (version: string, ...objects: KubernetesObject[]): WatchEvent[] => listOf(version, objects);
/** The wakeups of these events, as `controller key`. What the cache holds is compared with the model besides. */
async function woken(...events: WatchEvent[]): Promise<string[]> {
  const before = world.written.length;
  await world.apply(events);
  return world.written.slice(before).toSorted();
}

describe('a list', () => {
  it('wakes no key for what it names when it is the first, but for what is gone when it starts over', async () => {
    expect(await woken(...listed('10', pod('x', 5, 'set')).slice(0, 2))).toEqual([]);
    // All keys are queued when it is complete, and this one is no longer among them.
    expect(await woken(...listed('11', pod('y', 6, 'set')))).toEqual(['pods a/x', 'replicasets a/set']);
    expect(await woken({ kind: 'changed', object: pod('z', 12, 'set') })).toEqual(['pods a/z', 'replicasets a/set']);
  });

  it('wakes only what has changed when it is not the first, and tells the deleted last', async () => {
    await woken(...listed('10', pod('same', 1), pod('changed', 2, 'old'), pod('gone', 3, 'owner')));
    expect(await woken(...listed('20', pod('same', 1), pod('changed', 12, 'new'), pod('added', 13)))).toEqual([
      'pods a/added',
      'pods a/changed',
      'pods a/gone',
      'replicasets a/new',
      'replicasets a/old',
      'replicasets a/owner',
    ]);
  });

  it('keeps what was written since, and moves no version before its end', async () => {
    await woken(...listed('10', pod('x', 5)));
    await woken({ kind: 'changed', object: pod('late', 30) });
    const [init, ...rest] = listed('20', pod('x', 5));
    if (init) await woken(init, ...rest.slice(0, 1));
    expect((await world.view.record.state()).version).toBe('30');
    await woken(...rest.slice(1));
    expect(world.model.objects.has('a/late')).toBe(true);
  });

  it.each([
    ['an older version of an object', pod('x', 5), 'contradiction'],
    ['another object of the name in the same version', pod('x', 12, undefined, 'uid-other'), 'contradiction'],
    ['the object in the same version', pod('x', 12), 'applied'],
    ['another object of the name in a newer version', pod('x', 13, undefined, 'uid-other'), 'applied'],
  ] as const)('is compared with the cache when it names %s', async (_, object, expected) => {
    const view = createView(redis, pods);
    await view.writer.claim('writer');
    const applier = applierOf(view);
    await applier.apply(listed('15', pod('x', 12)));
    expect(await applier.apply(listed('20', object))).toBe(expected);
  });

  it('never contradicts an object without a UID, as of an API that gives none, or when it is rewound', async () => {
    const view = createView(redis, pods);
    await view.writer.claim('writer');
    const applier = applierOf(view);
    for (const version of ['15', '20']) {
      expect(await applier.apply(listed(version, pod('x', 12, undefined, '')))).toBe('applied');
    }
    const [, ...rest] = listed('30', pod('x', 12, undefined, 'uid-new'));
    expect(await applier.apply([{ kind: 'init', rewound: true }, ...rest])).toBe('applied');
  });

  it('after a rewind replaces all, whatever the versions', async () => {
    await woken(...listed('100', pod('x', 90), pod('y', 95, 'set'), pod('same', 5)));
    const [, ...rest] = listed('50', pod('x', 40), pod('same', 5));
    expect(await woken({ kind: 'init', rewound: true }, ...rest)).toEqual([
      'pods a/x',
      'pods a/y',
      'replicasets a/set',
    ]);
    expect(await woken({ kind: 'changed', object: pod('x', 51) })).toEqual(['pods a/x']);
  });
});

describe('a watch', () => {
  beforeEach(async () => {
    await woken(...listed('10', pod('x', 5, 'one')));
  });

  it('wakes the old owner and the new', async () => {
    expect(await woken({ kind: 'changed', object: pod('x', 11, 'two') })).toEqual([
      'pods a/x',
      'replicasets a/one',
      'replicasets a/two',
    ]);
  });

  it('takes another UID under the same name for a delete and an add', async () => {
    expect(await woken({ kind: 'changed', object: pod('x', 11, 'two', 'another') })).toEqual([
      'pods a/x',
      'replicasets a/one',
      'replicasets a/two',
    ]);
  });

  it('wakes for a deletion of an object that it never knew', async () => {
    expect(await woken({ kind: 'deleted', object: pod('unknown', 11, 'two') })).toEqual([
      'pods a/unknown',
      'replicasets a/two',
    ]);
  });

  it('changes nothing when an old event comes again', async () => {
    await woken({ kind: 'changed', object: pod('x', 12, 'two') });
    expect(await woken({ kind: 'changed', object: pod('x', 12, 'two') })).toEqual([]);
    expect(await woken({ kind: 'changed', object: pod('x', 5, 'one') }, { kind: 'bookmark', version: '12' })).toEqual(
      [],
    );
    expect(await woken({ kind: 'deleted', object: pod('x', 7, 'one') }, { kind: 'bookmark', version: '12' })).toEqual(
      [],
    );
  });

  it('wakes a key once for a chunk that names it often, with eight reasons at most, the oldest', async () => {
    const events = Array.from({ length: 20 }, (_, at) => ({
      kind: 'changed' as const,
      object: pod('x', 11 + at, 'one'),
    }));
    expect(await woken(...events)).toEqual(['pods a/x', 'replicasets a/one']);
    const [{ wakeup } = { wakeup: undefined }] = await world.view.outbox.read(1);
    expect(wakeup?.reasons.map(({ resourceVersion }) => resourceVersion)).toEqual([
      '11',
      '12',
      '13',
      '14',
      '15',
      '16',
      '17',
      '18',
    ]);
    expect(wakeup?.reasons[0]).toEqual({ type: 'updated', object: 'v1/Pod a/x', resourceVersion: '11' });
  });

  it('handles an object made, changed and deleted in one chunk', async () => {
    expect(
      await woken(
        { kind: 'changed', object: pod('brief', 11, 'two') },
        { kind: 'changed', object: pod('brief', 12, 'three') },
        { kind: 'deleted', object: pod('brief', 13, 'three') },
      ),
    ).toEqual(['pods a/brief', 'replicasets a/three', 'replicasets a/two']);
    await woken(
      { kind: 'deleted', object: pod('x', 14, 'one') },
      { kind: 'changed', object: pod('x', 15, 'two', 'again') },
    );
  });

  it('is refused to another gateway, and nothing is changed', async () => {
    await new View(redis, pods, world.view.location).writer.claim('another');
    const before = await world.dump();
    const apply = {
      version: '99',
      incomparable: true,
      operations: [{ kind: 'D' as const, key: 'a/x', version: '99' }],
    };
    const wakeups = [{ controller: 'pods', key: 'a/x', reasons: [] }];
    await expect(world.view.apply({ ...apply, users: [], failed: [], wakeups })).rejects.toThrow(
      'taken by another gateway',
    );
    expect(await world.dump()).toEqual(before);
    await world.view.writer.claim('writer');
  });
});

describe('the relay', () => {
  it('keeps a wakeup that is in a queue already, rather than lose it, when the process dies in between', async () => {
    await woken(...listed('10'));
    await woken({ kind: 'changed', object: pod('x', 11) });
    await world.relay(true);
    expect(world.queued).toEqual(['pods a/x']);
    await world.relay();
    expect(world.queued).toEqual(['pods a/x', 'pods a/x']);
    await world.relay();
    expect(world.queued).toHaveLength(2);
  });

  it('moves more than fits into one batch', async () => {
    await woken(...listed('10'));
    const events = Array.from({ length: 700 }, (_, at) => ({
      kind: 'changed' as const,
      object: pod(`p${at}`, 11 + at),
    }));
    for (let at = 0; at < events.length; at += 200) await world.apply(events.slice(at, at + 200));
    await world.relay();
    expect(new Set(world.queued).size).toBe(700);
  });
});

describe('a list into an empty view', () => {
  const begin = (...objects: KubernetesObject[]): WatchEvent[] => listed('10', ...objects).slice(0, -1);
  const state = async () => {
    const keys = ['a/x', 'a/y'];
    const entries = await world.view.objects.entries(keys);
    const indexed = await world.view.indexer.keysWith(['namespace:a']);
    return [
      (await world.view.record.state()).version,
      entries.map((entry) => entry?.resourceVersion),
      indexed.toSorted(),
    ];
  };

  it('is applied again from a pending write that failed, and no later event is written before', async () => {
    const applier = applierOf(world.view);
    await new View(redis, pods, world.view.location).writer.claim('another');
    // It resolves while the write is pending. Another gateway has the view, so the write fails.
    await applier.apply(begin(pod('x', 5)));
    await world.view.writer.claim('writer');
    const rest: WatchEvent[] = [
      { kind: 'deleted', object: pod('x', 7) },
      { kind: 'listed', object: pod('y', 6) },
      { kind: 'init-done', version: '10', list: 0 },
    ];
    await expect(applier.apply(rest)).rejects.toThrow(ForeignWriterError);
    expect(await state()).toEqual([undefined, [undefined, undefined], []]);
    await applier.apply(rest);
    expect(await state()).toEqual(['10', [undefined, '6'], ['a/y']]);
  });

  it('is applied event by event from a pending write that failed', async () => {
    const applier = applierOf(world.view);
    await new View(redis, pods, world.view.location).writer.claim('another');
    await applier.apply(begin(pod('x', 5)));
    await world.view.writer.claim('writer');
    const rest = listed('10', pod('y', 6)).slice(1);
    await expect(applier.applyEach(rest)).rejects.toThrow(ForeignWriterError);
    await applier.applyEach(rest);
    expect(await state()).toEqual(['10', ['5', '6'], ['a/x', 'a/y']]);
  });

  it('keeps the newest version of an object that comes several times, in one chunk or in several', async () => {
    const applier = applierOf(world.view);
    await applier.apply(begin(pod('x', 5), pod('x', 7), pod('y', 6)));
    await applier.apply([{ kind: 'changed', object: pod('y', 8) }]);
    await applier.apply(listed('10', pod('x', 5), pod('y', 6)).slice(1));
    expect(await state()).toEqual(['10', ['7', '8'], ['a/x', 'a/y']]);
  });

  it('leaves no index of an object that was changed while it was listed', async () => {
    await woken(...begin(pod('x', 5, 'old')));
    await woken({ kind: 'changed', object: pod('x', 7, 'new') });
    await woken({ kind: 'deleted', object: pod('x', 8, 'new') }, { kind: 'listed', object: pod('y', 6) });
    await woken({ kind: 'init-done', version: '10', list: 0 });
  });
});

it('the text of a wakeup counts for the namespace of its ReconcileFunction, and for none of a configured function', async () => {
  const reserved: (readonly [string | undefined, number])[] = [];
  const memory = {
    reserve: async (_: MemoryPlace, sizes: () => typeof reserved) => void reserved.push(...sizes()),
    leftOut: () => undefined,
  };
  const view = new View(redis, pods, createView(redis, pods).location, undefined, { memory });
  await view.writer.claim('writer');
  const waking = (controller: string, key: string) => ({
    needsOld: () => false,
    handle: () => [{ controller, key, reasons: [] }],
  });
  const applier = applierOf(view, {
    'shop.web': waking('shop.web', `a/${'k'.repeat(1000)}`),
    webs: waking('webs', `a/${'k'.repeat(2000)}`),
  });
  await applier.apply(listed('10'));
  reserved.length = 0;
  await applier.apply([{ kind: 'changed', object: pod('x', 11) }]);
  const bytesOf = (namespace: string | undefined): number[] =>
    reserved.filter(([each]) => each === namespace).map(([, bytes]) => bytes);
  expect(bytesOf('shop').every((bytes) => bytes > 1000 && bytes < 1200)).toBe(true);
  expect(bytesOf(undefined).every((bytes) => bytes > 2000 && bytes < 2200)).toBe(true);
  expect(new Set(reserved.map(([namespace]) => namespace))).toEqual(new Set(['a', 'shop', undefined]));
});
