import {
  formatObjectKey,
  type KubernetesObject,
  type LabelSelector,
  matchesLabels,
  type ObjectKey,
  UserError,
} from '../../../core/index.ts';
import type { KeyScope } from '../handlers/key-scope.ts';
import type { WorkQueue } from '../workqueue/work-queue.ts';
import { keysInScope } from './keys-in-scope.ts';

/** The keys to queue: by name, or by namespace and labels. An empty selection selects all keys. */
export type KeySelection =
  | { readonly keys: readonly ObjectKey[] }
  | { readonly selection: { readonly namespace?: string; readonly labelSelector?: LabelSelector } };

export interface RequeueRequest {
  readonly which: KeySelection;
  /** The caller's message, for the function and the log. Travels with `high` only: low keys share one reason. */
  readonly message?: string;
  /** `high`: like keys of events. `low`: behind them, with the reason `resync`. */
  readonly priority: 'high' | 'low';
}

/** The keys of a controller to queue from outside, and their priority. */
export interface RequeueTarget {
  readonly scope: KeyScope;
  readonly queue: WorkQueue;
  /** Aborted when the controller has stopped: the data of its queue may be removed from then on. */
  readonly stopped: AbortSignal;
}

/** The most keys that one request may queue at high priority, because more would delay events. */
export const MAX_HIGH_KEYS = 10_000;
const CHUNK = 500;

/**
 * Queues keys at a caller's request, whatever the controller's predicates say. Named keys need not be in the cache: a
 * deleted object can be reconciled, too.
 * @returns how many. @throws UserError for a key or namespace that the controller does not reconcile, too many keys for
 *   high priority, and a controller that stops before all keys are queued.
 */
export async function requeue(target: RequeueTarget, { which, message, priority }: RequeueRequest): Promise<number> {
  const { queue, scope, stopped } = target;
  const throwIfStopped = (): void => {
    if (stopped.aborted) throw new UserError('the controller has stopped before all keys were queued.');
  };
  if ('keys' in which) await checkKeys(which.keys, scope);
  const found: AsyncIterable<string[]> | string[][] =
    'keys' in which ? [which.keys.map(formatObjectKey)] : selected(scope, which.selection);
  if (priority === 'low') {
    let count = 0;
    for await (const keys of found) {
      throwIfStopped();
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
    throwIfStopped();
    await queue.add(all.slice(from, from + CHUNK).map((key) => ({ key, reasons })));
  }
  return all.length;
}

function selected(
  scope: KeyScope,
  { namespace, labelSelector }: { namespace?: string; labelSelector?: LabelSelector },
): AsyncIterable<string[]> {
  if (namespace !== undefined) checkNamespace(namespace, scope);
  const passes =
    labelSelector && (({ metadata }: KubernetesObject): boolean => matchesLabels(labelSelector, metadata.labels));
  return keysInScope(scope, { ...(namespace === undefined ? {} : { namespace }), passes });
}

async function checkKeys(keys: readonly ObjectKey[], scope: KeyScope): Promise<void> {
  const { kind, namespaced } = scope.resource;
  for (const { namespace, name } of keys) {
    if (namespaced && namespace === undefined) {
      throw new UserError(`a ${kind} is named with its namespace: ${name} has none.`);
    }
    if (!namespaced && namespace !== undefined) {
      throw new UserError(`a ${kind} has no namespace: ${name} was given one.`);
    }
    if (namespace !== undefined) checkNamespace(namespace, scope);
  }
  if (!scope.labelSelector) return;
  for (const { view, namespace: within } of scope.viewParts()) {
    const inView = keys.filter(({ namespace }) =>
      within === undefined ? view.contains(namespace) : namespace === within,
    );
    await view.objects.visit(inView.map(formatObjectKey), (key, object) => {
      if (object && !scope.selects(object))
        throw new UserError(`the controller does not select the ${kind} ${key} by its labels.`);
    });
  }
}

function checkNamespace(namespace: string, scope: KeyScope): void {
  const { kind, namespaced } = scope.resource;
  if (!namespaced) throw new UserError(`a ${kind} has no namespace: leave out ${namespace}.`);
  if (!scope.contains(namespace))
    throw new UserError(`the controller reconciles no ${kind} in the namespace ${namespace}.`);
}
