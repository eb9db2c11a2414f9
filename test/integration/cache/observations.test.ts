import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource, silentLogger, systemClock } from '../../../src/core/index.ts';
import {
  Backfill,
  compareObserved,
  MOST_OF_TENANT,
  type UserIndexes,
} from '../../../src/gateway/informer/cache/backfill.ts';
import { observedSpec } from '../../../src/gateway/informer/cache/observations.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { createView } from '../../harness/views.ts';

const Lease = resource('coordination.k8s.io/v1', 'Lease');
const FIELD = 'spec.renewTime';
const OBSERVED = observedSpec(FIELD);
const never = new AbortController().signal;

function lease(name: string, version: number, renewTime: string, uid = name): KubernetesObject {
  const metadata = { namespace: 'n', name, uid, resourceVersion: String(version) };
  const whole = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata, spec: { renewTime } };
  return whole;
}

describe('the times of observed values', () => {
  let redis: Redis;
  let view: View;
  let nowMs: number;
  beforeAll(async () => {
    redis = await connectRedis(inject('redisUrl'));
  });
  afterAll(() => redis.disconnect());

  const observe = (of = view): void => of.observations.maintain([OBSERVED], () => nowMs);
  const ages = async (...names: string[]): Promise<unknown[]> =>
    Promise.all(names.map((name) => view.observations.secondsUnchanged(`n/${name}`, FIELD, nowMs)));

  beforeEach(async () => {
    view = createView(redis, Lease);
    await view.writer.claim('writer');
    nowMs = 1_000_000;
    observe();
    await applierOf(view).apply(listOf('10', [lease('a', 1, 'noon'), lease('b', 2, 'noon')]));
    nowMs += 30_000;
  });

  const backfillOf = (indexes: ReadonlyMap<string, UserIndexes>): Backfill =>
    new Backfill({
      view,
      indexes,
      started: Promise.resolve(),
      applied: async () => {},
      clock: { ...systemClock, now: () => nowMs },
      logger: silentLogger,
      signal: never,
    });

  it('outlive a relist, another writer and a long value that is the same', async () => {
    await view.writer.claim('another');
    await compareObserved(view, [OBSERVED], never);
    const long = 'x'.repeat(1000);
    await applierOf(view).apply(listOf('20', [lease('a', 11, 'noon'), lease('b', 12, long), lease('c', 13, 'noon')]));
    nowMs += 1000;
    await applierOf(view).apply([{ kind: 'changed', object: lease('b', 14, long) }]);
    expect(await ages('a', 'b', 'c')).toEqual([31, 1, 1]);
  });

  it('end with the object; one of the same name begins anew', async () => {
    await applierOf(view).apply([
      { kind: 'deleted', object: lease('a', 11, 'noon') },
      { kind: 'changed', object: lease('b', 12, 'noon', 'another-uid') },
    ]);
    expect(await ages('a', 'b')).toEqual([undefined, 0]);
    expect(await redis.hlen(`${view.location.prefix}:observed:${FIELD}`)).toBe(1);
  });

  it('do not follow an event that the view is past', async () => {
    await applierOf(view).apply([{ kind: 'changed', object: lease('a', 20, 'one') }]);
    nowMs += 5000;
    await applierOf(view).apply([{ kind: 'changed', object: lease('a', 15, 'older') }]);
    expect(await ages('a')).toEqual([5]);
  });

  it('begin at the pass for what changed unobserved, came, or lost its time; the others stay', async () => {
    view.observations.maintain([], () => nowMs);
    await applierOf(view).apply([
      { kind: 'changed', object: lease('a', 11, 'one') },
      { kind: 'changed', object: lease('c', 12, 'noon') },
      { kind: 'changed', object: lease('d', 13, 'noon') },
      { kind: 'deleted', object: lease('d', 14, 'noon') },
    ]);
    await redis.hset(`${view.location.prefix}:observed:${FIELD}`, 'n/d', '1 d ["noon"]');
    observe();
    await compareObserved(view, [OBSERVED], never);
    expect(await ages('a', 'b', 'c', 'd')).toEqual([0, 30, 0, undefined]);
    await redis.del(`${view.location.prefix}:observed:${FIELD}`);
    expect(await view.observations.isComplete(FIELD)).toBe(false);
    await compareObserved(view, [OBSERVED], never);
    expect(await ages('a', 'b', 'c')).toEqual([0, 0, 0]);
  });

  it('begin anew when a field is observed again that was not for a while', async () => {
    const someone = { specs: [], observed: [FIELD], tenant: undefined };
    const indexes = new Map([['someone', someone]]);
    const work = backfillOf(indexes);
    const fill = async (): Promise<void> => {
      work.start();
      await work.finished;
    };
    await fill();
    expect(await ages('a', 'b')).toEqual([30, 30]);
    indexes.clear();
    await fill();
    expect(await ages('a', 'b')).toEqual([undefined, undefined]);
    await applierOf(view).apply([{ kind: 'changed', object: lease('a', 11, 'one') }]);
    nowMs += 5000;
    indexes.set('someone', someone);
    await fill();
    nowMs += 1000;
    expect(await ages('a', 'b')).toEqual([1, 1]);
  });

  describe('of a tenant', () => {
    const inNamespace = (namespace: string, version: number): KubernetesObject => {
      const made = lease('x', version, 'noon');
      return { ...made, metadata: { ...made.metadata, namespace } };
    };
    const other = 'metadata.labels.other';
    const users = new Map<string, UserIndexes>();
    let work: Backfill;
    const fill = async (): Promise<void> => {
      work.start();
      await work.finished;
    };
    const observed = async (field = other): Promise<string[]> =>
      (await redis.hkeys(`${view.location.prefix}:observed:${field}`)).toSorted();

    beforeEach(async () => {
      users.clear();
      users.set('operator', { specs: [], observed: [FIELD], tenant: undefined });
      users.set('a', { specs: [], observed: [FIELD, other], namespaces: ['a'], tenant: 'a' });
      work = backfillOf(users);
      await fill();
      await applierOf(view).apply(listOf('20', [inNamespace('a', 11), inNamespace('b', 12)]));
    });

    it('are those of objects that it may read', async () => {
      expect(await observed()).toEqual(['a/x']);
      expect(await observed(FIELD)).toEqual(['a/x', 'b/x']);
      await applierOf(view).apply([{ kind: 'changed', object: inNamespace('b', 21) }]);
      expect(await observed()).toEqual(['a/x']);
    });

    it('begin in another namespace when it may read there, and end where it may not, with no harm to others', async () => {
      nowMs += 30_000;
      users.set('a', { specs: [], observed: [other], namespaces: ['b'], tenant: 'a' });
      users.set('b', { specs: [], observed: [other], namespaces: ['a'], tenant: 'b' });
      await fill();
      expect(await observed()).toEqual(['a/x', 'b/x']);
      const ages = (field: string) =>
        Promise.all(['a/x', 'b/x'].map((key) => view.observations.secondsUnchanged(key, field, nowMs)));
      expect(await ages(other)).toEqual([30, 0]);
      users.delete('a');
      await fill();
      expect(await observed()).toEqual(['a/x']);
      expect(await ages(other)).toEqual([30, undefined]);
      expect(await ages(FIELD)).toEqual([30, 30]);
    });

    it('have a bound over all its controllers', async () => {
      for (let at = 0; at < 50; at += 1) {
        const fields = Array.from({ length: 8 }, (_, nth) => `spec.field-${at}-${nth}`);
        users.set(`a-${at}`, { specs: [], observed: fields, namespaces: ['a'], tenant: 'a' });
      }
      await fill();
      const hashes = (await redis.keys('*')).filter((key) => key.startsWith(`${view.location.prefix}:observed:`));
      // With that of the operator.
      expect(hashes).toHaveLength(MOST_OF_TENANT + 1);
    });
  });

  it('are kept for each item of a list alone, where the field has braces', async () => {
    const items = 'spec.taints{key}';
    const tainted = (version: number, keys: string[], uid = 'a'): KubernetesObject =>
      Object.assign(lease('a', version, 'noon', uid), { spec: { taints: keys.map((key) => ({ key })) } });
    const change = (object: KubernetesObject) => applierOf(view).apply([{ kind: 'changed', object }]);
    const agesOf = (...keys: string[]) =>
      Promise.all(keys.map((key) => view.observations.secondsUnchanged('n/a', items, nowMs, JSON.stringify([key]))));
    view.observations.maintain([observedSpec(items)], () => nowMs);
    await change(tainted(11, ['only']));
    for (let version = 12; version < 20; version += 2) {
      nowMs += 1000;
      await change(tainted(version, ['flap', 'only']));
      nowMs += 1000;
      await change(tainted(version + 1, ['only']));
    }
    expect(await agesOf('only', 'flap')).toEqual([8, undefined]);
    nowMs += 1000;
    await view.writer.claim('another');
    await compareObserved(view, [observedSpec(items)], never);
    expect(await agesOf('only')).toEqual([9]);
    await change(tainted(30, ['flap', 'only'], 'another-uid'));
    expect(await agesOf('only', 'flap')).toEqual([0, 0]);
    nowMs += 1000;
    // What changed unobserved begins at the pass.
    view.observations.maintain([], () => nowMs);
    await change(tainted(31, ['only', 'late'], 'another-uid'));
    view.observations.maintain([observedSpec(items)], () => nowMs);
    await compareObserved(view, [observedSpec(items)], never);
    expect(await agesOf('only', 'flap', 'late')).toEqual([1, undefined, 0]);
    await change(tainted(32, [], 'another-uid'));
    await change(tainted(33, ['only'], 'another-uid'));
    expect(await agesOf('only')).toEqual([0]);
  });

  it('are refused to a writer that no longer leads', async () => {
    const other = new View(redis, Lease, view.location);
    await other.writer.claim('another');
    nowMs += 1000;
    await redis.del(`${view.location.prefix}:observed:${FIELD}`);
    await expect(compareObserved(view, [OBSERVED], never)).rejects.toThrow('taken by another gateway');
    expect(await ages('a')).toEqual([undefined]);
  });
});
