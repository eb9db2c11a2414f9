import { describe, expect, it } from 'vitest';
import type { Event } from '../lib/events.ts';
import { MemoryCluster, refusal } from '../lib/memory-cluster.ts';
import type { Pod } from '../lib/pod.ts';
import type { ReplicaSet } from '../lib/replica-set.ts';
import { pod, readyFrom, replicaSet } from '../lib/testing.ts';
import { replicaset } from './controller.ts';

const request = { namespace: 'test', name: 'web', attempt: 1, reasons: [] };
const run = (cluster: MemoryCluster) => replicaset.run(request, cluster.context());
const rsOf = (cluster: MemoryCluster) => cluster.all<ReplicaSet>('ReplicaSet')[0];

describe('the replicaset controller', () => {
  it('does nothing for a ReplicaSet that is gone', async () => {
    const cluster = new MemoryCluster();
    expect(await run(cluster)).toBeUndefined();
    expect(cluster.requests).toEqual([]);
  });

  it('creates the missing pods and tells of each', async () => {
    const cluster = new MemoryCluster(replicaSet({ replicas: 3 }));
    await run(cluster);
    const pods = cluster.all<Pod>('Pod');
    expect(pods).toHaveLength(3);
    const events = cluster.all<Event>('Event').map(({ reason, message }) => `${reason} ${message}`);
    expect(events).toEqual(pods.map(({ metadata }) => `SuccessfulCreate Created pod: ${metadata.name}`));
  });

  it('is still after it has reached its goal', async () => {
    const cluster = new MemoryCluster(replicaSet({ replicas: 2 }));
    await run(cluster);
    await run(cluster);
    expect(rsOf(cluster)?.status).toMatchObject({ replicas: 2, observedGeneration: 1, terminatingReplicas: 0 });
    cluster.requests.length = 0;
    await run(cluster);
    expect(cluster.requests).toEqual([]);
  });

  it('deletes the pods that are too many, and only tells of those that were there', async () => {
    const cluster = new MemoryCluster(replicaSet({ replicas: 0 }), pod('a'), pod('b'));
    cluster.intercept = ({ method, path }) =>
      method === 'DELETE' && path.includes('/a?') ? refusal(404, 'NotFound') : undefined;
    await run(cluster);
    expect(cluster.all<Event>('Event').map(({ message }) => message)).toEqual(['Deleted pod: b']);
  });

  it('writes the status before it fails, with the reason as a condition, and takes that away later', async () => {
    const cluster = new MemoryCluster(replicaSet({ replicas: 3 }));
    cluster.intercept = ({ method, path }) =>
      method === 'POST' && path.includes('/pods?') ? refusal(403, 'quota exceeded') : undefined;
    await expect(run(cluster)).rejects.toThrow('quota exceeded');
    const condition = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: 'quota exceeded' };
    expect(rsOf(cluster)?.status.conditions).toMatchObject([condition]);
    expect(cluster.all<Event>('Event')).toMatchObject([
      { type: 'Warning', reason: 'FailedCreate', message: 'Error creating: quota exceeded' },
    ]);
    cluster.intercept = () => undefined;
    await run(cluster);
    expect(rsOf(cluster)?.status.conditions).toEqual([]);
  });

  it('does not scale a ReplicaSet that is being deleted, but keeps its status', async () => {
    const deleting = replicaSet({ replicas: 5 }, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    const cluster = new MemoryCluster(deleting, pod('a'));
    await run(cluster);
    expect(cluster.writes).toEqual(['PUT replicasets/web/status']);
    expect(rsOf(cluster)?.status.replicas).toBe(1);
  });

  it('counts its own pods that are being deleted and replaces them', async () => {
    const going = { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } };
    const cluster = new MemoryCluster(
      replicaSet({ replicas: 1 }),
      pod('a', going),
      pod('b', {
        metadata: { ...going.metadata, ownerReferences: [] },
      }),
    );
    await run(cluster);
    expect(cluster.writes).toContain('POST pods');
    expect(rsOf(cluster)?.status).toMatchObject({ replicas: 0, terminatingReplicas: 1 });
  });

  it('neither claims nor counts a pod that has ended', async () => {
    const ended = { metadata: { ownerReferences: [] }, status: { phase: 'Succeeded' } };
    const cluster = new MemoryCluster(replicaSet({ replicas: 0 }), pod('a', ended));
    await run(cluster);
    expect(cluster.writes).toEqual(['PUT replicasets/web/status']);
  });

  it('asks to run again when the next pod becomes available', async () => {
    const since = new Date(Date.now() - 4000).toISOString();
    const cluster = new MemoryCluster(
      replicaSet({ replicas: 1, minReadySeconds: 10 }),
      pod('a', {
        status: readyFrom(since),
      }),
    );
    const result = await run(cluster);
    expect(result?.requeueAfterSeconds).toBeGreaterThan(5);
    expect(result?.requeueAfterSeconds).toBeLessThanOrEqual(6);
  });

  it('does not fail for an event', async () => {
    const cluster = new MemoryCluster(replicaSet({ replicas: 1 }));
    cluster.intercept = ({ path }) => (path.includes('/events') ? refusal(403, 'Forbidden') : undefined);
    await expect(run(cluster)).resolves.toEqual({});
  });

  it('writes nine events of a reason, and one that counts the others', async () => {
    const cluster = new MemoryCluster(replicaSet({ replicas: 40 }));
    await run(cluster);
    expect(cluster.all('Pod')).toHaveLength(40);
    const events = cluster.all<Event>('Event').map(({ count, message }) => ({ count, message }));
    expect(events.map(({ count }) => count)).toEqual([...Array.from({ length: 9 }, () => 1), 31]);
    expect(events.at(-1)?.message).toMatch(/^\(combined from similar events\): Created pod: /);
  });

  it('counts what was said in the same words', async () => {
    const cluster = new MemoryCluster(replicaSet({ replicas: 40 }));
    // Batches of one and two pods, then four of which each fails.
    cluster.intercept = ({ method, path }) =>
      method === 'POST' && path.includes('/pods') && cluster.all('Pod').length === 3
        ? refusal(403, 'Forbidden')
        : undefined;
    await expect(run(cluster)).rejects.toThrow();
    const failed = cluster.all<Event>('Event').filter(({ reason }) => reason === 'FailedCreate');
    expect(failed).toMatchObject([{ type: 'Warning', count: 4 }]);
  });
});
