import type { ReplicaSet } from '../lib/replica-set.ts';
import { limitsOf } from './limits.ts';
import { active, totalReplicas } from './revisions.ts';
import type { Deployment, Sizes } from './types.ts';

/**
 * The next step of a rolling update: a larger current revision while the surge has room, else smaller old ones while
 * enough pods are available. Only one of the two at a time, since each changes the other's limits.
 */
export function rollingStep(deployment: Deployment, current: ReplicaSet, old: readonly ReplicaSet[]): Sizes {
  const total = totalReplicas([...old, current]);
  const replicas = currentReplicas(deployment, current.spec.replicas, total);
  return replicas === current.spec.replicas ? shrink(deployment, current, active(old)) : [{ rs: current, replicas }];
}

/** The next size of the current revision, when it has `replicas` of `total`. */
export function currentReplicas(deployment: Deployment, replicas: number, total: number): number {
  const wanted = deployment.spec.replicas;
  if (replicas >= wanted) return wanted;
  const room = wanted + limitsOf(deployment).maxSurge - total;
  return Math.min(wanted, replicas + Math.max(0, room));
}

function shrink(deployment: Deployment, current: ReplicaSet, old: readonly ReplicaSet[]): Sizes {
  const minAvailable = deployment.spec.replicas - limitsOf(deployment).maxUnavailable;
  // Unavailable pods of the current revision may stay so, and old pods must remain instead of them.
  const spare = totalReplicas(old) + available(current) - minAvailable;
  // Unavailable pods first: otherwise a revision that cannot start would block the next one for ever.
  const healthy = takeOldest(
    old.map((rs) => ({ rs, replicas: rs.spec.replicas })),
    spare,
    available,
  );
  const availableNow = [current, ...old].reduce((sum, rs) => sum + available(rs), 0);
  const sizes = takeOldest(healthy, availableNow - minAvailable, () => 0);
  return sizes.filter(({ rs, replicas }) => replicas !== rs.spec.replicas);
}

/** Removes `count` in all, from the oldest first, and leaves each at least `keeps`. */
function takeOldest(sizes: Sizes, count: number, keeps: (rs: ReplicaSet) => number): Sizes {
  let left = count;
  return sizes.map(({ rs, replicas }) => {
    const taken = Math.max(0, Math.min(left, replicas - keeps(rs)));
    left -= taken;
    return { rs, replicas: replicas - taken };
  });
}

/** The status may be from before it was last scaled down. */
function available({ spec, status }: ReplicaSet): number {
  return Math.min(spec.replicas, status.availableReplicas ?? 0);
}
