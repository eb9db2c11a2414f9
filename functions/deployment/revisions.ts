import type { ReplicaSet } from '../lib/replica-set.ts';
import { sameTemplate } from './template.ts';
import type { Deployment, Revisions } from './types.ts';

/** If several ReplicaSets have the current template, the oldest is the current one; the others count as old. */
export function revisionsOf(deployment: Deployment, replicaSets: readonly ReplicaSet[]): Revisions {
  const sorted = replicaSets.toSorted(byAge);
  const current = sorted.find((rs) => sameTemplate(rs.spec.template, deployment.spec.template));
  return { current, old: sorted.filter((rs) => rs !== current) };
}

export function allOf({ current, old }: Revisions): readonly ReplicaSet[] {
  return current ? [...old, current] : old;
}

/** ReplicaSets that should have pods. */
export function active(replicaSets: readonly ReplicaSet[]): ReplicaSet[] {
  return replicaSets.filter((rs) => rs.spec.replicas > 0);
}

/** The desired pods of all ReplicaSets. */
export function totalReplicas(replicaSets: readonly ReplicaSet[]): number {
  return replicaSets.reduce((sum, rs) => sum + rs.spec.replicas, 0);
}

/** The older first; with the same second, by name. */
export function byAge(a: ReplicaSet, b: ReplicaSet): number {
  // RFC 3339 in UTC: the order of the text is that of time.
  return (
    compare(a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? '') ||
    compare(a.metadata.name, b.metadata.name)
  );
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
