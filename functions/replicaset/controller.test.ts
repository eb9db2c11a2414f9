import { controllerReference } from 'levelhook/function';
import { Event } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { Pod } from '../lib/pod.ts';
import { ReplicaSet } from '../lib/replica-set.ts';
import { pod, readyFrom, replicaSet } from '../lib/testing.ts';
import { replicaset } from './controller.ts';

const key = { namespace: 'test', name: 'web' };
const deletionTimestamp = '2026-01-01T00:00:00Z';
const statusWrite = { verb: 'update', resource: 'replicasets', subresource: 'status', ...key };

let apiserver: MemoryApiserver;
/** Each test has its own ReplicaSet, because the recorder remembers the Events of another one. */
let uid: string;
const run = () => runReconciler(replicaset, key, { apiserver });
const status = () => apiserver.object(ReplicaSet, key)?.status;
const messages = () => apiserver.objects(Event).map(({ message }) => message);

beforeEach(() => {
  apiserver = new MemoryApiserver();
  uid = randomUUID();
});

function given(spec: Partial<ReplicaSet['spec']>, metadata: Partial<ReplicaSet['metadata']> = {}): void {
  apiserver.put(replicaSet(spec, { uid, ...metadata }));
}

function givenPod(name: string, { metadata, ...parts }: Parameters<typeof pod>[1] = {}): void {
  const ownerReferences = [controllerReference(ReplicaSet, replicaSet({}, { uid }))];
  apiserver.put(pod(name, { ...parts, metadata: { ownerReferences, ...metadata } }));
}

describe('the replicaset controller', () => {
  it('does nothing for a ReplicaSet that is gone', async () => {
    expect((await run()).outcome).toEqual({ status: 'done', writes: [] });
    expect(apiserver.requests).toEqual([]);
  });

  it('creates the missing pods and tells of each', async () => {
    given({ replicas: 3 });
    await run();
    const pods = apiserver.objects(Pod);
    expect(pods).toHaveLength(3);
    const told = pods.map(({ metadata }) => `Created pod: ${metadata.name}`);
    expect(new Set(messages())).toEqual(new Set(told));
    expect(apiserver.objects(Event)[0]).toMatchObject({
      type: 'Normal',
      reason: 'SuccessfulCreate',
      involvedObject: { kind: 'ReplicaSet', ...key, uid },
      source: { component: 'replicaset-controller' },
    });
  });

  it('is still after it has reached its goal', async () => {
    given({ replicas: 2 });
    await run();
    await run();
    expect(status()).toMatchObject({ replicas: 2, observedGeneration: 1, terminatingReplicas: 0 });
    apiserver.clearRequests();
    await run();
    expect(apiserver.requests).toEqual([]);
  });

  it('deletes the pods that are too many, and only tells of those that were there', async () => {
    given({ replicas: 0 });
    givenPod('a');
    givenPod('b');
    apiserver.fail({ verb: 'delete', name: 'a' }, { code: 404 });
    await run();
    expect(messages()).toEqual(['Deleted pod: b']);
  });

  it('writes the status before it fails, with the reason as a condition, and takes that away later', async () => {
    given({ replicas: 3 });
    apiserver.fail({ verb: 'create', resource: 'pods' }, { code: 403, message: 'quota exceeded' });
    expect((await run()).outcome).toMatchObject({ status: 'error', message: 'quota exceeded' });
    const condition = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: 'quota exceeded' };
    expect(status()?.conditions).toMatchObject([condition]);
    expect(apiserver.objects(Event)).toMatchObject([
      { type: 'Warning', reason: 'FailedCreate', message: 'Error creating: quota exceeded' },
    ]);
    expect((await run()).outcome.status).toBe('done');
    expect(status()?.conditions).toEqual([]);
  });

  it('does not scale a ReplicaSet that is being deleted, but keeps its status', async () => {
    given({ replicas: 5 }, { deletionTimestamp, finalizers: ['foregroundDeletion'] });
    givenPod('a');
    expect((await run()).writes).toMatchObject([statusWrite]);
    expect(status()?.replicas).toBe(1);
  });

  it('counts its own pods that are being deleted and replaces them', async () => {
    given({ replicas: 1 });
    givenPod('a', { metadata: { deletionTimestamp } });
    givenPod('b', { metadata: { deletionTimestamp, ownerReferences: [] } });
    expect((await run()).writes).toContainEqual(expect.objectContaining({ verb: 'create', resource: 'pods' }));
    expect(status()).toMatchObject({ replicas: 0, terminatingReplicas: 1 });
  });

  it('takes no pod of another namespace for its own, whatever that pod has copied', async () => {
    given({ replicas: 1 });
    givenPod('own', { status: readyFrom(null) });
    await run();
    apiserver.clearRequests();
    const before = status();
    const copied = { namespace: 'evil', annotations: { 'controller.kubernetes.io/pod-deletion-cost': '2000000000' } };
    givenPod('active', { metadata: copied });
    givenPod('going', { metadata: { ...copied, deletionTimestamp, finalizers: ['evil.example.com/stays'] } });
    givenPod('unlike', { metadata: { ...copied, labels: { app: 'other' } } });
    givenPod('orphan', { metadata: { ...copied, ownerReferences: [] } });
    await run();
    expect(apiserver.writes).toEqual([]);
    expect(status()).toEqual(before);
  });

  it.each([
    ['kind', { kind: 'StatefulSet' }],
    ['name', { name: 'other' }],
  ])('takes no pod for its own whose controller has its UID and another %s', async (_, other) => {
    given({ replicas: 1 });
    const ownerReferences = [{ ...controllerReference(ReplicaSet, replicaSet({}, { uid })), ...other }];
    givenPod('active', { metadata: { ownerReferences } });
    givenPod('going', { metadata: { ownerReferences, deletionTimestamp } });
    givenPod('unlike', { metadata: { ownerReferences, labels: { app: 'other' } } });
    const { writes } = await run();
    expect(writes.filter(({ resource }) => resource === 'pods')).toMatchObject([{ verb: 'create' }]);
    expect(status()).toMatchObject({ replicas: 0, terminatingReplicas: 0 });
  });

  it('neither claims nor counts a pod that has ended', async () => {
    given({ replicas: 0 });
    givenPod('a', { metadata: { ownerReferences: [] }, status: { phase: 'Succeeded' } });
    expect((await run()).writes).toMatchObject([statusWrite]);
  });

  it('asks to run again when the next pod becomes available', async () => {
    given({ replicas: 1, minReadySeconds: 100 });
    givenPod('a', { status: readyFrom(new Date(Date.now() - 4000).toISOString()) });
    const { requeueAfterSeconds } = (await run()).outcome as { requeueAfterSeconds?: number };
    expect(requeueAfterSeconds).toBeGreaterThan(60);
    expect(requeueAfterSeconds).toBeLessThanOrEqual(96);
  });

  it('does not fail for an event', async () => {
    given({ replicas: 1 });
    apiserver.fail({ resource: 'events' }, { code: 403 });
    expect((await run()).outcome.status).toBe('done');
    expect(apiserver.writes).toContainEqual(expect.objectContaining({ resource: 'events', status: 403 }));
  });

  it('tells of many pods in ten Events, the last of which stands for the others', async () => {
    given({ replicas: 40 });
    await run();
    expect(apiserver.objects(Pod)).toHaveLength(40);
    expect(apiserver.objects(Event)).toHaveLength(10);
    const combined = messages().filter((message) => message?.startsWith('(combined from similar events): Created'));
    expect(combined).toHaveLength(1);
  });

  it('counts what was said in the same words', async () => {
    given({ replicas: 40 });
    // Batches of one and two pods, then a batch of four that all fail.
    apiserver.intercept = ({ verb, resource }) =>
      verb === 'create' && resource === 'pods' && apiserver.objects(Pod).length === 3 ? { code: 403 } : undefined;
    expect((await run()).outcome.status).toBe('error');
    const failed = apiserver.objects(Event).filter(({ reason }) => reason === 'FailedCreate');
    expect(failed).toMatchObject([{ type: 'Warning', count: 4 }]);
  });
});
