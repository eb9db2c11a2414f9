import type { CacheReader } from 'levelhook/function';
import { hasEnded, Pod } from '../lib/pod.ts';
import { isIndexed, type ReplicaSet } from '../lib/replica-set.ts';
import { active } from './revisions.ts';
import type { Sizes } from './types.ts';

const LOOK_AGAIN_SECONDS = 1;

/** Sizes that scale all old revisions with pods to 0. */
export function withoutPods(old: readonly ReplicaSet[]): Sizes {
  return active(old).map((rs) => ({ rs, replicas: 0 }));
}

/** Whether a pod of an old revision may still be running, though all are scaled to 0. */
export async function oldPodsRun(old: readonly ReplicaSet[], cache: CacheReader): Promise<boolean> {
  if (old.some(({ status }) => status.replicas > 0)) return true;
  const lists = await Promise.all(
    old.map(async (rs) => (await cache.list(Pod, { controlledBy: rs })).items.filter((pod) => isIndexed(rs, pod))),
  );
  return lists.some((pods) => !pods.every(hasEnded));
}

/**
 * Seconds until the old pods must be checked again. Undefined when their ReplicaSet counts them: its status changes
 * when they are gone, and wakes the key. Otherwise nothing wakes the key: the cache had the last status before it saw
 * the pods disappear, or the ReplicaSet does not count them.
 */
export function secondsToLookAgain(old: readonly ReplicaSet[]): number | undefined {
  const counted = old.some(({ status }) => status.replicas > 0 || (status.terminatingReplicas ?? 0) > 0);
  return counted ? undefined : LOOK_AGAIN_SECONDS;
}
