import { randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import {
  type KubernetesObject,
  noCheckpoint,
  resource,
  silentLogger,
  silentMetrics,
  tenantOf,
} from '../../../src/core/index.ts';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import { ObjectCodec } from '../../../src/contract/node/codec.ts';
import { KeyRing } from '../../../src/contract/node/key-ring.ts';
import { RedisReader } from '../../../src/function/node/redis-reader.ts';
import { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import { backfill } from '../../../src/gateway/informer/cache/backfill.ts';
import { type ChangeHandler, HandlerError, type KeyWakeup } from '../../../src/gateway/informer/cache/change.ts';
import { ChangeHandlers } from '../../../src/gateway/informer/cache/change-handlers.ts';
import { forgetUsers } from '../../../src/gateway/informer/cache/forget-users.ts';
import { type LookupBudget, unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import { connectRedis, isDataError, type Redis } from '../../../src/ground/redis/redis.ts';
import { MAX_WAITING, Relay } from '../../../src/gateway/informer/cache/relay.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { ForeignWriterError } from '../../../src/gateway/informer/cache/view-writer.ts';
import type { WatchEvent } from '../../../src/gateway/informer/reflector/watch-event.ts';
import { listOf } from '../../harness/applier.ts';
import { storedObjects } from '../../harness/stored-objects.ts';
import { createView } from '../../harness/views.ts';

const MIB = 1024 * 1024;
const things = resource('example.com/v1', 'Thing');
type Thing = KubernetesObject & { spec?: unknown };

const thing = (name: string, version: number, more: Partial<Thing> = {}): Thing => ({
  apiVersion: 'example.com/v1',
  kind: 'Thing',
  metadata: { namespace: 'a', name, uid: `u-${name}`, resourceVersion: String(version) },
  ...more,
});

/** The text of an object that is nested so deep that no recursion writes or reads it. */
function deepText(name: string, version: number): string {
  const levels = 5000;
  const text = JSON.stringify(thing(name, version));
  return `${text.slice(0, -1)},"spec":${'{"a":['.repeat(levels / 2)}${']}'.repeat(levels / 2)}}`;
}
const deep = (name: string, version: number): Thing => JSON.parse(deepText(name, version)) as Thing;

/** Wakes the object's own key; fails at objects of this name. */
const waking = (controller: string, failsAt?: string): ChangeHandler => ({
  needsOld: () => false,
  handle: ({ object }) => {
    if (object.metadata.name === failsAt) throw new TypeError('data of an object is not for a log');
    return [{ controller, key: `a/${object.metadata.name}`, reasons: [] }];
  },
});

/** The bytes on the heap that something holds. */
function liveHeap(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}

describe('a view that several controllers share', () => {
  let redis: Redis;
  let view: View;
  let failures: { user: string; name: string }[];
  let handlers: ChangeHandlers;
  let applier: Applier;
  let lists = 0;

  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
  });
  afterAll(() => redis.disconnect());
  beforeEach(async () => {
    await open();
  });

  async function open(codec?: (prefix: string) => ObjectCodec): Promise<void> {
    view = createView(redis, things, codec);
    await view.writer.claim('writer');
    failures = [];
    lists = 0;
    handlers = new ChangeHandlers((user, _, { metadata }) => void failures.push({ user, name: metadata.name }));
    applier = new Applier({ view, handlers, logger: silentLogger, metrics: silentMetrics, checkpoint: noCheckpoint });
    await list();
  }

  async function list(...objects: KubernetesObject[]): Promise<void> {
    const version = String((lists += 10));
    await applier.apply(listOf(version, objects));
  }

  const changed = (...objects: KubernetesObject[]): WatchEvent[] =>
    objects.map((object) => ({ kind: 'changed', object }));
  const deepChange = (version: number): WatchEvent[] => [
    { kind: 'changed', object: deep('deep', version), json: deepText('deep', version) },
  ];
  const outbox = async (): Promise<string[]> =>
    (await view.outbox.read(100)).map(({ controller, wakeup }) => `${controller} ${(wakeup as KeyWakeup).key}`);

  describe('when the handlers of one fail', () => {
    beforeEach(() => {
      handlers.set('fine', [waking('fine')]);
      handlers.set('failing', [waking('failing', 'bad')]);
    });

    it('gives the others their wakeups, and counts what the one has missed with the change itself', async () => {
      await applier.apply(changed(thing('good', 11), thing('bad', 12), thing('good', 13)));
      expect(await outbox()).toEqual(['fine a/good', 'failing a/good', 'fine a/bad']);
      expect(failures).toEqual([{ user: 'failing', name: 'bad' }]);
      expect([await view.record.missedBy('fine'), await view.record.missedBy('failing')]).toEqual(['', '1']);
      expect((await view.record.state()).version).toBe('13');
    });

    it('counts each time anew, so that none is taken for one that was made up for', async () => {
      for (const version of [11, 12, 13]) await applier.apply(changed(thing('bad', version)));
      expect([await view.record.missedBy('fine'), await view.record.missedBy('failing')]).toEqual(['', '3']);
    });

    it('deletes and lists what they fail at, too', async () => {
      await applier.apply(changed(thing('bad', 11)));
      await list(thing('good', 9));
      expect((await outbox()).filter((each) => each.startsWith('fine'))).toEqual([
        'fine a/bad',
        'fine a/good',
        'fine a/bad',
      ]);
      expect(await view.objects.get('a/bad')).toBeUndefined();
      expect(await view.record.missedBy('failing')).toBe('2');
    });
  });

  it('holds few old objects at a time, however many a chunk changes', async () => {
    const names = Array.from({ length: 40 }, (_, at) => `large-${at}`);
    // Texts that are compressed take no memory in Redis worth a bound.
    await open((prefix) => new ObjectCodec({ prefix }));
    for (const name of names) await applier.apply(changed(thing(name, 11, { spec: 'x'.repeat(MIB) })));
    const before = liveHeap();
    let [olds, most] = [0, 0];
    handlers.set('comparing', [
      {
        needsOld: () => true,
        handle: (change) => {
          if (change.type === 'updated' && (change.old as Thing).spec !== undefined) olds += 1;
          most = Math.max(most, liveHeap() - before);
          return [];
        },
      },
    ]);
    await applier.apply(changed(...names.map((name) => thing(name, 12))));
    expect(olds).toBe(names.length);
    expect(most / MIB).toBeLessThan(10);
  });

  it('notes nothing of a user that was forgotten before the next change', async () => {
    handlers.set('fine', [waking('fine')]);
    handlers.set('gone', []);
    await applier.apply(changed(thing('one', 11)));
    handlers.delete('gone');
    await forgetUsers(redis, view.location.prefix, ['gone']);
    await applier.apply(changed(thing('two', 12)));
    expect([await view.record.missedBy('gone'), await view.record.missedBy('fine')]).toEqual(['', '']);
    handlers.delete('fine');
    await applier.apply(changed(thing('three', 13)));
    expect(await view.record.missedBy('fine')).toBe('1');
  });

  it('writes a change that wakes more keys than a call has arguments in pieces, and a controller that it would wake too many of misses it', async () => {
    const many = (controller: string, count: number): ChangeHandler => ({
      needsOld: () => false,
      handle: () => Array.from({ length: count }, (_, at) => ({ controller, key: `a/${at}`, reasons: [] })),
    });
    const users = ['fine', 'second', 'third', 'fourth', 'fifth'];
    for (const user of users) handlers.set(user, [many(user, 9000)]);
    handlers.set('greedy', [many('greedy', 10_001)]);
    await applier.apply(changed(thing('one', 11), thing('two', 12)));
    expect((await view.record.state()).version).toBe('12');
    expect((await view.objects.get('a/one'))?.metadata.name).toBe('one');
    expect([
      await view.indexer.keptOutCount(),
      await view.record.missedBy('greedy'),
      await view.record.missedBy('fine'),
    ]).toEqual([0, '2', '']);
    expect(await redis.xlen(viewKeys(view.location.prefix).outbox)).toBeGreaterThanOrEqual(45_000);
  });

  it('writes large objects, and their deletions, in pieces', async () => {
    const { prefix } = view.location;
    let scripts = 0;
    const counting = new Applier({
      view,
      handlers,
      logger: silentLogger,
      metrics: silentMetrics,
      checkpoint: async (point) => void (scripts += point === 'apply:before-script' ? 1 : 0),
    });
    handlers.set('fine', [waking('fine')]);
    const large = Array.from({ length: 60 }, (_, at) =>
      thing(`n${at}`, 11 + at, { spec: randomBytes(512 * 1024).toString('base64') }),
    );
    await counting.apply(changed(...large));
    // Some 0.5 MiB each, compressed.
    expect(scripts).toBeGreaterThan(3);
    expect([await view.objects.size(), (await view.record.state()).version]).toEqual([60, '70']);
    scripts = 0;
    await counting.apply([
      { kind: 'init', rewound: false },
      { kind: 'init-done', version: '100', list: 1 },
    ]);
    expect([scripts, await view.objects.size(), (await view.record.state()).version]).toEqual([2, 0, '100']);
    expect(await redis.xlen(viewKeys(prefix).outbox)).toBe(120);
  });

  describe('with an object that cannot be handled', () => {
    const index = 'field:spec.a' as const;
    const reader = () => new RedisReader(redis, { views: { 'example.com/v1/Thing': [view.location] } });

    it('keeps it out, tells readers of it, and holds all the others', async () => {
      view.indexer.maintain([index]);
      handlers.set('fine', [waking('fine')]);
      // By a list it comes as a value, by a watch as text.
      await list(thing('one', 8), deep('listed', 9));
      await applier.apply([...changed(thing('two', 11)), ...deepChange(12), ...changed(thing('three', 13))]);
      expect((await view.record.state()).version).toBe('13');
      expect(await view.indexer.keptOutCount()).toBe(2);
      expect([await view.indexer.keptOutCount(['a']), await view.indexer.keptOutCount(['other'])]).toEqual([2, 0]);
      expect(await outbox()).toEqual(['one', 'listed', 'two', 'deep', 'three'].map((name) => `fine a/${name}`));
      const found = await reader().list(things);
      expect(found.items.map(({ metadata }) => metadata.name)).toEqual(['one', 'three', 'two']);
      const reason = 'it is nested more than 256 levels deep';
      const reasons = ['a/deep', 'a/one', 'a/none'].map((key) => view.objects.keptOutReason(key));
      expect(await Promise.all(reasons)).toEqual([reason, undefined, undefined]);
      expect(found.keptOut).toEqual([
        { key: 'a/deep', reason },
        { key: 'a/listed', reason },
      ]);
      await expect(reader().get(things, { namespace: 'a', name: 'deep' })).rejects.toThrow(
        `the object a/deep is kept out of the cache: ${reason}`,
      );
      expect((await reader().list(things, { namespace: 'other' })).keptOut).toBeUndefined();
      // Its fields are not known, so it may be one of them.
      expect((await reader().list(things, { index: { spec: index, value: 'none' } })).keptOut).toHaveLength(2);
      await view.indexer.record([index]);
      for (const most of [Infinity, 0]) {
        const selection = { index: { spec: index, value: 'none' } };
        const state = await view.reader().state(selection, most);
        if (!state) throw new Error('the view is not complete');
        const told: string[] = [];
        const options = { state, onKeptOut: ({ key }: { key: string }) => void told.push(key) };
        for await (const batch of view.reader().select(selection, options)) expect(batch).toEqual([]);
        expect(told).toEqual(['a/deep', 'a/listed']);
        expect(state.keys === undefined).toBe(most === 0);
      }
      expect(
        (await reader().list(things, { namespace: 'other', index: { spec: index, value: 'none' } })).keptOut,
      ).toBeUndefined();
    });

    it('keeps a listed one out that is too long, of which only its text tells', async () => {
      await list(thing('one', 8), thing('long', 9, { spec: 'x'.repeat(8 * 1024 * 1024) }));
      expect((await reader().list(things)).keptOut).toEqual([
        { key: 'a/long', reason: 'it has more than 8388608 characters' },
      ]);
      expect(await view.objects.get('a/one')).toEqual(thing('one', 8));
    });

    it('shows it again once it can be handled, and forgets it when it is deleted', async () => {
      await applier.apply(deepChange(12));
      await backfill(view, ['label:app'], new AbortController().signal);
      expect(await view.indexer.keptOutCount()).toBe(1);
      await applier.apply(changed(thing('deep', 14)));
      expect(await view.indexer.keptOutCount()).toBe(0);
      expect(await reader().get(things, { namespace: 'a', name: 'deep' })).toEqual(thing('deep', 14));
      await applier.apply(deepChange(15));
      await applier.apply([{ kind: 'deleted', object: deep('deep', 16) }]);
      expect([await view.indexer.keptOutCount(), await view.objects.size()]).toEqual([0, 0]);
    });

    it('tells of it once, also when it was taken out while a list was being read', async () => {
      await list(deep('before', 8), thing('deep', 9));
      const state = await view.reader().state({});
      if (!state) throw new Error('the view is not complete');
      await applier.apply(deepChange(12));
      const told: string[] = [];
      const options = { state, onKeptOut: ({ key }: { key: string }) => void told.push(key) };
      for await (const batch of view.reader().select({}, options)) expect(batch).toEqual([]);
      expect(told).toEqual(['a/before', 'a/deep']);
    });

    it('keeps the mark encrypted where objects are, also under a new key', async () => {
      const [old, fresh] = ['old', 'new'].map((id) => ({ id, bytes: randomBytes(32) }));
      if (!old || !fresh) throw new Error('there are no keys');
      await open((prefix) => new ObjectCodec({ prefix, keyRing: new KeyRing([old]) }));
      await applier.apply(deepChange(12));
      const { prefix } = view.location;
      const again = new View(
        redis,
        things,
        { prefix },
        new ObjectCodec({ prefix, keyRing: new KeyRing([fresh, old]) }),
      );
      await again.writer.claim('writer');
      await again.objects.reencrypt();
      expect(await again.objects.get('a/deep')).toMatchObject({ metadata: { name: 'deep', uid: 'u-deep' } });
      const [stored] = Object.values(await storedObjects(redis, viewKeys(prefix).objects));
      expect(stored?.toString('latin1', 0, 5)).toBe('e\u0003new');
      expect(stored?.includes('deep')).toBe(false);
    });

    it('goes on event by event where Redis refuses what one of them holds', async () => {
      view.indexer.maintain(['label:app', index]);
      const { prefix } = view.location;
      // Not what any object can do; but if one could, it would look like this.
      await redis.set(`${viewKeys(prefix).indexPrefix}field:spec.a=poison`, 'a string');
      const poisoned = thing('poisoned', 12, { spec: { a: 'poison' } });
      const events = changed(thing('two', 11), poisoned, thing('three', 13));
      const error = await applier.apply(events).catch((reason: unknown) => reason);
      expect(isDataError(error), String(error)).toBe(true);
      expect(await applier.applyEach(events)).toBe('applied');
      const found = await reader().list(things);
      expect(found.items.map(({ metadata }) => metadata.name)).toEqual(['three', 'two']);
      expect(found.keptOut).toEqual([{ key: 'a/poisoned', reason: 'it cannot be written' }]);
      expect((await view.record.state()).version).toBe('13');
    });
  });

  describe('relays its outbox', () => {
    const lost: string[] = [];
    const relay = (
      fails: Readonly<Record<string, unknown>>,
      queued: string[],
      budgets: (controller: string) => LookupBudget | undefined = () => unlimitedLookups,
    ): Relay =>
      new Relay({
        view,
        viewAt: () => view,
        enqueue: async (wakeups) => {
          const failed = new Map(Object.entries(fails));
          for (const { controller, key } of wakeups) if (!failed.has(controller)) queued.push(`${controller} ${key}`);
          return { absent: [], failed };
        },
        lookupBudget: budgets,
        onUndeliverable: (controller) => void lost.push(controller),
        logger: silentLogger,
        metrics: silentMetrics,
        checkpoint: noCheckpoint,
      });

    beforeEach(async () => {
      lost.length = 0;
      for (const user of ['first', 'second', 'third']) handlers.set(user, [waking(user)]);
      await applier.apply(changed(thing('x', 11)));
    });

    it('past an entry that cannot be read, whose controller is owed its keys', async () => {
      await redis.xadd(viewKeys(view.location.prefix).outbox, '*', 'c', 'second', 'k', '', 'l', '{', 'r', '[]');
      await applier.apply(changed(thing('y', 12)));
      const queued: string[] = [];
      await relay({}, queued).drained();
      expect(queued.toSorted()).toEqual([
        'first a/x',
        'first a/y',
        'second a/x',
        'second a/y',
        'third a/x',
        'third a/y',
      ]);
      expect([await outbox(), lost, await view.record.missedBy('second')]).toEqual([[], ['second'], '1']);
    });

    it('in turns: a controller that is woken for thousands of keys keeps no other waiting', async () => {
      const many: ChangeHandler = {
        needsOld: () => false,
        handle: () => Array.from({ length: 5000 }, (_, at) => ({ controller: 'many', key: `a/${at}`, reasons: [] })),
      };
      handlers.set('many', [many]);
      await applier.apply(changed(thing('y', 12)));
      handlers.set('many', []);
      await applier.apply(changed(thing('z', 13)));
      const calls: string[][] = [];
      const moving = new Relay({
        view,
        viewAt: () => view,
        enqueue: async (wakeups) => {
          calls.push(wakeups.map(({ controller, key }) => `${controller} ${key}`));
          await setImmediate();
        },
        lookupBudget: () => undefined,
        onUndeliverable: () => {},
        logger: silentLogger,
        metrics: silentMetrics,
        checkpoint: noCheckpoint,
      });
      await moving.drained();
      const first = calls.slice(0, 4).flat();
      expect(first).toEqual(expect.arrayContaining(['first a/z', 'second a/z', 'third a/z']));
      const ofMany = calls.flat().filter((each) => each.startsWith('many'));
      expect(ofMany).toEqual(Array.from({ length: 5000 }, (_, at) => `many a/${at}`));
      expect([calls.length, await outbox()]).toEqual([10 + 3, []]);
    });

    it('past lookups of a controller that has used up its processor time, or is not run', async () => {
      const { prefix } = view.location;
      const lookup = { view: prefix, entries: [], labelSelector: { matchLabels: {} } };
      for (const controller of ['first', 'second', 'third']) {
        const text = JSON.stringify(lookup);
        await redis.xadd(viewKeys(prefix).outbox, '*', 'c', controller, 'k', '', 'l', text, 'r', '[]');
      }
      const usedUp = (): never => {
        throw new HandlerError('a lookup of keys has used up its processor time');
      };
      const budgets: Readonly<Record<string, LookupBudget>> = {
        first: unlimitedLookups,
        second: { ...unlimitedLookups, run: usedUp },
      };
      await applier.apply(changed(thing('y', 12)));
      const queued: string[] = [];
      await relay({}, queued, (controller) => budgets[controller]).drained();
      const all = ['first', 'second', 'third'].flatMap((each) => [`${each} a/x`, `${each} a/y`]);
      expect(queued.toSorted()).toEqual(all);
      const missed = await Promise.all(['first', 'second', 'third'].map((each) => view.record.missedBy(each)));
      expect([await outbox(), lost, missed]).toEqual([[], ['second'], ['', '1', '1']]);
    });

    it('whose lookups of one tenant are bounded, and weighed: its controllers miss further changes, and no others', async () => {
      const { outbox: stream } = viewKeys(view.location.prefix);
      const looking = (controller: string): ChangeHandler => ({
        needsOld: () => false,
        handle({ object }) {
          const lookup = { view: view.location.prefix, entries: [], keys: [`a/${object.metadata.name}`] };
          return [{ controller, lookup, reasons: [] }];
        },
      });
      const hostile = Array.from({ length: 10 }, (_, at) => `hostile.${at}`);
      for (const user of hostile) handlers.set(user, [looking(user)]);
      handlers.set('victim.a', [waking('victim.a')]);
      for (const user of ['first', 'second', 'third']) handlers.set(user, []);
      for (let from = 0; from < 1000; from += 50) {
        await applier.apply(changed(...Array.from({ length: 50 }, (_, at) => thing(`o${from + at}`, 100 + from + at))));
      }
      // 8,000 entries, and those of the last write.
      const count = (await redis.xlen(stream)) - 3 - 1000;
      expect(count).toBeGreaterThanOrEqual(8000);
      expect(count).toBeLessThan(8600);
      expect(new Set(failures.map(({ user }) => user))).toEqual(new Set(hostile));
      expect(await view.record.missedBy('hostile.0')).not.toBe('');
      expect(await view.record.missedBy('victim.a')).toBe('');
      const bytes = Number(await redis.call('MEMORY', 'USAGE', stream, 'SAMPLES', '0'));
      const weighed = [...view.outbox.weigh().values()].reduce((all, each) => all + each, 0);
      expect(weighed / bytes).toBeGreaterThan(1 / 2);
      expect(weighed / bytes).toBeLessThan(2);
      expect((await view.weigh()).get('hostile')).toBe(view.outbox.weigh().get('hostile'));
      await relay({}, []).drained();
      expect(view.outbox.weigh()).toEqual(new Map());
      await applier.apply(changed(thing('z', 2000)));
      expect(await redis.xlen(stream)).toBe(hostile.length + 1);
    });

    it('whose lookups of all tenants together are bounded, and each tenant may have some', () => {
      const { outbox: own } = view;
      const lookup = { view: view.location.prefix, entries: [], keys: ['a/x'] };
      const sizes = Array.from({ length: 100 }, (_, tenant) => {
        const controller = `tenant-${tenant}.reader`;
        let size = 0;
        for (; !own.isFull(tenantOf(controller)); size += 1) {
          own.recordWaiting([{ id: `${tenant}-${size}`, controller, wakeup: { controller, lookup, reasons: [] } }]);
        }
        return size;
      });
      expect(sizes.slice(0, 4)).toEqual([8000, 8000, 8000, 4000]);
      expect(Math.min(...sizes)).toBe(50);
      expect(sizes.reduce((sum, each) => sum + each, 0)).toBeLessThan(MAX_WAITING);
    });

    it('and deletes many acknowledged entries in commands of 2,000', async () => {
      view.outbox.acknowledge(Array.from({ length: 5000 }, (_, at) => `1-${at}`));
      const sent = vi.spyOn(redis, 'xdel');
      await view.outbox.flush();
      expect(sent.mock.calls.map(({ length }) => length - 1)).toEqual([2000, 2000, 1000]);
      sent.mockRestore();
    });

    it('past a controller that cannot take its wakeups for what they are', async () => {
      const queued: string[] = [];
      await relay({ second: new TypeError('no key') }, queued).drained();
      expect(queued).toEqual(['first a/x', 'third a/x']);
      expect([await outbox(), lost, await view.record.missedBy('second')]).toEqual([[], ['second'], '1']);
    });

    it('past one whose queue cannot take them now, which has them later', async () => {
      const queued: string[] = [];
      await relay({ second: new Error('Connection is closed.') }, queued).drained();
      // More than a batch, so that what is kept does not stand in the way of what follows.
      const many = Array.from({ length: 600 }, (_, at) => thing(`n${at}`, 100 + at));
      await applier.apply(changed(...many));
      await relay({ second: new Error('Connection is closed.') }, queued).drained();
      expect([queued.length, queued.filter((each) => each.startsWith('second')).length]).toEqual([2 + 1200, 0]);
      expect([lost, await view.record.missedBy('second')]).toEqual([[], '']);
      const later: string[] = [];
      await relay({}, later).drained();
      expect([later.length, await outbox()]).toEqual([601, []]);
    });
  });

  it('is changed in no way by a gateway that it no longer belongs to', async () => {
    const keys = viewKeys(view.location.prefix);
    const other = new View(redis, things, view.location);
    await other.writer.claim('another');
    const before = await redis.hgetall(keys.view);
    const writes = [
      () => view.indexer.record(['label:app']),
      () => view.record.renew('run'),
      () => view.record.recordMissed('user'),
      () => view.record.markRewound(),
      () => view.writer.reclaim(),
      () => applier.apply(changed(thing('x', 11))),
    ];
    for (const write of writes) await expect(write()).rejects.toThrow(ForeignWriterError);
    expect(await redis.hgetall(keys.view)).toEqual(before);
    // A writer ID that is lost with all else is written again, and only by its last writer.
    await redis.hdel(keys.view, 'writerId');
    await view.writer.reclaim();
    expect((await view.record.state()).writerId).toBe('writer');
  });
});
