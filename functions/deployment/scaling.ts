import type { ReplicaSet } from '../lib/replica-set.ts';
import { desiredReplicas, maxReplicas } from './annotations.ts';
import { limitsOf } from './limits.ts';
import { active, allOf, byAge, totalReplicas } from './revisions.ts';
import type { Deployment, Revisions, Sizes } from './types.ts';

/** Whether another number of replicas is wanted than when the ReplicaSets were last scaled. */
export function wasResized(deployment: Deployment, revisions: Revisions): boolean {
  return active(allOf(revisions)).some(
    (rs) => (desiredReplicas(rs) ?? deployment.spec.replicas) !== deployment.spec.replicas,
  );
}

/**
 * The sizes that make up a new number of replicas, whatever the strategy: no rollout is taken further by it. While
 * several revisions have pods each gets its share, so that a bad one does not grow by more than its own.
 */
export function scalingSizes(deployment: Deployment, { current, old }: Revisions): Sizes {
  const { replicas, strategy } = deployment.spec;
  const several = active(allOf({ current, old }));
  if (several.length <= 1) {
    const only = several[0] ?? current ?? old.at(-1);
    return only ? [{ rs: only, replicas }] : [];
  }
  if (current && isSaturated(deployment, current)) return active(old).map((rs) => ({ rs, replicas: 0 }));
  // Recreate has no shares. As they are: noted as scaled, or their Deployment would seem resized for ever.
  if (strategy.type === 'Recreate') return several.map((rs) => ({ rs, replicas: rs.spec.replicas }));
  return proportionalSizes(deployment, several);
}

/** All of the wanted pods are the current revision's, and are available. */
function isSaturated({ spec: { replicas } }: Deployment, current: ReplicaSet): boolean {
  return [current.spec.replicas, desiredReplicas(current), current.status.availableReplicas ?? 0].every(
    (count) => count === replicas,
  );
}

/** Together with the surge as many as are allowed, each as many as is its part of what was allowed before. */
export function proportionalSizes(deployment: Deployment, replicaSets: readonly ReplicaSet[]): Sizes {
  const { replicas } = deployment.spec;
  const allowed = replicas === 0 ? 0 : replicas + limitsOf(deployment).maxSurge;
  let left = allowed - totalReplicas(replicaSets);
  const grow = left > 0;
  // Of equal ones the newer grow first, the older shrink first.
  const bySize = replicaSets.toSorted(
    (a, b) => b.spec.replicas - a.spec.replicas || (grow ? byAge(b, a) : byAge(a, b)),
  );
  const sizes = bySize.map((rs) => {
    const change =
      left === 0 ? 0 : (grow ? Math.min : Math.max)(left, shareOf(deployment, rs, allowed) - rs.spec.replicas);
    left -= change;
    return { rs, replicas: rs.spec.replicas + change };
  });
  // What the rounding has left over is the largest one's.
  return sizes.map((size, index) => (index === 0 ? { ...size, replicas: Math.max(0, size.replicas + left) } : size));
}

function shareOf(deployment: Deployment, rs: ReplicaSet, allowed: number): number {
  if (allowed === 0) return 0;
  // Without a note of what was allowed, what there is.
  const before = maxReplicas(rs) || deployment.status.replicas;
  return before ? Math.round((rs.spec.replicas * allowed) / before) : rs.spec.replicas;
}
