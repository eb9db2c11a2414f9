import type { CacheReader } from 'levelhook/function';
import { hasEnded, Pod } from '../lib/pod.ts';
import type { ReplicaSet } from '../lib/replica-set.ts';
import { active } from './revisions.ts';
import type { Sizes } from './types.ts';

const LOOK_AGAIN_SECONDS = 1;

/** Old revisions without a pod: those that have to be made so. */
export function withoutPods(old: readonly ReplicaSet[]): Sizes {
  return active(old).map((rs) => ({ rs, replicas: 0 }));
}

/** Whether a pod of an old revision may still be running, though none is wanted any more. */
export async function oldPodsRun(old: readonly ReplicaSet[], cache: CacheReader): Promise<boolean> {
  if (old.some(({ status }) => status.replicas > 0)) return true;
  const lists = await Promise.all(old.map((rs) => cache.list(Pod, { controlledBy: rs })));
  return lists.some(({ items }) => !items.every(hasEnded));
}

/**
 * When to look for the last of them again; undefined when their ReplicaSet counts them, for then its status changes
 * when they are gone, and wakes the key. Otherwise the cache has seen that status before it has seen them go, or nobody
 * counts.
 */
export function secondsToLookAgain(old: readonly ReplicaSet[]): number | undefined {
  const counted = old.some(({ status }) => status.replicas > 0 || (status.terminatingReplicas ?? 0) > 0);
  return counted ? undefined : LOOK_AGAIN_SECONDS;
}
