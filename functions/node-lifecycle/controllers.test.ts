import { Event, Lease, Node, Pod } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { beforeEach, describe, expect, it } from 'vitest';
import { EVICTING_TAINTS, taintEviction } from './eviction.ts';
import { nodeLifecycle } from './lifecycle.ts';
import { DEFAULT_SETTINGS } from './settings.ts';
import { HEARTBEAT, RENEWAL } from './silence.ts';
import { NOT_READY, timestamp, UNREACHABLE } from './taints.ts';
import { lost, node, podOn } from './testing.ts';
import { nodeZones } from './zone-controller.ts';

let apiserver: MemoryApiserver;
const lifecycle = nodeLifecycle(DEFAULT_SETTINGS);
const key = { name: 'n' };
const lease = (renewTime: string): Lease => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { namespace: 'kube-node-lease', name: 'n', uid: 'lease', resourceVersion: '1' },
  spec: { renewTime },
});
const run = (secondsUnchanged: Record<string, number> = {}, options: object = {}) =>
  runReconciler(lifecycle, key, { apiserver, secondsUnchanged, ...options });
const found = () => apiserver.object(Node, key);
const ready = (of: Pod | undefined) => of?.status?.conditions?.find(({ type }) => type === 'Ready')?.status;
const podReady = (name: string) => ready(apiserver.object(Pod, { namespace: 'test', name }));
const silent = { [HEARTBEAT]: 60, [RENEWAL]: 51 };

beforeEach(() => {
  apiserver = new MemoryApiserver();
});

describe('the controller node-lifecycle', () => {
  it('comes again when the grace period of the younger heartbeat is over, and writes nothing', async () => {
    apiserver.put(node('n'));
    apiserver.put(lease('noon'));
    const { outcome } = await run({ [HEARTBEAT]: 60, [RENEWAL]: 8 });
    expect(outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 42.05, writes: [] });
  });

  it('goes by the status alone where there is no Lease, and by the start where there is no status', async () => {
    apiserver.put(node('n'));
    expect((await run({ [HEARTBEAT]: 8 })).outcome).toMatchObject({ requeueAfterSeconds: 42.05 });
    apiserver.put(node('n', { ready: null }));
    expect((await run({ [HEARTBEAT]: 8 })).outcome).toMatchObject({ requeueAfterSeconds: 52.05 });
  });

  it('makes the conditions of a silent node unknown, its pods not ready, and taints it', async () => {
    apiserver.put(node('n'));
    apiserver.put(lease('noon'));
    apiserver.put(podOn('n', 'here'));
    apiserver.put(podOn('other', 'there'));
    const { outcome } = await run(silent);
    expect(outcome.status).toBe('done');
    expect(outcome).not.toHaveProperty('requeueAfterSeconds');
    expect(found()?.status?.conditions?.map(({ type, status }) => `${type} ${status}`)).toEqual([
      'MemoryPressure Unknown',
      'DiskPressure Unknown',
      'PIDPressure Unknown',
      'Ready Unknown',
    ]);
    expect(found()?.status?.conditions?.[0]).toMatchObject({ reason: 'NodeStatusUnknown' });
    expect(found()?.spec?.taints).toMatchObject([{ key: UNREACHABLE, effect: 'NoSchedule' }]);
    expect(ready(apiserver.object(Pod, { namespace: 'test', name: 'here' }))).toBe('False');
    expect(ready(apiserver.object(Pod, { namespace: 'test', name: 'there' }))).toBe('True');
    const told = apiserver.objects(Event).map(({ reason }) => reason);
    expect(told).toEqual(['NodeNotReady', 'NodeNotReady']);
    apiserver.clearRequests();
    expect((await run(silent)).writes).toEqual([]);
  });

  it('says so of a node that never reported', async () => {
    apiserver.put(node('n', { ready: null }));
    await run({ [HEARTBEAT]: 61 });
    const reasons = found()?.status?.conditions?.map(({ reason }) => reason);
    expect(reasons).toEqual(Array.from({ length: 4 }, () => 'NodeStatusNeverUpdated'));
  });

  it.each(['a Lease', 'a status'])(
    'leaves alone a node of which the apiserver has %s that the cache lacks',
    async (what) => {
      apiserver.put(node('n'));
      apiserver.put(lease('noon'));
      const old = { node: found(), lease: apiserver.object(Lease, { namespace: 'kube-node-lease', name: 'n' }) };
      const cache = {
        get: async (resource: { kind: string }) => (resource.kind === 'Node' ? old.node : old.lease) as never,
        list: async () => ({ items: [], version: '1' }),
        secondsUnchanged: async () => 100,
      };
      if (what === 'a Lease') apiserver.put(lease('later'));
      else {
        const beating = node('n');
        for (const condition of beating.status?.conditions ?? []) condition.lastHeartbeatTime = '2026-01-01T00:01:00Z';
        apiserver.put(beating);
      }
      const { outcome, writes } = await run({}, { cache });
      expect(outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 1 });
      expect(writes).toEqual([]);
    },
  );

  it('leaves alone the pods of a kubelet that says itself that it is not ready', async () => {
    apiserver.put(node('n', { ready: 'False', taints: [{ key: NOT_READY, effect: 'NoSchedule' }] }));
    apiserver.put(podOn('n', 'here'));
    expect((await run()).writes).toEqual([]);
  });

  it.each<[string, Parameters<typeof node>[1], number]>([
    ['was not ready when it fell silent', { ready: 'False', taints: [{ key: NOT_READY, effect: 'NoSchedule' }] }, 403],
    ['was not ready when it fell silent', { ready: 'False', taints: [{ key: NOT_READY, effect: 'NoSchedule' }] }, 409],
    ['is unknown, and has no taint', { ready: 'Unknown' }, 409],
    ['fell silent long ago, and has lost its taint', { ready: 'Unknown', reason: 'NodeStatusUnknown' }, 403],
  ])('leaves ready the pods of a node that %s, when its taint fails first: %j, %i', async (_, parts, code) => {
    apiserver.put(node('n', parts));
    apiserver.put(podOn('n', 'here'));
    apiserver.fail({ verb: 'patch', resource: 'nodes' }, { code });
    const { outcome } = await run(silent);
    expect(outcome).toMatchObject(code === 409 ? { status: 'done', requeueAfterSeconds: 0.5 } : { status: 'error' });
    await run({}, { attempt: code === 409 ? 1 : 2 });
    expect(found()?.spec?.taints).toMatchObject([{ key: UNREACHABLE, effect: 'NoSchedule' }]);
    expect(podReady('here')).toBe('True');
    expect(apiserver.objects(Event)).toEqual([]);
  });

  it('taints a silent node although the write of a pod is refused, and marks the pod when it is not', async () => {
    apiserver.put(node('n'));
    for (const name of ['refused', 'other']) apiserver.put(podOn('n', name));
    apiserver.fail({ verb: 'patch', resource: 'pods', name: 'refused' }, { code: 403 });
    const { outcome } = await run(silent);
    expect(outcome).toMatchObject({ status: 'error' });
    expect((outcome as { retryAfterSeconds: number }).retryAfterSeconds).toBeLessThan(1);
    expect(found()?.spec?.taints).toMatchObject([{ key: UNREACHABLE, effect: 'NoSchedule' }]);
    expect(['refused', 'other'].map(podReady)).toEqual(['True', 'False']);
    expect((await run({}, { attempt: 2 })).outcome).toMatchObject({ status: 'done' });
    expect(['refused', 'other'].map(podReady)).toEqual(['False', 'False']);
    expect(apiserver.objects(Event).map(({ reason }) => reason)).toEqual([
      'NodeNotReady',
      'NodeNotReady',
      'NodeNotReady',
    ]);
  });

  it('marks the other pods of a silent node when an outage ends', async () => {
    const since = timestamp(Date.now() - 300_000);
    apiserver.put(node('n', { ready: 'Unknown', reason: 'NodeStatusUnknown', since }));
    apiserver.put(podOn('n', 'here'));
    expect((await run({}, { attempt: 2 })).outcome).toMatchObject({ status: 'done' });
    expect(podReady('here')).toBe('False');
  });

  it('marks the pods of a silent node although its taint is refused', async () => {
    apiserver.put(node('n'));
    apiserver.put(podOn('n', 'here'));
    apiserver.fail({ verb: 'patch', resource: 'nodes' }, { code: 403 });
    expect((await run(silent)).outcome).toMatchObject({ status: 'error' });
    expect(podReady('here')).toBe('False');
  });

  it.each<[string, Parameters<typeof node>[1], Record<string, number>]>([
    ['never reported', { ready: null }, { [HEARTBEAT]: 61 }],
    [
      'was not ready when it fell silent',
      { ready: 'False', taints: [{ key: NOT_READY, effect: 'NoSchedule' }] },
      silent,
    ],
    ['is unknown, and has no taint', { ready: 'Unknown' }, {}],
    ['is unknown, has no taint, and renews its Lease', { ready: 'Unknown' }, { [HEARTBEAT]: 60, [RENEWAL]: 0 }],
  ])('tells nothing of a node that %s, and leaves its pods ready, but taints it', async (_, parts, seconds) => {
    apiserver.put(node('n', parts));
    apiserver.put(podOn('n', 'here'));
    for (const renewal of ['noon', 'later']) {
      if (seconds[RENEWAL] !== undefined) apiserver.put(lease(renewal));
      await run(seconds);
    }
    expect(found()?.spec?.taints).toMatchObject([{ key: UNREACHABLE, effect: 'NoSchedule' }]);
    expect(podReady('here')).toBe('True');
    expect(apiserver.objects(Event)).toEqual([]);
  });

  it('says nothing yet of a node that never reported while it renews its Lease', async () => {
    apiserver.put(node('n', { ready: null }));
    apiserver.put(podOn('n', 'here'));
    for (const renewal of ['noon', 'later']) {
      apiserver.put(lease(renewal));
      expect((await run({ [HEARTBEAT]: 100, [RENEWAL]: 0 })).writes).toEqual([]);
    }
  });

  it('does nothing to pods when somebody takes the taint of a silent node away, but taints it again', async () => {
    apiserver.put(node('n'));
    apiserver.put(podOn('n', 'here'));
    await run(silent);
    const tainted = found();
    if (tainted) apiserver.put({ ...tainted, spec: {} });
    apiserver.put(podOn('n', 'here'));
    apiserver.clearRequests();
    expect((await run(silent)).writes).toMatchObject([{ verb: 'patch', resource: 'nodes' }]);
  });

  it('tells of a node that came, and does nothing for one that went', async () => {
    expect((await run()).outcome).toEqual({ status: 'done', writes: [] });
    apiserver.put(node('n'));
    await run({}, { reasons: [{ type: 'added', object: 'v1/Node n' }] });
    expect(apiserver.objects(Event)).toMatchObject([
      { reason: 'RegisteredNode', source: { component: 'node-controller' } },
    ]);
  });
});

describe('the controller node-zones', () => {
  const zones = nodeZones(DEFAULT_SETTINGS);
  const runZones = () => runReconciler(zones, { name: 'kube-node-lease' }, { apiserver });

  it('taints one lost node, and comes again for the next', async () => {
    for (const name of ['a', 'b']) apiserver.put(node(name, { ready: 'Unknown' }));
    for (const name of ['c', 'd']) apiserver.put(node(name));
    const { outcome } = await runZones();
    expect(outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 10 });
    expect(apiserver.object(Node, { name: 'a' })?.spec?.taints).toMatchObject([
      { key: UNREACHABLE, effect: 'NoExecute' },
    ]);
    expect(apiserver.object(Node, { name: 'b' })?.spec?.taints ?? []).toEqual([]);
  });

  it('fails when another has changed the node since, and leaves the taints of the other', async () => {
    apiserver.put(node('a', { ready: 'Unknown' }));
    apiserver.put(node('b'));
    apiserver.fail({ verb: 'patch', resource: 'nodes' }, { code: 409 });
    expect((await runZones()).outcome.status).toBe('error');
  });

  it('taints no other node when it is not known whether the first has its taint', async () => {
    for (const name of ['a', 'b', 'c']) apiserver.put(node(name, { ready: 'Unknown' }));
    for (const name of ['d', 'e', 'f']) apiserver.put(node(name));
    apiserver.fail({ verb: 'patch', resource: 'nodes', name: 'a' }, { code: 504 }, 10);
    expect((await runZones()).outcome.status).toBe('unknown');
    expect(apiserver.objects(Node).flatMap(({ spec }) => spec?.taints ?? [])).toEqual([]);
  });

  it('lets the next node of the zone take the turn of one whose taint is refused, and tries that one again soon', async () => {
    for (const name of ['a', 'b', 'c']) apiserver.put(node(name, { ready: 'Unknown' }));
    for (const name of ['d', 'e', 'f']) apiserver.put(node(name));
    apiserver.fail({ verb: 'patch', resource: 'nodes', name: 'a' }, { code: 403 });
    const { outcome } = await runZones();
    const tainted = () => apiserver.objects(Node).filter(({ spec }) => (spec?.taints ?? []).length > 0);
    expect(tainted().map(({ metadata }) => metadata.name)).toEqual(['b']);
    expect(outcome).toMatchObject({ status: 'error' });
    expect((outcome as { retryAfterSeconds: number }).retryAfterSeconds).toBeLessThan(1);
    // No further node until the zone's next turn.
    await runZones();
    expect(tainted().map(({ metadata }) => metadata.name)).toEqual(['b']);
  });
});

describe('the controller taint-eviction', () => {
  const evict = (secondsUnchanged = 0) =>
    runReconciler(taintEviction, key, { apiserver, secondsUnchanged: { [EVICTING_TAINTS]: secondsUnchanged } });
  const tolerating = (tolerationSeconds: number | bigint) => ({
    spec: { tolerations: [{ operator: 'Exists', effect: 'NoExecute', tolerationSeconds }] },
  });
  const staying = () =>
    apiserver
      .objects(Pod)
      .filter(({ metadata }) => !metadata.deletionTimestamp)
      .map(({ metadata }) => metadata.name);

  it('looks again within a day at a pod that tolerates the taint for 2^63 - 1 seconds', async () => {
    apiserver.put(node('n', { taints: [lost('unreachable')] }));
    apiserver.put(podOn('n', 'stays', tolerating(9223372036854775807n)));
    expect((await evict()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 86_400 });
    expect(staying()).toEqual(['stays']);
  });

  it('deletes the pods of the node that do not tolerate its taint, with the condition', async () => {
    apiserver.put(node('n', { taints: [lost('unreachable')] }));
    apiserver.put(podOn('n', 'gone'));
    apiserver.put(podOn('n', 'stays', { spec: { tolerations: [{ operator: 'Exists' }] } }));
    apiserver.put(podOn('other', 'elsewhere'));
    const { outcome, writes } = await evict();
    expect(outcome.status).toBe('done');
    expect(staying()).toEqual(['elsewhere', 'stays']);
    expect(writes.filter(({ resource }) => resource === 'pods')).toMatchObject([
      { verb: 'patch', resource: 'pods', subresource: 'status', name: 'gone' },
      { verb: 'delete', resource: 'pods', name: 'gone' },
    ]);
    expect(apiserver.objects(Event)).toMatchObject([
      { reason: 'TaintManagerEviction', message: 'Marking for deletion Pod test/gone' },
    ]);
  });

  it.each([
    ['True', 'PreemptionByScheduler', '2026-01-01T00:00:07Z', true],
    ['False', 'DeletionByTaintManager', '2026-01-01T00:00:07Z', false],
  ])('keeps since when a pod is to go that another has marked so: %s, %s', async (status, reason, time, keeps) => {
    apiserver.put(node('n', { taints: [lost('unreachable')] }));
    const times = { lastProbeTime: '2026-01-01T00:00:05Z', lastTransitionTime: time };
    const marked = { type: 'DisruptionTarget', status, reason, message: 'by another', ...times };
    const held = podOn('n', 'gone', { status: { conditions: [marked] } });
    apiserver.put({ ...held, metadata: { ...held.metadata, generation: 3, finalizers: ['a/b'] } });
    await evict();
    const [condition] = apiserver.objects(Pod)[0]?.status?.conditions ?? [];
    expect(condition).toMatchObject({
      status: 'True',
      reason: 'DeletionByTaintManager',
      message: 'Taint manager: deleting due to NoExecute taint',
      observedGeneration: 3,
    });
    expect(condition).not.toHaveProperty('lastProbeTime');
    expect(condition?.lastTransitionTime === time).toBe(keeps);
  });

  it('waits for the end of the toleration: by the time of the taint, or by what the gateway has seen', async () => {
    apiserver.put(podOn('n', 'waits', tolerating(300)));
    apiserver.put(node('n', { taints: [lost('unreachable')] }));
    expect((await evict(100)).outcome).toMatchObject({ requeueAfterSeconds: 200 });
    apiserver.put(node('n', { taints: [lost('unreachable', timestamp(Date.now() - 290_000))] }));
    const { outcome } = await evict(100);
    expect(outcome).toHaveProperty('requeueAfterSeconds');
    expect((outcome as { requeueAfterSeconds: number }).requeueAfterSeconds).toBeLessThanOrEqual(10);
    expect(staying()).toEqual(['waits']);
    expect((await evict(300)).outcome.status).toBe('done');
    expect(staying()).toEqual([]);
  });

  it('counts each taint alone: another that comes and goes makes it no newer', async () => {
    const flap = { key: 'flap', effect: 'NoExecute' };
    const only = { key: 'only', value: 'x', effect: 'NoExecute' };
    apiserver.put(
      podOn('n', 'waits', {
        spec: {
          tolerations: [
            { key: 'only', operator: 'Exists', tolerationSeconds: 6 },
            { key: 'flap', operator: 'Exists' },
          ],
        },
      }),
    );
    apiserver.put(node('n', { taints: [only, flap] }));
    const after = (seconds: number) =>
      runReconciler(taintEviction, key, {
        apiserver,
        secondsUnchanged: {
          [`${EVICTING_TAINTS} ["only","x"]`]: seconds,
          [`${EVICTING_TAINTS} ["flap",""]`]: 0,
          [EVICTING_TAINTS]: 0,
        },
      });
    expect((await after(5)).outcome).toMatchObject({ requeueAfterSeconds: 1 });
    expect((await after(6)).outcome).not.toHaveProperty('requeueAfterSeconds');
    expect(staying()).toEqual([]);
  });

  it('counts from the time on at which the pod was put on the node', async () => {
    const lastTransitionTime = timestamp(Date.now() + 60_000);
    const status = { conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime }] };
    apiserver.put(podOn('n', 'new', { ...tolerating(300), status }));
    apiserver.put(node('n', { taints: [lost('unreachable', timestamp(Date.now() - 400_000))] }));
    expect((await evict(400)).outcome).toMatchObject({ requeueAfterSeconds: 300 });
  });

  it('tries a pod that could not be deleted again soon, and no later than the next pod is due', async () => {
    apiserver.put(node('n', { taints: [lost('unreachable')] }));
    apiserver.put(podOn('n', 'refused'));
    apiserver.put(podOn('n', 'gone'));
    apiserver.put(podOn('n', 'waits', tolerating(2)));
    apiserver.fail({ verb: 'delete', resource: 'pods', name: 'refused' }, { code: 403 }, 2);
    const first = (await evict()).outcome as { retryAfterSeconds: number };
    expect(first).toMatchObject({ status: 'error' });
    expect(first.retryAfterSeconds).toBeLessThan(1);
    expect(staying()).toEqual(['refused', 'waits']);
    const late = await runReconciler(taintEviction, key, {
      apiserver,
      secondsUnchanged: { [EVICTING_TAINTS]: 0.5 },
      attempt: 20,
    });
    expect(late.outcome).toMatchObject({ status: 'error', retryAfterSeconds: 1.5 });
    expect((await evict(1)).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 1 });
    expect(staying()).toEqual(['waits']);
  });

  it('is still when the taint is gone, and for pods that are being deleted', async () => {
    apiserver.put(podOn('n', 'here'));
    apiserver.put(node('n'));
    expect((await evict()).writes).toEqual([]);
    const going = podOn('n', 'going');
    apiserver.put({ ...going, metadata: { ...going.metadata, deletionTimestamp: timestamp(0), finalizers: ['a/b'] } });
    apiserver.remove(Pod, { namespace: 'test', name: 'here' });
    apiserver.put(node('n', { taints: [lost('unreachable')] }));
    expect((await evict()).writes).toEqual([]);
  });
});
