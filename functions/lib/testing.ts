import type { OwnerReference } from 'levelhook/function';
import type { Pod } from './pod.ts';
import type { ReplicaSet } from './replica-set.ts';

// Objects for the tests of the controllers: the ReplicaSet test/web and its pods.

export function replicaSet(spec: Partial<ReplicaSet['spec']> = {}, metadata: Partial<ReplicaSet['metadata']> = {}) {
  const labels = { app: 'web' };
  return {
    apiVersion: 'apps/v1',
    kind: 'ReplicaSet',
    metadata: { name: 'web', namespace: 'test', uid: 'rs-uid', resourceVersion: '1', generation: 1, ...metadata },
    spec: { replicas: 0, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: {} }, ...spec },
    status: { replicas: 0 },
  } satisfies ReplicaSet as ReplicaSet;
}

export const ownedByWeb: OwnerReference = {
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  name: 'web',
  uid: 'rs-uid',
  controller: true,
  blockOwnerDeletion: true,
};

export function pod(name: string, parts: { metadata?: object; spec?: object; status?: object } = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace: 'test',
      uid: `${name}-uid`,
      resourceVersion: '1',
      labels: { app: 'web' },
      ownerReferences: [ownedByWeb],
      ...parts.metadata,
    },
    spec: { ...parts.spec },
    status: { phase: 'Running', ...parts.status },
  };
}

export function readyFrom(lastTransitionTime: string | null) {
  return { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime }] };
}
