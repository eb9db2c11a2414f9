import type { Deployment, DeploymentCondition, DeploymentStatus } from './types.ts';

/** The API's number for "never". */
const NEVER = 2 ** 31 - 1;

export function conditionOf(status: DeploymentStatus, type: string): DeploymentCondition | undefined {
  return status.conditions?.find((condition) => condition.type === type);
}

export function condition(
  type: string,
  status: DeploymentCondition['status'],
  reason: string,
  message: string,
  now: number,
): DeploymentCondition {
  const time = new Date(now).toISOString();
  return { type, status, reason, message, lastUpdateTime: time, lastTransitionTime: time };
}

/** Sets the condition, unless one with the same status and reason exists. */
export function withCondition(status: DeploymentStatus, next: DeploymentCondition): DeploymentStatus {
  const before = conditionOf(status, next.type);
  return before?.status === next.status && before.reason === next.reason ? status : withNewCondition(status, next);
}

/** Sets the condition, even if only its time is new. */
export function withNewCondition(status: DeploymentStatus, next: DeploymentCondition): DeploymentStatus {
  const before = conditionOf(status, next.type);
  const { lastTransitionTime = null } = before?.status === next.status ? before : next;
  const { conditions = [] } = withoutCondition(status, next.type);
  return { ...status, conditions: [...conditions, { ...next, lastTransitionTime }] };
}

export function withoutCondition(status: DeploymentStatus, type: string): DeploymentStatus {
  return { ...status, conditions: (status.conditions ?? []).filter((condition) => condition.type !== type) };
}

/** Whether the object limits how long a rollout may stall; only then is its progress reported. */
export function hasDeadline({ spec: { progressDeadlineSeconds = NEVER } }: Deployment): boolean {
  return progressDeadlineSeconds !== NEVER;
}

/** The Deployment with a progress condition, if its progress is reported. */
export function withProgressing(
  deployment: Deployment,
  status: DeploymentCondition['status'],
  reason: string,
  message: string,
): Deployment {
  if (!hasDeadline(deployment)) return deployment;
  const next = condition('Progressing', status, reason, message, Date.now());
  return { ...deployment, status: withCondition(deployment.status, next) };
}
