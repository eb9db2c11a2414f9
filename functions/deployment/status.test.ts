import { MemoryApiserver, testContext } from 'levelhook/testing/reconciler';
import { describe, expect, it } from 'vitest';
import { countedStatus, withRevision, writeStatus } from './status.ts';
import { revision, webDeployment, webOf } from './testing.ts';
import type { Deployment, Revisions } from './types.ts';

const now = Date.parse('2026-01-01T00:00:00Z');

describe('countedStatus', () => {
  const current = revision(2, 2, { status: { replicas: 2, readyReplicas: 1, availableReplicas: 0 } });
  const old = [revision(1, 2, { status: { replicas: 3, availableReplicas: 2, terminatingReplicas: 1 } })];
  const count = (revisions: Revisions, deployment = webDeployment()) => countedStatus(deployment, revisions, now);

  it('adds up the ReplicaSets', () => {
    expect(count({ current, old }, webDeployment({ replicas: 3 }, { metadata: { generation: 7 } }))).toEqual({
      observedGeneration: 7,
      replicas: 5,
      updatedReplicas: 2,
      readyReplicas: 3,
      availableReplicas: 2,
      unavailableReplicas: 2,
      terminatingReplicas: 1,
      conditions: [
        expect.objectContaining({ type: 'Available', status: 'False', reason: 'MinimumReplicasUnavailable' }),
      ],
    });
  });

  it('counts none of the new before there is one, and nobody unavailable when there are more than wanted', () => {
    const leaving = revision(1, 1, { status: { replicas: 3, availableReplicas: 3 } });
    expect(count({ current: undefined, old: [leaving] })).toMatchObject({ updatedReplicas: 0, unavailableReplicas: 0 });
  });

  it('says nothing of terminating pods when a ReplicaSet does not count them', () => {
    const { terminatingReplicas: _, ...status } = revision(1, 1).status;
    const silent = { ...revision(1, 1), status };
    const before = webDeployment({}, { status: { terminatingReplicas: 4, collisionCount: 2 } });
    expect(count({ current, old: [silent] }, before)).not.toHaveProperty('terminatingReplicas');
    const unseen = { ...silent, status: { replicas: 0 } };
    expect(count({ current, old: [unseen] }, before)).toMatchObject({ terminatingReplicas: 0, collisionCount: 2 });
  });

  it('is available with all but those that may be missing, and says since when', () => {
    const available = (availableReplicas: number) =>
      count({ current: revision(1, 10, { status: { availableReplicas } }), old: [] }, webDeployment({ replicas: 10 }));
    expect(available(7).conditions).toMatchObject([{ status: 'False' }]);
    expect(available(8).conditions).toEqual([
      {
        type: 'Available',
        status: 'True',
        reason: 'MinimumReplicasAvailable',
        message: 'Deployment has minimum availability.',
        lastUpdateTime: '2026-01-01T00:00:00.000Z',
        lastTransitionTime: '2026-01-01T00:00:00.000Z',
      },
    ]);
    const { conditions = [] } = available(8);
    expect(
      countedStatus(webDeployment({}, { status: { conditions } }), { current: revision(1, 3), old: [] }, now + 5000)
        .conditions,
    ).toEqual(conditions);
  });
});

describe('writeStatus', () => {
  const given = (...objects: Deployment[]) => {
    const apiserver = new MemoryApiserver({ objects });
    return { apiserver, api: testContext({ apiserver }).api };
  };

  it('writes nothing that is there already, though the apiserver leaves out zeros', async () => {
    const before = webDeployment({}, { status: { observedGeneration: 1, terminatingReplicas: 0 } });
    const { apiserver, api } = given(before);
    const next = { ...before, status: { ...before.status, replicas: 0, unavailableReplicas: 0, conditions: [] } };
    await writeStatus(before, next, api);
    expect(apiserver.requests).toEqual([]);
  });

  it.each<[string, (before: ReturnType<typeof webDeployment>) => ReturnType<typeof webDeployment>]>([
    ['a count', (before) => ({ ...before, status: { readyReplicas: 1 } })],
    ['that nobody is terminating', (before) => ({ ...before, status: { terminatingReplicas: 0 } })],
    ['a condition', (before) => ({ ...before, status: { conditions: [{ type: 'Available', status: 'True' }] } })],
    ['the revision', (before) => withRevision(before, revision(3, 1))],
  ])('writes %s', async (_, change) => {
    const { apiserver, api } = given(webDeployment());
    await writeStatus(webDeployment(), change(webDeployment()), api);
    expect(apiserver.writes).toMatchObject([{ verb: 'update', resource: 'deployments', subresource: 'status' }]);
    const { status, metadata } = change(webDeployment());
    expect(webOf(apiserver).status).toEqual(status);
    expect(webOf(apiserver).metadata.annotations).toEqual(metadata.annotations);
  });

  it('fails when the Deployment has changed meanwhile', async () => {
    const stale = webDeployment({}, { metadata: { resourceVersion: '0' } });
    const { api } = given(webDeployment());
    const next = { ...stale, status: { replicas: 3 } };
    await expect(writeStatus(stale, next, api)).rejects.toMatchObject({ reason: 'Conflict' });
  });
});
