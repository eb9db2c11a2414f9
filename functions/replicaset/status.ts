import { type ApiWriter, keyOf, matchesLabels } from 'levelhook/function';
import type { Condition } from '../lib/condition.ts';
import type { Pod } from '../lib/pod.ts';
import { ReplicaSet, type ReplicaSetStatus } from '../lib/replica-set.ts';
import { isAvailable, isReady, readySince } from './pods.ts';

const REPLICA_FAILURE = 'ReplicaFailure';

export interface Observed {
  /** The ReplicaSet's own pods, from before scaling. */
  readonly active: readonly Pod[];
  readonly terminating: readonly Pod[];
  /** The failure of scaling, if there was one. */
  readonly failure?: Error | undefined;
  readonly now: number;
}

export function nextStatus(rs: ReplicaSet, observed: Observed): ReplicaSetStatus {
  const { active, terminating, now } = observed;
  const { template, minReadySeconds = 0 } = rs.spec;
  const templateLabels = { matchLabels: template.metadata?.labels ?? {} };
  return {
    ...rs.status,
    replicas: active.length,
    fullyLabeledReplicas: active.filter((pod) => matchesLabels(templateLabels, pod.metadata.labels)).length,
    readyReplicas: active.filter(isReady).length,
    availableReplicas: active.filter((pod) => isAvailable(pod, minReadySeconds, now)).length,
    terminatingReplicas: terminating.length,
    observedGeneration: rs.metadata.generation ?? 0,
    conditions: nextConditions(rs, observed),
  };
}

/** Sets ReplicaFailure while scaling fails, and keeps it from the first failure on; all other conditions stay. */
function nextConditions(rs: ReplicaSet, { active, failure, now }: Observed): Condition[] {
  const conditions = rs.status.conditions ?? [];
  if (!failure) return conditions.filter(({ type }) => type !== REPLICA_FAILURE);
  if (conditions.some(({ type }) => type === REPLICA_FAILURE)) return conditions;
  const reason = active.length < rs.spec.replicas ? 'FailedCreate' : 'FailedDelete';
  const lastTransitionTime = new Date(now).toISOString();
  return [
    ...conditions,
    { type: REPLICA_FAILURE, status: 'True', lastTransitionTime, reason, message: failure.message },
  ];
}

/** Writes the status if it is new. If that fails, writes it once more on the live ReplicaSet. */
export async function writeStatus(rs: ReplicaSet, status: ReplicaSetStatus, api: ApiWriter): Promise<void> {
  if (isSame(rs.status, status)) return;
  try {
    await api.replace(ReplicaSet, { ...rs, status }, 'status');
  } catch {
    const fresh = await api.get(ReplicaSet, keyOf(rs));
    if (fresh?.metadata.uid !== rs.metadata.uid) return;
    // The status keeps the generation that it was made for, because a later change has not been acted on.
    await api.replace(ReplicaSet, { ...fresh, status }, 'status');
  }
}

/** The apiserver leaves out some zeros, but never terminatingReplicas once it was written. */
function isSame(a: ReplicaSetStatus, b: ReplicaSetStatus): boolean {
  return (
    a.replicas === b.replicas &&
    (a.fullyLabeledReplicas ?? 0) === (b.fullyLabeledReplicas ?? 0) &&
    (a.readyReplicas ?? 0) === (b.readyReplicas ?? 0) &&
    (a.availableReplicas ?? 0) === (b.availableReplicas ?? 0) &&
    a.terminatingReplicas === b.terminatingReplicas &&
    a.observedGeneration === b.observedGeneration &&
    // A condition is added or removed, never changed.
    (a.conditions ?? []).length === (b.conditions ?? []).length
  );
}

/** Seconds until the next pod becomes available; undefined when all ready pods are available. */
export function secondsToNextAvailable(
  rs: ReplicaSet,
  status: ReplicaSetStatus,
  active: readonly Pod[],
  now: number,
): number | undefined {
  const { minReadySeconds = 0 } = rs.spec;
  if (minReadySeconds === 0 || status.readyReplicas === status.availableReplicas) return undefined;
  const waits = active
    .map((pod) => (readySince(pod) ?? Number.NaN) + minReadySeconds * 1000 - now)
    .filter((wait) => wait > 0);
  return waits.length === 0 ? minReadySeconds : Math.min(...waits) / 1000;
}
