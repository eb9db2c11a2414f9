import type { ReplicaSet } from '../lib/replica-set.ts';
import { limitsOf } from './limits.ts';
import type { Deployment } from './types.ts';

/** The revision of a ReplicaSet; on a Deployment, its current revision. kubectl's history and undo use it. */
export const REVISION = 'deployment.kubernetes.io/revision';
/** Earlier revisions of the ReplicaSet, `1,3`. */
const REVISION_HISTORY = 'deployment.kubernetes.io/revision-history';
/**
 * The replicas of the Deployment when the ReplicaSet was last scaled; a difference means that the Deployment was
 * resized.
 */
const DESIRED_REPLICAS = 'deployment.kubernetes.io/desired-replicas';
/** The replicas that the Deployment allowed in all at that time; the ReplicaSet has a share of them. */
const MAX_REPLICAS = 'deployment.kubernetes.io/max-replicas';

const MAX_HISTORY_LENGTH = 2000;
const NOT_COPIED = new Set([
  'kubectl.kubernetes.io/last-applied-configuration',
  REVISION,
  REVISION_HISTORY,
  DESIRED_REPLICAS,
  MAX_REPLICAS,
  'deprecated.deployment.rollback.to',
]);

/** An int64, which a number would round. 0 when there is none; undefined when it is invalid. */
export function revisionOf({ metadata: { annotations = {} } }: ReplicaSet): bigint | undefined {
  const text = annotations[REVISION] || '0';
  if (!/^[+-]?\d+$/.test(text)) return undefined;
  const revision = BigInt(text);
  return BigInt.asIntN(64, revision) === revision ? revision : undefined;
}

/** Annotations that the current ReplicaSet lacks: the Deployment's, and the revision after all old ones. */
export function missingAnnotations(
  deployment: Deployment,
  old: readonly ReplicaSet[],
  current?: ReplicaSet,
): Record<string, string> {
  const has = current?.metadata.annotations ?? {};
  const wanted = Object.entries(deployment.metadata.annotations ?? {}).filter(([name]) => !NOT_COPIED.has(name));
  const missing = wanted.filter(([name, value]) => has[name] !== value);
  return { ...Object.fromEntries(missing), ...missingRevision(old, current) };
}

/** Keeps the revision when newer ReplicaSets were deleted, and when it is invalid. */
function missingRevision(old: readonly ReplicaSet[], current: ReplicaSet | undefined): Record<string, string> {
  const latest = old.map((rs) => revisionOf(rs) ?? 0n).reduce((a, b) => (a > b ? a : b), 0n);
  // As int64 in Go: after the largest number comes the smallest, which no ReplicaSet gets.
  const next = BigInt.asIntN(64, latest + 1n);
  const own = current ? revisionOf(current) : 0n;
  if (own === undefined || own >= next) return {};
  const { [REVISION]: before, [REVISION_HISTORY]: history } = current?.metadata.annotations ?? {};
  return { [REVISION]: String(next), ...(before ? { [REVISION_HISTORY]: extended(history, before) } : {}) };
}

/** Appends the revision to the history, and drops the oldest ones when there is no room. */
function extended(history: string | undefined, revision: string): string {
  const revisions = history ? [...history.split(','), revision] : [revision];
  while (revisions.join(',').length > MAX_HISTORY_LENGTH) revisions.shift();
  return revisions.join(',');
}

/** The Deployment's sizes, to be stored on a ReplicaSet that is scaled. */
export function scaleAnnotations(deployment: Deployment): Record<string, string> {
  const { replicas } = deployment.spec;
  return {
    [DESIRED_REPLICAS]: String(replicas),
    [MAX_REPLICAS]: String(replicas + limitsOf(deployment).maxSurge),
  };
}

export function desiredReplicas(rs: ReplicaSet): number | undefined {
  return countIn(rs, DESIRED_REPLICAS);
}

export function maxReplicas(rs: ReplicaSet): number | undefined {
  return countIn(rs, MAX_REPLICAS);
}

/** Undefined when it is missing, or not a 32-bit count. */
function countIn({ metadata: { annotations = {} } }: ReplicaSet, name: string): number | undefined {
  const text = annotations[name] ?? '';
  return /^\d+$/.test(text) && Number(text) < 2 ** 31 ? Number(text) : undefined;
}
