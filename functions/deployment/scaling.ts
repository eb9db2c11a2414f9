import type { ReplicaSet } from '../lib/replica-set.ts';
import { desiredReplicas, maxReplicas } from './annotations.ts';
import { limitsOf } from './limits.ts';
import { active, allOf, byAge, totalReplicas } from './revisions.ts';
import type { Deployment, Revisions, Sizes } from './types.ts';

/** Whether the Deployment's replicas have changed since the ReplicaSets were last scaled. */
export function wasResized(deployment: Deployment, revisions: Revisions): boolean {
  return active(allOf(revisions)).some(
    (rs) => (desiredReplicas(rs) ?? deployment.spec.replicas) !== deployment.spec.replicas,
  );
}

/**
 * Distributes a new number of replicas over the revisions, with any strategy, without advancing a rollout. While
 * several revisions have pods each gets its share, so that a bad one does not grow by more than its own. A size in the
 * result may be the present one: the ReplicaSet then gets its annotations only.
 */
export function scalingSizes(deployment: Deployment, { current, old }: Revisions): Sizes {
  const { replicas, strategy } = deployment.spec;
  const several = active(allOf({ current, old }));
  const resized = wasResized(deployment, { current, old });
  if (several.length <= 1) {
    const only = several[0] ?? current ?? old.at(-1);
    // A new surge of a paused Deployment is no reason to write.
    return only && (resized || only.spec.replicas !== replicas) ? [{ rs: only, replicas }] : [];
  }
  if (current && isSaturated(deployment, current)) return active(old).map((rs) => ({ rs, replicas: 0 }));
  // Recreate has no shares. The sizes stay, but are stored again; otherwise the Deployment would seem resized for ever.
  if (strategy.type === 'Recreate') return resized ? several.map((rs) => ({ rs, replicas: rs.spec.replicas })) : [];
  return proportionalSizes(deployment, several);
}

/** All desired pods belong to the current revision, and are available. */
function isSaturated({ spec: { replicas } }: Deployment, current: ReplicaSet): boolean {
  return [current.spec.replicas, desiredReplicas(current), current.status.availableReplicas ?? 0].every(
    (count) => count === replicas,
  );
}

/**
 * Distributes the allowed replicas (surge included) over the ReplicaSets, in proportion to their shares of the replicas
 * that were allowed before.
 */
export function proportionalSizes(deployment: Deployment, replicaSets: readonly ReplicaSet[]): Sizes {
  const { replicas } = deployment.spec;
  const allowed = replicas === 0 ? 0 : replicas + limitsOf(deployment).maxSurge;
  let left = allowed - totalReplicas(replicaSets);
  const grow = left > 0;
  // With equal sizes the newer grow first, and the older shrink first.
  const bySize = replicaSets.toSorted(
    (a, b) => b.spec.replicas - a.spec.replicas || (grow ? byAge(b, a) : byAge(a, b)),
  );
  const sizes = bySize.map((rs) => {
    const change =
      left === 0 ? 0 : (grow ? Math.min : Math.max)(left, shareOf(deployment, rs, allowed) - rs.spec.replicas);
    left -= change;
    return { rs, replicas: rs.spec.replicas + change };
  });
  // The largest one gets the remainder of the rounding.
  return sizes.map((size, index) => (index === 0 ? { ...size, replicas: Math.max(0, size.replicas + left) } : size));
}

function shareOf(deployment: Deployment, rs: ReplicaSet, allowed: number): number {
  if (allowed === 0) return 0;
  // Without the annotation, use the current replicas.
  const before = maxReplicas(rs) || deployment.status.replicas;
  return before ? Math.round((rs.spec.replicas * allowed) / before) : rs.spec.replicas;
}
