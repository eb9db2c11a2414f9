import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemoryCluster, refusal } from '../lib/memory-cluster.ts';
import type { ReplicaSet } from '../lib/replica-set.ts';
import { pod } from '../lib/testing.ts';
import { conditionOf } from './conditions.ts';
import { limitsOf } from './limits.ts';
import { TEMPLATE_HASH } from './template.ts';
import { eventsOf, revision, rollOut, run, settle, templateOf, webDeployment, webOf } from './testing.ts';
import type { Deployment } from './types.ts';

const REVISION = 'deployment.kubernetes.io/revision';
const deletionTimestamp = '2026-01-01T00:00:00Z';

const setsOf = (cluster: MemoryCluster) => cluster.all<ReplicaSet>('ReplicaSet');
const sizesOf = (cluster: MemoryCluster) => setsOf(cluster).map(({ spec }) => spec.replicas);
const reasonOf = (cluster: MemoryCluster) => conditionOf(webOf(cluster).status, 'Progressing')?.reason;

/** As a user changes it. */
function change(cluster: MemoryCluster, spec: Partial<Deployment['spec']>): void {
  const deployment = webOf(cluster);
  Object.assign(deployment.spec, spec);
  deployment.metadata.generation = (deployment.metadata.generation ?? 0) + 1;
}

async function rolledOut(spec: Partial<Deployment['spec']> = {}): Promise<MemoryCluster> {
  const cluster = new MemoryCluster(webDeployment(spec));
  await rollOut(cluster);
  return cluster;
}

describe('the deployment controller', () => {
  it('does nothing for a Deployment that is gone', async () => {
    const cluster = new MemoryCluster();
    expect(await run(cluster)).toBeUndefined();
    expect(cluster.requests).toEqual([]);
  });

  it('makes the first ReplicaSet and tells of it, with one write of the status', async () => {
    const cluster = new MemoryCluster(
      webDeployment({ minReadySeconds: 5 }, { metadata: { annotations: { team: 'a' } } }),
    );
    const result = await run(cluster);
    expect(cluster.writes).toEqual(['POST replicasets', 'POST events', 'PUT deployments/web/status']);
    const [rs] = setsOf(cluster);
    const hash = rs?.metadata.labels?.[TEMPLATE_HASH] ?? '';
    const labels = { app: 'web', [TEMPLATE_HASH]: hash };
    expect(rs).toMatchObject({
      metadata: {
        name: `web-${hash}`,
        labels,
        annotations: {
          team: 'a',
          [REVISION]: '1',
          'deployment.kubernetes.io/desired-replicas': '3',
          'deployment.kubernetes.io/max-replicas': '4',
        },
        ownerReferences: [{ kind: 'Deployment', name: 'web', controller: true }],
      },
      spec: { replicas: 3, minReadySeconds: 5, selector: { matchLabels: labels }, template: { metadata: { labels } } },
    });
    expect(webOf(cluster).metadata.annotations).toEqual({ team: 'a', [REVISION]: '1' });
    expect(conditionOf(webOf(cluster).status, 'Progressing')).toMatchObject({
      reason: 'NewReplicaSetCreated',
      message: `Created new replica set "web-${hash}"`,
    });
    expect(eventsOf(cluster)).toEqual([`Normal ScalingReplicaSet Scaled up replica set web-${hash} from 0 to 3`]);
    expect(result?.requeueAfterSeconds).toBeGreaterThan(599);
  });

  it('is still after it has reached its goal', async () => {
    const cluster = await rolledOut();
    expect(webOf(cluster).status).toMatchObject({ replicas: 3, updatedReplicas: 3, availableReplicas: 3 });
    expect(reasonOf(cluster)).toBe('NewReplicaSetAvailable');
    cluster.requests.length = 0;
    expect(await run(cluster)).toEqual({});
    expect(cluster.requests).toEqual([]);
  });

  it('rolls a new template out, and back to the ReplicaSet of the old one', async () => {
    const cluster = await rolledOut({ replicas: 10 });
    change(cluster, { template: templateOf(2) });
    await rollOut(cluster);
    expect(sizesOf(cluster)).toEqual([0, 10]);
    expect(webOf(cluster).metadata.annotations?.[REVISION]).toBe('2');
    change(cluster, { template: templateOf(1) });
    await rollOut(cluster);
    expect(sizesOf(cluster)).toEqual([10, 0]);
    expect(setsOf(cluster)[0]?.metadata.annotations).toMatchObject({
      [REVISION]: '3',
      'deployment.kubernetes.io/revision-history': '1',
    });
    expect(webOf(cluster).metadata.annotations?.[REVISION]).toBe('3');
  });

  it('takes over the ReplicaSets that another controller has made', async () => {
    const current = revision(2, 3);
    const cluster = new MemoryCluster(webDeployment({ template: templateOf(2) }), revision(1, 0), current);
    await run(cluster);
    expect(setsOf(cluster).map(({ metadata }) => metadata.name)).toEqual(['web-1', 'web-2']);
    expect(cluster.writes).toEqual(['PUT deployments/web/status']);
  });

  it('adopts an orphan and lets go of what matches no more', async () => {
    const orphan = revision(1, 3, { metadata: { ownerReferences: [] } });
    const stranger = revision(2, 0, { metadata: { labels: { app: 'other' } } });
    const cluster = new MemoryCluster(webDeployment(), orphan, stranger);
    await run(cluster);
    expect(setsOf(cluster).map(({ metadata }) => metadata.ownerReferences?.length)).toEqual([1, 0]);
    expect(webOf(cluster).status.updatedReplicas).toBe(3);
  });

  it('while paused scales and cleans up, and makes no ReplicaSet; resumed it goes on', async () => {
    const cluster = await rolledOut();
    change(cluster, { paused: true, template: templateOf(2), replicas: 5 });
    await rollOut(cluster);
    expect(sizesOf(cluster)).toEqual([5]);
    expect(reasonOf(cluster)).toBe('DeploymentPaused');
    expect(webOf(cluster).status).toMatchObject({ updatedReplicas: 0, availableReplicas: 5, observedGeneration: 2 });
    change(cluster, { paused: false, revisionHistoryLimit: 0 });
    await run(cluster);
    expect(reasonOf(cluster)).toBe('NewReplicaSetCreated');
    await rollOut(cluster);
    expect(sizesOf(cluster)).toEqual([5]);
    expect(setsOf(cluster)[0]?.spec.template.metadata?.annotations).toEqual({ version: '2' });
  });

  it('cleans up while paused, and otherwise when a rollout is complete, not before', async () => {
    const history = [revision(1, 0), revision(2, 0)];
    const spec = { template: templateOf(3), revisionHistoryLimit: 1 };
    const names = (cluster: MemoryCluster) => setsOf(cluster).map(({ metadata }) => metadata.name);
    const paused = new MemoryCluster(webDeployment({ ...spec, paused: true }), ...history, revision(3, 2));
    await run(paused);
    expect(names(paused)).toEqual(['web-2', 'web-3']);
    const rolling = new MemoryCluster(
      webDeployment(spec),
      ...history,
      revision(3, 3, { status: { availableReplicas: 2 } }),
    );
    await run(rolling);
    expect(names(rolling)).toEqual(['web-1', 'web-2', 'web-3']);
    await rollOut(rolling);
    expect(names(rolling)).toEqual(['web-2', 'web-3']);
  });

  it('shares new replicas out in the middle of a rollout, before it takes the rollout further', async () => {
    const strategy = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 3, maxUnavailable: 2 } } as const;
    const cluster = await rolledOut({ replicas: 10, strategy });
    change(cluster, { template: templateOf(2) });
    const stuck = (rs: ReplicaSet): boolean => rs.spec.template.metadata?.annotations?.['version'] === '1';
    await rollOut(cluster, stuck);
    expect(sizesOf(cluster)).toEqual([8, 5]);
    change(cluster, { replicas: 15 });
    await run(cluster);
    expect(sizesOf(cluster)).toEqual([11, 7]);
  });

  it('recreates when the last old pod is gone', async () => {
    const cluster = await rolledOut({ strategy: { type: 'Recreate' } });
    change(cluster, { template: templateOf(2) });
    await run(cluster);
    expect(sizesOf(cluster)).toEqual([0]);
    settle(cluster);
    const [old] = setsOf(cluster);
    const ownerReferences = [
      { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'x', uid: old?.metadata.uid ?? '', controller: true },
    ];
    cluster.objects.push(pod('last', { metadata: { ownerReferences, deletionTimestamp } }));

    // Its ReplicaSet does not count it: nothing would wake the key.
    expect(await run(cluster)).toEqual({ requeueAfterSeconds: 1 });
    Object.assign(old?.status ?? {}, { terminatingReplicas: 1 });
    expect(await run(cluster)).toEqual({});
    expect(sizesOf(cluster)).toEqual([0]);

    cluster.objects.pop();
    cluster.objects.push(pod('ended', { metadata: { ownerReferences }, status: { phase: 'Succeeded' } }));
    await run(cluster);
    expect(sizesOf(cluster)).toEqual([0, 3]);
    await rollOut(cluster);
    expect(reasonOf(cluster)).toBe('NewReplicaSetAvailable');
  });

  it('does not make the new ReplicaSet before the old ones say that their pods are going', async () => {
    const cluster = await rolledOut({ strategy: { type: 'Recreate' } });
    change(cluster, { template: templateOf(2) });
    await run(cluster);
    expect(await run(cluster)).toEqual({});
    expect(sizesOf(cluster)).toEqual([0]);
  });

  it('recreates after old pods that were about to be made, too', async () => {
    const old = revision(1, 3, { status: { replicas: 0 } });
    const cluster = new MemoryCluster(webDeployment({ strategy: { type: 'Recreate' }, template: templateOf(2) }), old);
    await run(cluster);
    expect(sizesOf(cluster)).toEqual([0]);
  });

  it('keeps the status of a Deployment that is being deleted, and nothing else', async () => {
    const deleting = webDeployment({ replicas: 7 }, { metadata: { deletionTimestamp } });
    const cluster = new MemoryCluster(deleting, revision(1, 3));
    await run(cluster);
    expect(cluster.writes).toEqual(['PUT deployments/web/status']);
    expect(webOf(cluster).status.replicas).toBe(3);
  });

  it('warns of an empty selector', async () => {
    const cluster = new MemoryCluster(webDeployment({ selector: {} }), revision(1, 3));
    await run(cluster);
    expect(cluster.writes).toEqual(['POST events', 'PUT deployments/web/status']);
    expect(eventsOf(cluster)).toEqual([
      'Warning SelectingAll This deployment is selecting all pods. A non-empty selector is required.',
    ]);
  });

  it('says in the status and an Event why no ReplicaSet could be made', async () => {
    const cluster = new MemoryCluster(webDeployment());
    cluster.intercept = ({ method, path }) =>
      method === 'POST' && path.includes('/replicasets') ? refusal(403, 'exceeded quota') : undefined;
    await expect(run(cluster)).rejects.toThrow('exceeded quota');
    const message = expect.stringMatching(/^Failed to create new replica set "web-\w+": exceeded quota$/) as unknown;
    expect(conditionOf(webOf(cluster).status, 'Progressing')).toMatchObject({
      status: 'False',
      reason: 'ReplicaSetCreateError',
      message,
    });
    expect(eventsOf(cluster)).toEqual([expect.stringMatching(/^Warning ReplicaSetCreateError Failed to create/)]);
  });

  it('gives up in peace when the namespace is being deleted', async () => {
    const cluster = new MemoryCluster(webDeployment());
    cluster.intercept = () => refusal(403, 'Forbidden', [{ reason: 'NamespaceTerminating' }]);
    expect(await run(cluster)).toEqual({});
    expect(cluster.writes).toEqual(['POST replicasets']);
  });

  it('takes another hash when its name is somebody else’s, and finds its own that it did not know of', async () => {
    const cluster = await rolledOut();
    const [own] = setsOf(cluster);
    const taken = { ...own, metadata: { ...own?.metadata, ownerReferences: [], labels: {} } } as ReplicaSet;
    const other = new MemoryCluster(webDeployment(), taken);
    await expect(run(other)).rejects.toThrow('AlreadyExists');
    expect(webOf(other).status.collisionCount).toBe(1);
    await run(other);
    expect(new Set(setsOf(other).map(({ metadata }) => metadata.name)).size).toBe(2);

    // The answer to its create was lost, and the cache has not seen it.
    const unseen = new MemoryCluster(webDeployment());
    unseen.intercept = ({ method, path }) => {
      if (!path.includes('/replicasets')) return undefined;
      return method === 'POST' ? refusal(409, 'AlreadyExists') : { status: 200, body: JSON.stringify(own) };
    };
    await run(unseen);
    expect(webOf(unseen).metadata.annotations?.[REVISION]).toBe('1');
    expect(webOf(unseen).status.collisionCount).toBeUndefined();
  });

  it('does not scale what somebody else has scaled meanwhile, but does when only its status is new', async () => {
    const cluster = await rolledOut();
    change(cluster, { replicas: 5 });
    const [rs] = setsOf(cluster);
    const meanwhile = (act: () => void) => {
      cluster.intercept = ({ method }) => {
        if (method === 'PATCH') act();
        return undefined;
      };
    };
    meanwhile(() => Object.assign(rs?.spec ?? {}, { replicas: 4 }));
    await expect(run(cluster)).rejects.toThrow('Invalid');
    meanwhile(() => Object.assign(rs?.metadata ?? {}, { resourceVersion: '12345' }));
    await run(cluster);
    expect(sizesOf(cluster)).toEqual([5]);
  });

  it('copies what is new in annotations and minReadySeconds to the current ReplicaSet', async () => {
    const cluster = await rolledOut();
    cluster.requests.length = 0;
    change(cluster, { minReadySeconds: 9 });
    webOf(cluster).metadata.annotations = {
      ...webOf(cluster).metadata.annotations,
      'kubernetes.io/change-cause': 'me',
    };
    await run(cluster);
    expect(setsOf(cluster)[0]).toMatchObject({
      metadata: { annotations: { 'kubernetes.io/change-cause': 'me', [REVISION]: '1' } },
      spec: { minReadySeconds: 9 },
    });
    expect(cluster.writes).toHaveLength(2);
  });

  it('comes to rest in any history, within the surge all the way, and with enough pods available', async () => {
    const value = fc.oneof(
      fc.nat(4),
      fc.nat(100).map((percent) => `${percent}%`),
    );
    const wish = fc.record({
      template: fc.integer({ min: 1, max: 4 }).map(templateOf),
      strategy: fc.tuple(value, value).map(([maxSurge, maxUnavailable]) => ({
        type: 'RollingUpdate' as const,
        rollingUpdate: { maxSurge, maxUnavailable },
      })),
    });
    const steps = fc.array(fc.tuple(wish, fc.nat(6)), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8 }), steps, async (replicas, wishes) => {
        const cluster = await rolledOut({ replicas });
        for (const [spec, runs] of wishes) {
          change(cluster, spec);
          const sum = (of: (rs: ReplicaSet) => number): number =>
            setsOf(cluster).reduce((total, rs) => total + of(rs), 0);
          for (let count = 0; count < runs; count += 1) {
            const { maxSurge, maxUnavailable } = limitsOf(webOf(cluster));
            const before = {
              total: sum(({ spec }) => spec.replicas),
              available: sum(({ status }) => status.availableReplicas ?? 0),
            };
            await run(cluster);
            expect(sum(({ spec }) => spec.replicas)).toBeLessThanOrEqual(Math.max(before.total, replicas + maxSurge));
            const left = sum(({ spec, status }) => Math.min(spec.replicas, status.availableReplicas ?? 0));
            expect(left).toBeGreaterThanOrEqual(Math.min(before.available, replicas - maxUnavailable));
            settle(cluster);
          }
        }
        await rollOut(cluster);
        const version = webOf(cluster).spec.template.metadata?.annotations?.['version'];
        for (const { spec } of setsOf(cluster)) {
          expect(spec.replicas).toBe(spec.template.metadata?.annotations?.['version'] === version ? replicas : 0);
        }
        expect(reasonOf(cluster)).toBe('NewReplicaSetAvailable');
      }),
      { numRuns: 60 },
    );
  }, 30_000);
});
