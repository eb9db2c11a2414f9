import type { Event } from 'levelhook/function/kinds';
import { type GivenObject, MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { ReplicaSet } from '../lib/replica-set.ts';
import { replicaSet } from '../lib/testing.ts';
import { deployment } from './controller.ts';
import { byAge } from './revisions.ts';
import { Deployment, type Sizes } from './types.ts';

// For this folder's tests: the Deployment test/web, its ReplicaSets, and common helpers.

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

/** A template that differs by its number. */
export function templateOf(version: number): Deployment['spec']['template'] {
  return { metadata: { labels: { app: 'web' }, annotations: { version: String(version) } }, spec: {} };
}

/** A ReplicaSet of the Deployment: `replicas` of the template `version`, all available by default. */
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

const key = { namespace: 'test', name: 'web' };

/** Each object that it creates is a second younger than the one before, and all are younger than `revision`s. */
export function apiserverWith(...objects: GivenObject[]): MemoryApiserver {
  let now = Date.UTC(2026, 0, 2);
  return new MemoryApiserver({ objects, now: () => (now += 1000) });
}

/** A run with any result. */
export const attempt = (apiserver: MemoryApiserver) => runReconciler(deployment, key, { apiserver });

/** A run that succeeds. */
export async function run(apiserver: MemoryApiserver) {
  const { outcome, error, writes } = await attempt(apiserver);
  if (outcome.status !== 'done') throw new Error(`the run came to ${JSON.stringify(outcome)}`, { cause: error });
  return { requeueAfterSeconds: outcome.requeueAfterSeconds, writes };
}

export function webOf(apiserver: MemoryApiserver): Deployment {
  const found = apiserver.object(Deployment, key);
  if (!found) throw new Error('the Deployment is gone');
  return found;
}

/** The oldest first. */
export function setsOf(apiserver: MemoryApiserver): ReplicaSet[] {
  return apiserver.objects(ReplicaSet).toSorted(byAge);
}

/** Events at their first occurrence, in this order. */
export function eventsOf(apiserver: MemoryApiserver): string[] {
  const creates = apiserver.writes.filter(({ verb, resource }) => verb === 'create' && resource === 'events');
  return creates.map(({ body }) => {
    const { type, reason, message } = body as Event;
    return `${type} ${reason} ${message}`;
  });
}

/**
 * Acts as the replicaset controller and the nodes: all pods exist at once, and those of `isHealthy` ones are available.
 */
export function settle(apiserver: MemoryApiserver, isHealthy: (rs: ReplicaSet) => boolean = () => true): void {
  for (const rs of apiserver.objects(ReplicaSet)) {
    const { replicas } = rs.spec;
    const healthy = isHealthy(rs) ? replicas : Math.min(replicas, rs.status.availableReplicas ?? 0);
    const status = {
      replicas,
      readyReplicas: healthy,
      availableReplicas: healthy,
      terminatingReplicas: 0,
      observedGeneration: rs.metadata.generation ?? 0,
    };
    apiserver.put({ ...rs, status });
  }
}

/** Alternates runs and `settle` until a run writes nothing. */
export async function rollOut(apiserver: MemoryApiserver, isHealthy?: (rs: ReplicaSet) => boolean): Promise<void> {
  for (let runs = 0; runs < 200; runs += 1) {
    settle(apiserver, isHealthy);
    const { writes } = await run(apiserver);
    if (writes.length === 0) return;
  }
  throw new Error('it never comes to rest');
}
