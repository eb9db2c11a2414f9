import type { ReplicaSet } from '../lib/replica-set.ts';
import {
  condition,
  conditionOf,
  hasDeadline,
  withCondition,
  withNewCondition,
  withoutCondition,
  withProgressing,
} from './conditions.ts';
import type { Deployment, DeploymentStatus, Revisions } from './types.ts';

const PROGRESSING = 'Progressing';
const REPLICA_FAILURE = 'ReplicaFailure';
const COMPLETE = 'NewReplicaSetAvailable';
const TIMED_OUT = 'ProgressDeadlineExceeded';
const PAUSED = 'DeploymentPaused';

/** The time of a paused rollout stands still. A rollout that has timed out stays so. */
export function withPause(deployment: Deployment): Deployment {
  const reason = conditionOf(deployment.status, PROGRESSING)?.reason;
  if (reason === TIMED_OUT || Boolean(deployment.spec.paused) === (reason === PAUSED)) return deployment;
  return deployment.spec.paused
    ? withProgressing(deployment, 'Unknown', PAUSED, 'Deployment is paused')
    : withProgressing(deployment, 'Unknown', 'DeploymentResumed', 'Deployment is resumed');
}

/** Starts the time of a rollout that is not reported yet. */
export function withBeginning(deployment: Deployment, current: ReplicaSet | undefined): Deployment {
  if (!current || conditionOf(deployment.status, PROGRESSING)) return deployment;
  const message = `Found new replica set "${current.metadata.name}"`;
  return withProgressing(deployment, 'True', 'FoundNewReplicaSet', message);
}

/** Whether all pods are of the current revision and available, according to `status`. */
export function isComplete({ spec, metadata }: Deployment, status: DeploymentStatus): boolean {
  const { updatedReplicas = 0, replicas = 0, availableReplicas = 0, observedGeneration = 0 } = status;
  const counts = [updatedReplicas, replicas, availableReplicas];
  return counts.every((count) => count === spec.replicas) && observedGeneration >= (metadata.generation ?? 0);
}

/** The status with the progress of the rollout, compared with `deployment.status` before. */
export function withProgress(
  deployment: Deployment,
  status: DeploymentStatus,
  revisions: Revisions,
  now: number,
): DeploymentStatus {
  const told = hasDeadline(deployment)
    ? withVerdict(deployment, status, revisions.current, now)
    : withoutCondition(status, PROGRESSING);
  return withFailure(told, revisions);
}

function withVerdict(
  deployment: Deployment,
  status: DeploymentStatus,
  current: ReplicaSet | undefined,
  now: number,
): DeploymentStatus {
  const before = conditionOf(deployment.status, PROGRESSING);
  // No rollout is under way, so a lost pod is no lack of progress.
  if (status.replicas === status.updatedReplicas && before?.reason === COMPLETE) return status;
  const what = current ? `ReplicaSet "${current.metadata.name}"` : `Deployment "${deployment.metadata.name}"`;
  if (isComplete(deployment, status)) {
    return withCondition(status, condition(PROGRESSING, 'True', COMPLETE, `${what} has successfully progressed.`, now));
  }
  if (hasProgressed(deployment.status, status)) {
    // Always a new condition, since the deadline counts from its update time.
    return withNewCondition(
      status,
      condition(PROGRESSING, 'True', 'ReplicaSetUpdated', `${what} is progressing.`, now),
    );
  }
  if (deadlineOf(deployment, status) >= now) return status;
  return withCondition(status, condition(PROGRESSING, 'False', TIMED_OUT, `${what} has timed out progressing.`, now));
}

/** There are more new pods, fewer old ones, or more that are ready or available. */
function hasProgressed(before: DeploymentStatus, after: DeploymentStatus): boolean {
  const [old, next] = [before, after].map(
    ({ replicas = 0, updatedReplicas = 0, readyReplicas = 0, availableReplicas = 0 }) => {
      return [updatedReplicas, updatedReplicas - replicas, readyReplicas, availableReplicas];
    },
  );
  return next?.some((count, index) => count > (old?.[index] ?? 0)) ?? false;
}

/** When a stalled rollout times out, in milliseconds; Infinity when it cannot. */
function deadlineOf({ spec }: Deployment, status: DeploymentStatus): number {
  const progress = conditionOf(status, PROGRESSING);
  if (!progress || spec.progressDeadlineSeconds === undefined || progress.reason === COMPLETE) return Infinity;
  return Date.parse(progress.lastUpdateTime ?? '') + spec.progressDeadlineSeconds * 1000;
}

/** Seconds until the rollout must be checked for a timeout; undefined when it cannot time out. */
export function secondsToDeadline(deployment: Deployment, status: DeploymentStatus, now: number): number | undefined {
  const deadline = deadlineOf(deployment, status);
  const settled = isComplete(deployment, status) || conditionOf(status, PROGRESSING)?.reason === TIMED_OUT;
  if (settled || !hasDeadline(deployment) || !Number.isFinite(deadline)) return undefined;
  // Plus one, because the apiserver cuts the fraction off the condition's time.
  return Math.max(0, deadline - now) / 1000 + 1;
}

/** Adds the failure of a ReplicaSet, preferably the current one's. */
function withFailure(status: DeploymentStatus, { current, old }: Revisions): DeploymentStatus {
  const candidates = current ? [current, ...old] : old;
  const failures = candidates
    .flatMap((rs) => rs.status.conditions ?? [])
    .filter(({ type }) => type === REPLICA_FAILURE);
  const [failure] = failures;
  if (!failure) return withoutCondition(status, REPLICA_FAILURE);
  return withCondition(status, { ...failure, lastUpdateTime: failure.lastTransitionTime ?? null });
}
