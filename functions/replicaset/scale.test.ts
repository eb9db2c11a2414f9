import { DeadlineError, EventRecorder } from 'levelhook/function';
import { MemoryApiserver, testContext } from 'levelhook/testing/reconciler';
import { describe, expect, it } from 'vitest';
import { Pod } from '../lib/pod.ts';
import { ReplicaSet } from '../lib/replica-set.ts';
import { pod, replicaSet } from '../lib/testing.ts';
import { BURST, scale, slowStart } from './scale.ts';

const never = new AbortController().signal;

/** The number of calls in each batch of `slowStart`, until the call `failAt` failed. */
async function batchesOf(count: number, failAt = Infinity) {
  const batches: number[] = [];
  let calls = 0;
  let open = 0;
  const failure = await slowStart(count, never, async () => {
    if (open++ === 0) batches.push(0);
    batches[batches.length - 1]! += 1;
    const call = ++calls;
    await new Promise((resolve) => setImmediate(resolve));
    open--;
    if (call === failAt) throw new Error(`call ${call}`);
  });
  return { batches, failure };
}

describe('slowStart', () => {
  it.each([
    [0, []],
    [1, [1]],
    [2, [1, 1]],
    [7, [1, 2, 4]],
    [10, [1, 2, 4, 3]],
    [50, [1, 2, 4, 8, 16, 19]],
  ])('calls %i times in batches that double', async (count, batches) => {
    expect(await batchesOf(count)).toEqual({ batches, failure: undefined });
  });

  it.each([
    [1, [1]],
    [2, [1, 2]],
    [3, [1, 2]],
    [4, [1, 2, 4]],
    [8, [1, 2, 4, 8]],
  ])('ends the batch of a failure at call %i and starts no other', async (failAt, batches) => {
    const result = await batchesOf(40, failAt);
    expect(result).toEqual({ batches, failure: new Error(`call ${failAt}`) });
  });

  it('stops between batches when the run is over', async () => {
    const run = new AbortController();
    let calls = 0;
    const started = slowStart(40, run.signal, async () => {
      if (++calls === 3) run.abort(new Error('the deadline has passed'));
    });
    expect(await started).toBeInstanceOf(DeadlineError);
    expect(calls).toBe(3);
  });
});

describe('scale', () => {
  const scaled = async (apiserver: MemoryApiserver, rs: ReplicaSet, active: readonly Pod[]) => {
    const context = testContext({ apiserver, cached: [ReplicaSet, Pod] });
    const events = new EventRecorder({ component: 'test' }).about(ReplicaSet, rs, context);
    const failure = await scale(rs, active, events, context);
    // Waits for the Events.
    await context.api.finish();
    return failure;
  };
  const pods = (count: number) => Array.from({ length: count }, (_, index) => pod(`pod-${index}`));

  it('creates at most 500 pods, at most 50 at a time', async () => {
    const apiserver = new MemoryApiserver();
    let most = 0;
    apiserver.intercept = () => {
      const open = apiserver.requests.filter(({ resource, status }) => resource === 'pods' && status === undefined);
      most = Math.max(most, open.length);
      return undefined;
    };
    await scaled(apiserver, replicaSet({ replicas: 2 * BURST }), []);
    expect(apiserver.objects(Pod)).toHaveLength(BURST);
    expect(most).toBe(50);
  });

  it('deletes at most 500 pods', async () => {
    const active = pods(BURST + 10);
    const apiserver = new MemoryApiserver({ objects: active });
    await scaled(apiserver, replicaSet(), active);
    expect(apiserver.objects(Pod)).toHaveLength(10);
  });

  it('tries all deletes and reports the first that failed', async () => {
    const active = pods(3);
    const apiserver = new MemoryApiserver({ objects: active });
    apiserver.fail({ verb: 'delete', name: 'pod-1' }, { code: 500, message: 'broken' });
    expect((await scaled(apiserver, replicaSet(), active))?.message).toBe('unable to delete pods: broken');
    expect(apiserver.objects(Pod).map(({ metadata }) => metadata.name)).toEqual(['pod-1']);
  });

  it('gives up in peace when the namespace is being deleted', async () => {
    const apiserver = new MemoryApiserver();
    apiserver.intercept = () => ({ code: 403, causes: [{ reason: 'NamespaceTerminating' }] });
    expect(await scaled(apiserver, replicaSet({ replicas: 3 }), [])).toBeUndefined();
    const create = { verb: 'create', resource: 'pods' };
    expect(apiserver.writes).toMatchObject([create, create, create]);
  });

  it('spreads over the nodes together with the other revisions of its owner', async () => {
    const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web', uid: 'deployment', controller: true };
    const rs = replicaSet({ replicas: 1 }, { ownerReferences: [deployment] });
    const older = replicaSet({}, { name: 'older', uid: 'older', ownerReferences: [deployment] });
    const active = [pod('lonely', { spec: { nodeName: 'a' } }), pod('crowded', { spec: { nodeName: 'b' } })];
    const other = pod('other', {
      metadata: { ownerReferences: [{ ...deployment, kind: 'ReplicaSet', uid: 'older' }] },
      spec: { nodeName: 'b' },
    });
    const apiserver = new MemoryApiserver({ objects: [rs, older, other, ...active] });
    await scaled(apiserver, rs, active);
    const writes = apiserver.writes.filter(({ resource }) => resource === 'pods');
    expect(writes).toMatchObject([{ verb: 'delete', name: 'crowded' }]);
  });

  it('counts the pods that a sibling selects, whoever manages them, once each and in its namespace alone', async () => {
    const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web', uid: 'deployment', controller: true };
    const selector = { matchLabels: { app: 'web', old: 'yes' } };
    const rs = replicaSet({ replicas: 1 }, { ownerReferences: [deployment] });
    const older = replicaSet({ selector }, { name: 'older', uid: 'older', ownerReferences: [deployment] });
    const copied = replicaSet({}, { name: 'copy', namespace: 'evil', uid: 'copy', ownerReferences: [deployment] });
    const active = [pod('b-lonely', { spec: { nodeName: 'a' } }), pod('a-crowded', { spec: { nodeName: 'b' } })];
    const others = [
      pod('stranger', { metadata: { labels: selector.matchLabels, ownerReferences: [] }, spec: { nodeName: 'b' } }),
      pod('evil-1', { metadata: { namespace: 'evil' }, spec: { nodeName: 'a' } }),
      pod('evil-2', { metadata: { namespace: 'evil' }, spec: { nodeName: 'a' } }),
    ];
    const apiserver = new MemoryApiserver({ objects: [rs, older, copied, ...active, ...others] });
    await scaled(apiserver, rs, active);
    const writes = apiserver.writes.filter(({ resource }) => resource === 'pods');
    expect(writes).toMatchObject([{ verb: 'delete', name: 'a-crowded' }]);
  });
});
