import { type ApiWriter, equal } from 'levelhook/function';
import type { ReplicaSet, ReplicaSetStatus } from '../lib/replica-set.ts';
import { REVISION } from './annotations.ts';
import { condition, withCondition } from './conditions.ts';
import { limitsOf } from './limits.ts';
import { allOf, totalReplicas } from './revisions.ts';
import { Deployment, type DeploymentStatus, type Revisions } from './types.ts';

/** The counts of the ReplicaSets, and whether enough pods are available. */
export function countedStatus(deployment: Deployment, revisions: Revisions, now: number): DeploymentStatus {
  const all = allOf(revisions);
  const availableReplicas = sumOf(all, 'availableReplicas');
  const { terminatingReplicas: _, ...before } = deployment.status;
  const terminatingReplicas = terminatingOf(all);
  const status = {
    ...before,
    observedGeneration: deployment.metadata.generation ?? 0,
    replicas: sumOf(all, 'replicas'),
    updatedReplicas: revisions.current?.status.replicas ?? 0,
    readyReplicas: sumOf(all, 'readyReplicas'),
    availableReplicas,
    // While pods are terminating, there may be more of them than desired.
    unavailableReplicas: Math.max(0, totalReplicas(all) - availableReplicas),
    ...(terminatingReplicas === undefined ? {} : { terminatingReplicas }),
  };
  const enough = availableReplicas >= deployment.spec.replicas - limitsOf(deployment).maxUnavailable;
  const next = enough
    ? condition('Available', 'True', 'MinimumReplicasAvailable', 'Deployment has minimum availability.', now)
    : condition(
        'Available',
        'False',
        'MinimumReplicasUnavailable',
        'Deployment does not have minimum availability.',
        now,
      );
  return withCondition(status, next);
}

type Count = 'replicas' | 'readyReplicas' | 'availableReplicas';

function sumOf(replicaSets: readonly ReplicaSet[], count: Count): number {
  return replicaSets.reduce((sum, { status }) => sum + (status[count] ?? 0), 0);
}

/** Undefined when a ReplicaSet does not count them. A new ReplicaSet has none yet. */
function terminatingOf(replicaSets: readonly ReplicaSet[]): number | undefined {
  const counts = replicaSets.map(({ status }) => status.terminatingReplicas ?? (wasObserved(status) ? Number.NaN : 0));
  const sum = counts.reduce((total, count) => total + count, 0);
  return Number.isNaN(sum) ? undefined : sum;
}

function wasObserved({ observedGeneration = 0 }: ReplicaSetStatus): boolean {
  return observedGeneration > 0;
}

/** The Deployment gets the revision of its current ReplicaSet, an empty one where that has none. */
export function withRevision(deployment: Deployment, current: ReplicaSet | undefined): Deployment {
  const { metadata } = deployment;
  const revision = current?.metadata.annotations?.[REVISION] ?? '';
  if (!current || revision === (metadata.annotations?.[REVISION] ?? '')) return deployment;
  return { ...deployment, metadata: { ...metadata, annotations: { ...metadata.annotations, [REVISION]: revision } } };
}

/** Writes the status, and the annotation with the revision, if they are new. */
export async function writeStatus(before: Deployment, next: Deployment, api: ApiWriter): Promise<void> {
  if (!equal(contentOf(before), contentOf(next))) await api.replace(Deployment, next, 'status');
}

/**
 * The parts that this controller writes. The apiserver leaves out zeros, but never terminatingReplicas once it was
 * written.
 */
function contentOf({ metadata, status }: Deployment): readonly unknown[] {
  return [
    metadata.annotations?.[REVISION],
    status.observedGeneration ?? 0,
    status.replicas ?? 0,
    status.updatedReplicas ?? 0,
    status.readyReplicas ?? 0,
    status.availableReplicas ?? 0,
    status.unavailableReplicas ?? 0,
    status.terminatingReplicas,
    status.collisionCount ?? 0,
    status.conditions,
  ];
}
