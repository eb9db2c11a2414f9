import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource } from '../../../src/core/index.ts';
import { viewPrefix } from '../../../src/contract/cache-layout.ts';
import type { Write } from '../../../src/contract/index.ts';
import type { Applier } from '../../../src/gateway/informer/cache/applier.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { View } from '../../../src/gateway/informer/cache/view.ts';
import { Barriers } from '../../../src/gateway/controller/dispatch/barrier.ts';
import { applierOf, listOf } from '../../harness/applier.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { VirtualClock } from '../../harness/test-clock.ts';

const pods = resource('v1', 'Pod');
const nodes = resource('v1', 'Node', { namespaced: false });

let redis: Redis;
let podView: View;
let nodeView: View;
let applier: Applier;
let barriers: Barriers;
let clock: VirtualClock;

beforeAll(async () => {
  redis = await connectRedis(inject('redisUrl'));
});
afterAll(() => redis.disconnect());

beforeEach(async () => {
  const scope = { keyPrefix: uniqueName('test'), clusterId: 'c', settings: 's' };
  [podView, nodeView] = [pods, nodes].map(
    (resource) => new View(redis, resource, { prefix: viewPrefix({ ...scope, resource }) }),
  ) as [View, View];
  await Promise.all([podView, nodeView].map((view) => view.writer.claim('writer')));
  applier = applierOf(podView);
  // Time stands still, so that no step takes half a second.
  clock = new VirtualClock();
  barriers = new Barriers([podView, nodeView], clock);
});

const pod = (version: number, rest: object = {}): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'a', name: 'b', uid: 'u', resourceVersion: String(version), ...rest },
});
const wrote = (resourceVersion: string, rest: Partial<Write> = {}): Write => ({
  apiVersion: 'v1',
  kind: 'Pod',
  namespace: 'a',
  name: 'b',
  uid: 'u',
  resourceVersion,
  ...rest,
});
const deleted: Write = { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'b', uid: 'u', deleted: true };

/** A bound of barriers must not follow how often a function says something. */
it('names a deletion once, however often the function has reported it', async () => {
  await list(podView, '5');
  const barrier = await barriers.afterWrites([deleted, deleted, { ...deleted, uid: 'v' }, deleted]);
  expect(Object.values(JSON.parse(barrier ?? '{}'))).toMatchObject([
    {
      deleted: [
        ['a/b', 'u'],
        ['a/b', 'v'],
      ],
    },
  ]);
});

async function list(view: View, version: string, ...objects: KubernetesObject[]): Promise<void> {
  await (view === podView ? applier : applierOf(view)).apply(listOf(version, objects));
  await view.record.renew('run');
}
const after = async (...writes: Write[]): Promise<string> => {
  const barrier = await barriers.afterWrites(writes);
  expect(barrier).toBeDefined();
  return barrier ?? '';
};
const bookmark = (version: string) => applier.apply([{ kind: 'bookmark', version }]);

describe('the barrier of a write', () => {
  beforeEach(() => list(podView, '10', pod(5)));

  it('passes when the view has reached its version, and the newest of several', async () => {
    const barrier = await after(wrote('9'), wrote('100'), wrote('12'));
    expect(await barriers.passed(barrier)).toBe(false);
    await bookmark('99');
    expect(await barriers.passed(barrier)).toBe(false);
    await bookmark('100');
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('has passed when the view was there before', async () => {
    expect(await barriers.passed(await after(wrote('10')))).toBe(true);
  });

  it('counts no write of a kind that is not cached: no event of it will come', async () => {
    expect(await barriers.afterWrites([wrote('1000', { kind: 'Event' })])).toBeUndefined();
    expect(await barriers.afterWrites([])).toBeUndefined();
    const barrier = await after(wrote('11'), wrote('1000', { kind: 'Event' }));
    await bookmark('11');
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('waits for every view that was written to', async () => {
    await list(nodeView, '10');
    const barrier = await after(wrote('11'), wrote('12', { kind: 'Node' }));
    expect(new Set(barriers.viewsOf(barrier))).toEqual(new Set([podView, nodeView]));
    await bookmark('50');
    expect(await barriers.passed(barrier)).toBe(false);
    await list(nodeView, '50');
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('does not pass with a new incarnation alone: its list may have begun before the write', async () => {
    const barrier = await after(wrote('100'));
    await list(podView, '50');
    expect(await barriers.passed(barrier)).toBe(false);
    await bookmark('100');
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('waits while the view is lost, and for the next filling of it', async () => {
    const barrier = await after(wrote('100'));
    await redis.del(`${podView.location.prefix}:view`);
    expect(await barriers.passed(barrier)).toBe(false);
    await podView.writer.claim('writer');
    await list(podView, '50');
    expect(await barriers.passed(barrier)).toBe(false);
    await list(podView, '100');
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('is no barrier for a controller that does not read that view', async () => {
    const barrier = await after(wrote('100'));
    expect(await new Barriers([nodeView]).passed(barrier)).toBe(true);
    expect(new Barriers([nodeView]).viewsOf(barrier)).toEqual([]);
  });
});

describe('the barrier of a delete', () => {
  beforeEach(() => list(podView, '10', pod(5)));

  it('passes when the object is gone, whatever the version', async () => {
    const barrier = await after(deleted);
    await bookmark('1000');
    expect(await barriers.passed(barrier)).toBe(false);
    await applier.apply([{ kind: 'deleted', object: pod(1001) }]);
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('passes when the object is being deleted', async () => {
    const barrier = await after(deleted);
    await applier.apply([{ kind: 'changed', object: pod(11) }]);
    expect(await barriers.passed(barrier)).toBe(false);
    await applier.apply([{ kind: 'changed', object: pod(12, { deletionTimestamp: '2026-01-01T00:00:00Z' }) }]);
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('of an object that is gone does not pass while it is being deleted: it was that before', async () => {
    const barrier = await after({ ...deleted, gone: true }, { ...deleted, name: 'never-seen', gone: true });
    const deleting = { deletionTimestamp: '2026-01-01T00:00:00Z' };
    await applier.apply([{ kind: 'changed', object: pod(12, deleting) }]);
    expect(await barriers.passed(barrier)).toBe(false);
    await applier.apply([{ kind: 'deleted', object: pod(13, deleting) }]);
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('passes when another object has its name', async () => {
    const barrier = await after(deleted);
    await applier.apply([{ kind: 'changed', object: pod(11, { uid: 'another' }) }]);
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('waits for all of several, and for the versions beside them', async () => {
    const barrier = await after(deleted, { ...deleted, name: 'c', uid: 'v' }, wrote('20', { name: 'd' }));
    await applier.apply([{ kind: 'deleted', object: pod(15) }]);
    expect(await barriers.passed(barrier)).toBe(false);
    await bookmark('20');
    expect(await barriers.passed(barrier)).toBe(true);
  });
});

describe('the barrier of a write that never was', () => {
  beforeEach(() => list(podView, '10', pod(5)));
  const learn = async (version: string, afterMs: number) => {
    const { incarnation } = await podView.record.state();
    barriers.learn(podView, { version, incarnation, askedAtMs: clock.now() + afterMs });
  };

  it('passes when the view has reached what the server had after it', async () => {
    const barrier = await after(wrote('1000000'));
    expect(barriers.hasHighWaterMark(barrier, podView)).toBe(false);
    await learn('20', 1000);
    expect(barriers.hasHighWaterMark(barrier, podView)).toBe(true);
    expect(barriers.isImpossible(barrier, podView)).toBe(true);
    expect(await barriers.passed(barrier)).toBe(false);
    await bookmark('19');
    expect(await barriers.passed(barrier)).toBe(false);
    await bookmark('20');
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('passes so when an object was not deleted, too', async () => {
    const barrier = await after(deleted);
    await learn('20', 1000);
    expect(barriers.isImpossible(barrier, podView)).toBe(false);
    await bookmark('20');
    expect(await barriers.passed(barrier)).toBe(true);
  });

  it('does not for what the server had before it, by clocks that may differ', async () => {
    await learn('20', -1);
    const barrier = await after(wrote('30'));
    await bookmark('20');
    expect(await barriers.passed(barrier)).toBe(false);
    await learn('20', 500);
    expect(await barriers.passed(barrier)).toBe(false);
    expect(barriers.hasHighWaterMark(barrier, podView)).toBe(false);
  });

  it('that did happen passes at its version, below the high-water mark', async () => {
    const barrier = await after(wrote('15'));
    await learn('20', 1000);
    expect(barriers.isImpossible(barrier, podView)).toBe(false);
    await bookmark('15');
    expect(await barriers.passed(barrier)).toBe(true);
  });
});

describe('the barrier of a write that the server has lost', () => {
  it('passes when the view shows what the server has since, not what it had before', async () => {
    await list(podView, '10', pod(5));
    const { incarnation } = await podView.record.state();
    const barrier = await after(wrote('1000'));
    barriers.learn(podView, { version: '2000', incarnation, askedAtMs: clock.now() + 1000 });
    // Restored: the view goes back, and has another incarnation.
    await applier.apply([
      { kind: 'init', rewound: true },
      { kind: 'init-done', version: '500', list: 1 },
    ]);
    expect(await barriers.passed(barrier)).toBe(false);
    expect(barriers.hasHighWaterMark(barrier, podView)).toBe(false);
    const renewed = (await podView.record.state()).incarnation;
    barriers.learn(podView, { version: '500', incarnation: renewed, askedAtMs: clock.now() + 1000 });
    expect(await barriers.passed(barrier)).toBe(true);
  });
});

describe('the barrier of a lost run', () => {
  it('passes when the views have reached what the server had after it', async () => {
    await list(podView, '10');
    await list(nodeView, '10');
    const barrier =
      (await barriers.afterLost(
        new Map([
          [podView, '30'],
          [nodeView, '5'],
        ]),
      )) ?? '';
    expect(await barriers.passed(barrier)).toBe(false);
    await bookmark('30');
    expect(await barriers.passed(barrier)).toBe(true);
    expect(await barriers.afterLost(new Map())).toBeUndefined();
  });
});
