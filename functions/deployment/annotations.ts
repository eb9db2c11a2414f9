import type { ReplicaSet } from '../lib/replica-set.ts';
import { limitsOf } from './limits.ts';
import type { Deployment } from './types.ts';

/** Which revision a ReplicaSet is; of a Deployment, which is its current one. kubectl's history and undo go by it. */
export const REVISION = 'deployment.kubernetes.io/revision';
/** Which revisions the ReplicaSet was before, `1,3`. */
const REVISION_HISTORY = 'deployment.kubernetes.io/revision-history';
/** How many replicas its Deployment wanted when it was last scaled, by which a change of that is noticed. */
const DESIRED_REPLICAS = 'deployment.kubernetes.io/desired-replicas';
/** And how many it allowed in all, of which the ReplicaSet has a share. */
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

/** An int64, which a number would round. 0 when it has none; undefined when it cannot be read. */
export function revisionOf({ metadata: { annotations = {} } }: ReplicaSet): bigint | undefined {
  const text = annotations[REVISION] || '0';
  if (!/^[+-]?\d+$/.test(text)) return undefined;
  const revision = BigInt(text);
  return BigInt.asIntN(64, revision) === revision ? revision : undefined;
}

/** What the current ReplicaSet's annotations lack: those of the Deployment, and the revision after all old ones. */
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

/** It is left as it is when the newer ones were deleted, and when it cannot be read. */
function missingRevision(old: readonly ReplicaSet[], current: ReplicaSet | undefined): Record<string, string> {
  const latest = old.map((rs) => revisionOf(rs) ?? 0n).reduce((a, b) => (a > b ? a : b), 0n);
  const next = latest + 1n;
  const own = current ? revisionOf(current) : 0n;
  if (own === undefined || own >= next) return {};
  const { [REVISION]: before, [REVISION_HISTORY]: history } = current?.metadata.annotations ?? {};
  return { [REVISION]: String(next), ...(before ? { [REVISION_HISTORY]: extended(history, before) } : {}) };
}

/** With the revision at its end, and as many of those before it as there is room for. */
function extended(history: string | undefined, revision: string): string {
  const revisions = history ? [...history.split(','), revision] : [revision];
  while (revisions.join(',').length > MAX_HISTORY_LENGTH) revisions.shift();
  return revisions.join(',');
}

/** What a ReplicaSet that is scaled remembers of its Deployment. */
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

/** Undefined when it is not there, or not a 32-bit count. */
function countIn({ metadata: { annotations = {} } }: ReplicaSet, name: string): number | undefined {
  const text = annotations[name] ?? '';
  return /^\d+$/.test(text) && Number(text) < 2 ** 31 ? Number(text) : undefined;
}
