import {
  formatObjectKey,
  type LabelSelector,
  matchesLabels,
  type ObjectKey,
  type Resource,
  UserError,
} from '../../core/index.ts';
import { namespaceIndex } from '../../contract/index.ts';
import type { View } from '../cache/view.ts';
import type { WorkQueue } from '../workqueue/work-queue.ts';

/** Which keys of a controller: some by name, or those of a selection. An empty selection is everything. */
export type KeySelection =
  | { readonly keys: readonly ObjectKey[] }
  | { readonly selection: { readonly namespace?: string; readonly labelSelector?: LabelSelector } };

export interface RequeueRequest {
  readonly which: KeySelection;
  /** What whoever asked has said, for the function and the log. Travels with `high` only: low keys share one reason. */
  readonly message?: string;
  /** `high`: among those of events. `low`: behind them, and as a resync as far as the function can tell. */
  readonly priority: 'high' | 'low';
}

/** What of a controller can be queued from outside, and how. */
export interface RequeueTarget {
  /** Of the keys. */
  readonly resource: Resource;
  /** The views that hold its objects. */
  readonly views: readonly View[];
  readonly queue: WorkQueue;
}

/** More than this at once would be in the way of events: they are queued at low priority, or not at all. */
export const MAX_HIGH_KEYS = 10_000;
const CHUNK = 500;

/**
 * Queues keys because somebody asked for it. Keys named need not be in the cache: a reconcile of what is gone is one, too.
 * @returns how many. @throws UserError for a key that the kind cannot have, or too many keys for high priority.
 */
export async function requeue(target: RequeueTarget, { which, message, priority }: RequeueRequest): Promise<number> {
  const { queue, resource } = target;
  if ('keys' in which) for (const key of which.keys) checkKey(key, resource);
  const found: AsyncIterable<string[]> | string[][] =
    'keys' in which ? [which.keys.map(formatObjectKey)] : selected(target, which.selection);
  if (priority === 'low') {
    let count = 0;
    for await (const keys of found) {
      await queue.addLow(keys, 'resync');
      count += keys.length;
    }
    return count;
  }
  const all: string[] = [];
  for await (const keys of found) {
    all.push(...keys);
    if (all.length > MAX_HIGH_KEYS) {
      throw new UserError(`more than ${MAX_HIGH_KEYS} keys are too many for priority high: ask for low.`);
    }
  }
  const reasons = [{ type: 'manual' as const, ...(message === undefined ? {} : { message }) }];
  for (let from = 0; from < all.length; from += CHUNK) {
    await queue.add(all.slice(from, from + CHUNK).map((key) => ({ key, reasons })));
  }
  return all.length;
}

async function* selected(
  { views }: RequeueTarget,
  { namespace, labelSelector }: { namespace?: string; labelSelector?: LabelSelector },
): AsyncGenerator<string[]> {
  for (const view of views) {
    if (namespace !== undefined && !view.holds(namespace)) continue;
    const parts = namespace === undefined ? view.keys() : chunks(await view.keysWith([namespaceIndex(namespace)]));
    for await (const keys of parts) {
      if (labelSelector === undefined) {
        yield keys;
        continue;
      }
      const objects = await view.objects(keys);
      yield keys.filter((_, at) => {
        const object = objects[at];
        return object !== undefined && matchesLabels(labelSelector, object.metadata.labels);
      });
    }
  }
}

function* chunks(keys: readonly string[]): Generator<string[]> {
  for (let from = 0; from < keys.length; from += CHUNK) yield keys.slice(from, from + CHUNK);
}

function checkKey({ namespace, name }: ObjectKey, { kind, namespaced }: Resource): void {
  if (namespaced && namespace === undefined)
    throw new UserError(`a ${kind} is named with its namespace: ${name} has none.`);
  if (!namespaced && namespace !== undefined) throw new UserError(`a ${kind} has no namespace: ${name} was given one.`);
}
