import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import {
  type Checkpoint,
  type CheckpointName,
  type KubernetesObject,
  noCheckpoint,
  resource,
  silentLogger,
  silentMetrics,
  tenantOf,
} from '../../../src/core/index.ts';
import { viewKeys } from '../../../src/contract/cache-layout.ts';
import type { KeyWakeup } from '../../../src/gateway/informer/cache/change.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import { type LookupBudget, unlimitedLookups } from '../../../src/gateway/informer/cache/lookup.ts';
import type { OutboxEntry } from '../../../src/gateway/informer/cache/outbox.ts';
import { MAX_WAITING, Relay } from '../../../src/gateway/informer/cache/relay.ts';
import type { View } from '../../../src/gateway/informer/cache/view.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import type { WatchEvent } from '../../../src/gateway/informer/reflector/watch-event.ts';
import { applierOf } from '../../harness/applier.ts';
import { eventually } from '../../harness/eventually.ts';
import { createView, loseConnection } from '../../harness/views.ts';

const things = resource('example.com/v1', 'Thing');

let redis: Redis;
let admin: Redis;
let view: View;
let applier: Applier;
/** Entries that the applies have added to the outbox and that no relay has got yet. */
let written: OutboxEntry[] = [];
/** Keys that reached the queue, in order. */
let queued: string[] = [];

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
  admin = await connectRedis(inject('redisUrl'));
});
afterAll(() => {
  redis.disconnect();
  admin.disconnect();
});
beforeEach(async () => {
  view = createView(redis, things);
  await view.writer.claim('writer');
  written = [];
  queued = [];
  const wake = (object: KubernetesObject) => [
    { controller: 'c', key: `${object.metadata.namespace}/${object.metadata.name}`, reasons: [] },
  ];
  const handler = { needsOld: () => false, handle: (change: { object: KubernetesObject }) => wake(change.object) };
  applier = applierOf(view, { c: handler }, (entries) => written.push(...entries));
});
afterEach(() => view.discard());

let version = 100;
async function change(...names: string[]): Promise<OutboxEntry[]> {
  const events = names.map((name): WatchEvent => {
    const metadata = { namespace: 'a', name, uid: `uid-${name}`, resourceVersion: String((version += 1)) };
    return { kind: 'changed', object: { apiVersion: 'example.com/v1', kind: 'Thing', metadata } };
  });
  await applier.apply(events);
  return written.splice(0);
}
const outboxLength = (): Promise<number> => redis.xlen(viewKeys(view.location.prefix).outbox);

function relayOf(
  checkpoint: Checkpoint = noCheckpoint,
  onWakeups: (wakeups: readonly KeyWakeup[]) => void = () => {},
  lookupBudget: (controller: string) => LookupBudget | undefined = () => undefined,
): Relay {
  return new Relay({
    view,
    viewAt: () => view,
    enqueue: async (wakeups) => {
      await sleep(1);
      queued.push(...wakeups.map(({ key }) => key));
      onWakeups(wakeups);
    },
    lookupBudget,
    onUndeliverable: () => {},
    logger: silentLogger,
    metrics: silentMetrics,
    checkpoint,
  });
}

describe('the relay', () => {
  it('needs no read for pushed entries once it has read the outbox', async () => {
    const relay = relayOf();
    await relay.drained();
    const entries = await change('x');
    // Only the entries that were pushed can be delivered now.
    await redis.del(viewKeys(view.location.prefix).outbox);
    relay.push(entries);
    await relay.drained();
    expect(queued).toEqual(['a/x']);
  });

  it('ends with the wakeups that are under way, and leaves the others in the outbox', async () => {
    const held = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    const relay = relayOf(async (at) => {
      if (at !== 'relay:before-add') return;
      reached.resolve();
      await held.promise;
    });
    relay.push(await change('x'));
    await reached.promise;
    relay.push(await change('y'));
    let isStopped = false;
    const stopped = relay.stop().then(() => (isStopped = true));
    await sleep(20);
    expect(isStopped).toBe(false);
    held.resolve();
    await stopped;
    relay.kick();
    await sleep(20);
    await view.outbox.flush();
    expect(queued).toEqual(['a/x']);
    expect(await outboxLength()).toBe(1);
  });

  it('tells since when a key is woken: since the oldest change, also of an entry that it reads', async () => {
    const before = Date.now();
    await change('x');
    const since: (number | undefined)[] = [];
    const relay = relayOf(noCheckpoint, (wakeups) => since.push(...wakeups.map(({ atMs }) => atMs)));
    await relay.drained();
    const pushed = [...(await change('y')), ...(await change('y'))];
    relay.push(pushed.map((entry, at) => ({ ...entry, atMs: 1000 + at })));
    await relay.drained();
    expect(since).toEqual([expect.any(Number), 1000]);
    expect(since[0]).toBeGreaterThanOrEqual(before);
    expect(since[0]).toBeLessThanOrEqual(Date.now());
  });

  it('first delivers the entries that were in the outbox at its start, and then those pushed', async () => {
    await change('left', 'behind');
    const relay = relayOf();
    relay.push(await change('new'));
    relay.push(await change('newer'));
    await relay.drained();
    expect(queued).toEqual(['a/left', 'a/behind', 'a/new', 'a/newer']);
    expect(await outboxLength()).toBe(0);
  });

  it('delivers more entries than it keeps in memory, in order and each once', async () => {
    const relay = relayOf();
    await relay.drained();
    const names = Array.from({ length: MAX_WAITING + 2500 }, (_, at) => `n${at}`);
    for (let from = 0; from < names.length; from += 2500) relay.push(await change(...names.slice(from, from + 2500)));
    await relay.drained();
    expect(queued).toEqual(names.map((name) => `a/${name}`));
    expect(await outboxLength()).toBe(0);
  });

  it.each<CheckpointName>(['relay:before-add', 'relay:after-add'])(
    'leaves entries that it has not acknowledged to the next relay when it dies at %s',
    async (point) => {
      const died = Promise.withResolvers<void>();
      const dead = new Promise<void>(() => {});
      const first = relayOf((at) => {
        if (at !== point) return Promise.resolve();
        died.resolve();
        return dead;
      });
      first.push(await change('x'));
      await died.promise;
      queued = [];
      await relayOf().drained();
      expect(queued).toEqual(['a/x']);
      expect(await outboxLength()).toBe(0);
    },
  );

  it("makes a tenant's lookup after at most one of each other tenant, however many controllers that has", async () => {
    const made: string[] = [];
    const relay = relayOf(undefined, undefined, (controller) => ({
      ...unlimitedLookups,
      async related() {
        made.push(controller);
        await setImmediate();
        return [];
      },
    }));
    await relay.drained();
    const controllers = [...Array.from({ length: 50 }, (_, at) => `many.c-${at}`), 'few.c'];
    const lookup = { related: { kind: 'example.com/v1/Thing', namespace: 'a', name: 'x' } };
    relay.push(
      controllers.map((controller, at) => ({
        id: `1-${at}`,
        controller,
        wakeup: { controller, lookup, reasons: [] },
      })),
    );
    await relay.drained();
    expect(made).toHaveLength(controllers.length);
    expect(made.indexOf('few.c')).toBeLessThan(4);
  });

  it("makes a tenant's lookup before the long ones of another tenant end", async () => {
    await change(...Array.from({ length: 500 }, (_, at) => `of-many-${at}`), 'of-few');
    const relay = relayOf(undefined, undefined, (controller) => ({
      ...unlimitedLookups,
      tenant: tenantOf(controller),
      labelSelector: {},
    }));
    await relay.drained();
    const keys = Array.from({ length: 500 }, (_, at) => `a/of-many-${at}`);
    const named = [keys, keys.toReversed(), ['a/of-few']];
    relay.push(
      ['many.a', 'many.b', 'few.c'].map((controller, at) => {
        const lookup = { view: view.location.prefix, entries: [], keys: named[at] ?? [] };
        return { id: `1-${at}`, controller, wakeup: { controller, lookup, reasons: [] } };
      }),
    );
    await relay.drained();
    expect(queued.slice(-1001).indexOf('a/of-few')).toBe(0);
    expect(queued.slice(-1001)).toHaveLength(1001);
  });

  it('reads the outbox after an apply that has failed', async () => {
    const relay = relayOf();
    await relay.drained();
    // The answer of this apply is lost.
    await change('x');
    relay.recordFailedApply();
    relay.push(await change('y'));
    await relay.drained();
    expect(queued).toEqual(['a/x', 'a/y']);
  });

  it('reads the outbox again when a wakeup is given back while it reads', async () => {
    const [added, goOn, ended] = [0, 1, 2].map(() => Promise.withResolvers<void>());
    const relay = relayOf(async (point) => {
      if (point === 'relay:after-add') {
        added?.resolve();
        await goOn?.promise;
      }
      if (point === 'relay:after-delete') ended?.resolve();
    });
    await relay.drained();
    relay.push(await change('x'));
    await added?.promise;
    await loseConnection(view, redis, admin);
    const { outbox } = view;
    const read = outbox.read.bind(outbox);
    let reads = 0;
    outbox.read = async (...given) => {
      reads += 1;
      const page = await read(...given);
      // The first page has the wakeup, which is still being moved. It is given back before the second page is there.
      if (reads === 1) relay.kick();
      else goOn?.resolve();
      if (reads === 2) await ended?.promise.then(() => setImmediate());
      return page;
    };
    relay.retry();
    await relay.drained();
    expect(reads).toBeGreaterThan(1);
    relay.retry();
    await relay.drained();
    expect(queued).toEqual(['a/x', 'a/x']);
    expect(await outboxLength()).toBe(0);
  });
});

describe('a relayed wakeup', () => {
  let relay: Relay;
  /** Delivers one wakeup, which then is in its queue and still in the outbox. */
  beforeEach(async () => {
    const acknowledged = Promise.withResolvers<void>();
    relay = relayOf(async (point) => {
      if (point === 'relay:after-delete') acknowledged.resolve();
    });
    await relay.drained();
    relay.push(await change('x'));
    await acknowledged.promise;
    expect([queued, await outboxLength()]).toEqual([['a/x'], 1]);
  });

  it('is deleted from the outbox by the next apply', async () => {
    await applier.apply([{ kind: 'bookmark', version: '1000000' }]);
    expect(await outboxLength()).toBe(0);
  });

  it('is deleted from the outbox after a time without an apply', async () => {
    await eventually(async () => expect(await outboxLength()).toBe(0));
  });

  it('does not count as the oldest wakeup that waits', async () => {
    expect(await view.outbox.ageMs()).toBeUndefined();
  });

  it('is not delivered again when the relay reads the outbox', async () => {
    relay.recordFailedApply();
    relay.push(await change('y'));
    await relay.drained();
    expect(queued).toEqual(['a/x', 'a/y']);
  });

  it('is delivered again after a lost connection: the queue may have lost it', async () => {
    // The timer would delete it if more than a quarter of a second passed before the connection is lost.
    const flush = vi.spyOn(view.outbox, 'flush').mockResolvedValue();
    const entries = await change('y');
    relay.push(entries);
    await eventually(async () => expect(view.outbox.isAcknowledged(entries[0]?.id ?? '')).toBe(true), 60_000, 5);
    await loseConnection(view, redis, admin);
    flush.mockRestore();
    relay.retry();
    await relay.drained();
    expect(queued).toEqual(['a/x', 'a/y', 'a/y']);
    expect(await outboxLength()).toBe(0);
  });
});
