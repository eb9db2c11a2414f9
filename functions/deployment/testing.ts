import type { Event } from '../lib/events.ts';
import type { MemoryCluster } from '../lib/memory-cluster.ts';
import type { ReplicaSet } from '../lib/replica-set.ts';
import { replicaSet } from '../lib/testing.ts';
import { deployment } from './controller.ts';
import type { Deployment, Sizes } from './types.ts';

// For this folder's tests: the Deployment test/web, its ReplicaSets, and what is asked of them again and again.

const owner = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  name: 'web',
  uid: 'deployment-uid',
  controller: true,
  blockOwnerDeletion: true,
};

export function webDeployment(
  spec: Partial<Deployment['spec']> = {},
  parts: { metadata?: Partial<Deployment['metadata']>; status?: Deployment['status'] } = {},
): Deployment {
  const metadata = { name: 'web', namespace: 'test', uid: 'deployment-uid', resourceVersion: '1', generation: 1 };
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { ...metadata, ...parts.metadata },
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: 'web' } },
      template: templateOf(1),
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: '25%', maxUnavailable: '25%' } },
      revisionHistoryLimit: 10,
      progressDeadlineSeconds: 600,
      ...spec,
    },
    status: parts.status ?? {},
  };
}

/** Templates that differ, by a number. */
export function templateOf(version: number): Deployment['spec']['template'] {
  return { metadata: { labels: { app: 'web' }, annotations: { version: String(version) } }, spec: {} };
}

/** A ReplicaSet of the Deployment: with `replicas` of the template `version`, all available if nothing else is said. */
export function revision(
  version: number,
  replicas: number,
  parts: { annotations?: Record<string, string>; metadata?: object; status?: Partial<ReplicaSet['status']> } = {},
): ReplicaSet {
  const rs = replicaSet(
    { replicas, template: templateOf(version) },
    {
      name: `web-${version}`,
      uid: `rs-${version}`,
      labels: { app: 'web' },
      ownerReferences: [owner],
      annotations: { 'deployment.kubernetes.io/revision': String(version), ...parts.annotations },
      creationTimestamp: new Date(Date.UTC(2026, 0, 1, 0, version)).toISOString(),
      ...parts.metadata,
    },
  );
  const counts = { replicas, readyReplicas: replicas, availableReplicas: replicas, terminatingReplicas: 0 };
  return { ...rs, status: { ...counts, observedGeneration: 1, ...parts.status } };
}

/** `{ 'web-1': 3 }` */
export function byName(sizes: Sizes): Record<string, number> {
  return Object.fromEntries(sizes.map(({ rs, replicas }) => [rs.metadata.name, replicas]));
}

export const run = (cluster: MemoryCluster) =>
  deployment.run({ namespace: 'test', name: 'web', attempt: 1, reasons: [] }, cluster.context());

export function webOf(cluster: MemoryCluster): Deployment {
  const [found] = cluster.all<Deployment>('Deployment');
  if (!found) throw new Error('the Deployment is gone');
  return found;
}

export function eventsOf(cluster: MemoryCluster): string[] {
  return cluster.all<Event>('Event').map(({ type, reason, message }) => `${type} ${reason} ${message}`);
}

/** What the replicaset controller and the nodes do: at once all pods are as wanted, and `isHealthy` ones available. */
export function settle(cluster: MemoryCluster, isHealthy: (rs: ReplicaSet) => boolean = () => true): void {
  for (const rs of cluster.all<ReplicaSet>('ReplicaSet')) {
    const { replicas } = rs.spec;
    const healthy = isHealthy(rs) ? replicas : Math.min(replicas, rs.status.availableReplicas ?? 0);
    rs.status = {
      replicas,
      readyReplicas: healthy,
      availableReplicas: healthy,
      terminatingReplicas: 0,
      observedGeneration: rs.metadata.generation ?? 0,
    };
  }
}

/** Lets all pods come and go, and runs, until a run writes nothing. */
export async function rollOut(cluster: MemoryCluster, isHealthy?: (rs: ReplicaSet) => boolean): Promise<void> {
  for (let writes = -1; cluster.writes.length !== writes;) {
    if (writes > 1000) throw new Error('it never comes to rest');
    writes = cluster.writes.length;
    settle(cluster, isHealthy);
    await run(cluster);
  }
}
