import type { ReplicaSet } from '../lib/replica-set.ts';
import { limitsOf } from './limits.ts';
import { active, totalReplicas } from './revisions.ts';
import type { Deployment, Sizes } from './types.ts';

/**
 * The next step of a rolling update: more of the current revision while the surge leaves room, else fewer of the old
 * ones while enough pods are available. One of the two at a time, since each changes what the other may do.
 */
export function rollingStep(deployment: Deployment, current: ReplicaSet, old: readonly ReplicaSet[]): Sizes {
  const total = totalReplicas([...old, current]);
  const replicas = currentReplicas(deployment, current.spec.replicas, total);
  return replicas === current.spec.replicas ? shrink(deployment, current, active(old)) : [{ rs: current, replicas }];
}

/** How many replicas the current revision is to have next, when it has `replicas` of `total`. */
export function currentReplicas(deployment: Deployment, replicas: number, total: number): number {
  const wanted = deployment.spec.replicas;
  if (replicas >= wanted) return wanted;
  const room = wanted + limitsOf(deployment).maxSurge - total;
  return Math.min(wanted, replicas + Math.max(0, room));
}

function shrink(deployment: Deployment, current: ReplicaSet, old: readonly ReplicaSet[]): Sizes {
  const minAvailable = deployment.spec.replicas - limitsOf(deployment).maxUnavailable;
  // Pods of the current revision that are not available may never be: the old ones must stay in their place.
  const spare = totalReplicas(old) + available(current) - minAvailable;
  // First those that serve no traffic, or a revision that cannot start would stand in the way of the next for ever.
  const healthy = takeOldest(
    old.map((rs) => ({ rs, replicas: rs.spec.replicas })),
    spare,
    available,
  );
  const availableNow = [current, ...old].reduce((sum, rs) => sum + available(rs), 0);
  const sizes = takeOldest(healthy, availableNow - minAvailable, () => 0);
  return sizes.filter(({ rs, replicas }) => replicas !== rs.spec.replicas);
}

/** `count` fewer in all, from the oldest first, and of each no more than leaves it what it keeps. */
function takeOldest(sizes: Sizes, count: number, keeps: (rs: ReplicaSet) => number): Sizes {
  let left = count;
  return sizes.map(({ rs, replicas }) => {
    const taken = Math.max(0, Math.min(left, replicas - keeps(rs)));
    left -= taken;
    return { rs, replicas: replicas - taken };
  });
}

/** Its status may be of before it was last made smaller. */
function available({ spec, status }: ReplicaSet): number {
  return Math.min(spec.replicas, status.availableReplicas ?? 0);
}
