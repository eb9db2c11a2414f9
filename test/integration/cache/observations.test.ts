import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource, silentLogger, systemClock } from '../../../src/core/index.ts';
import { Backfill, compareObserved } from '../../../src/gateway/cache/backfill.ts';
import { connectRedis, type Redis } from '../../../src/gateway/redis/redis.ts';
import { View } from '../../../src/gateway/cache/view.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { createView } from '../../harness/views.ts';

const Lease = resource('coordination.k8s.io/v1', 'Lease');
const FIELD = 'spec.renewTime';
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

  const observe = (of = view): void => of.observations.maintain([FIELD], () => nowMs);
  const ages = async (...names: string[]): Promise<unknown[]> =>
    Promise.all(names.map((name) => view.observations.secondsUnchanged(`n/${name}`, FIELD, nowMs)));

  beforeEach(async () => {
    view = createView(redis, Lease);
    await view.claim('writer');
    nowMs = 1_000_000;
    observe();
    await applierOf(view).apply(listOf('10', [lease('a', 1, 'noon'), lease('b', 2, 'noon')]));
    nowMs += 30_000;
  });

  it('outlive a relist, another writer and a long value that is the same', async () => {
    await view.claim('another');
    await compareObserved(view, [FIELD], never);
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
    await compareObserved(view, [FIELD], never);
    expect(await ages('a', 'b', 'c', 'd')).toEqual([0, 30, 0, undefined]);
    await redis.del(`${view.location.prefix}:observed:${FIELD}`);
    expect(await view.observations.isComplete(FIELD)).toBe(false);
    await compareObserved(view, [FIELD], never);
    expect(await ages('a', 'b', 'c')).toEqual([0, 0, 0]);
  });

  it('begin anew when a field is observed again that was not for a while', async () => {
    const observed = new Map([['someone', [FIELD]]]);
    const work = new Backfill({
      view,
      indexes: new Map(),
      observed,
      started: Promise.resolve(),
      applied: async () => {},
      clock: { ...systemClock, now: () => nowMs },
      logger: silentLogger,
      signal: never,
    });
    const fill = async (): Promise<void> => {
      work.start();
      await work.finished;
    };
    await fill();
    expect(await ages('a', 'b')).toEqual([30, 30]);
    observed.clear();
    await fill();
    expect(await ages('a', 'b')).toEqual([undefined, undefined]);
    await applierOf(view).apply([{ kind: 'changed', object: lease('a', 11, 'one') }]);
    nowMs += 5000;
    observed.set('someone', [FIELD]);
    await fill();
    nowMs += 1000;
    expect(await ages('a', 'b')).toEqual([1, 1]);
  });

  it('are refused to a writer that no longer leads', async () => {
    const other = new View(redis, Lease, view.location);
    await other.claim('another');
    nowMs += 1000;
    await redis.del(`${view.location.prefix}:observed:${FIELD}`);
    await expect(compareObserved(view, [FIELD], never)).rejects.toThrow('taken by another gateway');
    expect(await ages('a')).toEqual([undefined]);
  });
});
