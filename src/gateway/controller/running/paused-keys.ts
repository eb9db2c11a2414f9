import { namespaceOfKey } from '../../../core/index.ts';
import type { View } from '../../informer/cache/view.ts';
import { isPaused, PAUSED } from '../handlers/paused.ts';
import type { QueuedKey, WorkQueue } from '../workqueue/work-queue.ts';

/** Adds keys to the queue, each with the pause that its object asks for. @param views of the reconciled kind. */
export async function addWithPauses(
  queue: Pick<WorkQueue, 'add' | 'pauseObjects'>,
  views: readonly View[],
  keys: readonly QueuedKey[],
): Promise<void> {
  const names = keys.map(({ key }) => key);
  const paused = await pausedAmong(views, names, true);
  await settlePauses(queue, views, await queue.add(keys.map((each) => ({ ...each, paused: paused.has(each.key) }))));
}

/**
 * Begins or ends the pauses of these keys, as their objects in the cache ask. A pause that has changed is compared once
 * more: the change may come from an older state of the object than the queue had, because another call or another
 * gateway has read and recorded a newer state since the read.
 */
export async function settlePauses(
  queue: Pick<WorkQueue, 'pauseObjects'>,
  views: readonly View[],
  keys: readonly string[],
): Promise<void> {
  for (let left = keys; left.length > 0;) {
    const paused = await pausedAmong(views, left);
    left = await queue.pauseObjects(left.map((key) => ({ key, paused: paused.has(key) })));
  }
}

/**
 * The keys among these whose objects ask for a pause by their annotation.
 * @param isRecentEnough whether the entries may be from the memory of this gateway, which another one may have replaced
 *   in Redis. Default: they are from Redis.
 */
export async function pausedAmong(
  views: readonly View[],
  keys: readonly string[],
  isRecentEnough = false,
): Promise<Set<string>> {
  const paused = new Set<string>();
  for (const view of views) {
    const { objects } = view;
    const inView = keys.filter((key) => view.contains(namespaceOfKey(key)));
    const head = { index: PAUSED };
    const entries = isRecentEnough ? await objects.recentHeads(inView, head) : await objects.heads(inView, head);
    inView.forEach((key, at) => isPaused(entries[at]) && paused.add(key));
  }
  return paused;
}
