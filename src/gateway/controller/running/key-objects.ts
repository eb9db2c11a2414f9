import { boundedText, type KubernetesObject, messageOf, parseObjectKey, type Resource } from '../../../core/index.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import type { KeyObject } from '../workqueue/key-status.ts';
import type { EventSources } from './event-sources.ts';

export interface KeyObjectsOptions {
  /** The reconciled kind. */
  readonly resource: Resource;
  readonly events: Pick<EventSources, 'reconciled' | 'scope'>;
  /** Whether the views of the reconciled kind are complete. */
  readonly isSynced: () => boolean;
  /** An object is decoded and compared with the declaration when the budget allows it. */
  readonly budget: Pick<CpuBudget, 'inTurn'>;
}

/** How long a person waits for a controller that has used up its processor time. */
const MOST_WAITING_MS = 2000;
/** Characters of an error of an expression that are shown. */
const MOST_REASON = 1024;

/** Looks up the objects of a controller's keys in the cache, and whether the controller reconciles them. */
export class KeyObjects {
  readonly resource: Resource;
  readonly #options: KeyObjectsOptions;

  constructor(options: KeyObjectsOptions) {
    this.resource = options.resource;
    this.#options = options;
  }

  /**
   * Whether the cache has the object of a key, and the namespaces and the label selector of the controller allow it.
   */
  async exists(key: string): Promise<boolean> {
    return (await this.#find(key)).state === 'cached';
  }

  /** The state of a key's object, for a person. The predicate is evaluated as for a new object. Never rejects. */
  async of(key: string): Promise<KeyObject> {
    const { reconciled, scope } = this.#options.events;
    const { predicate } = reconciled;
    try {
      const view = scope.views.find((each) => each.contains(parseObjectKey(key).namespace));
      const reason = scope.containsKey(key) ? await view?.objects.keptOutReason(key) : undefined;
      if (reason !== undefined) return { state: 'kept out', reason };
      return await this.#find(
        key,
        predicate && ((object) => predicate.passes({ type: 'added', object })),
        MOST_WAITING_MS,
      );
    } catch (error) {
      // The error must not hide the rest of the key's status.
      return { state: 'unknown', reason: boundedText(messageOf(error), MOST_REASON) };
    }
  }

  /** @throws TimeLimitError when the budget has no turn within this time, and what the predicate and Redis throw. */
  async #find(key: string, passes?: (object: KubernetesObject) => boolean, withinMs?: number): Promise<KeyObject> {
    const { budget, events, isSynced } = this.#options;
    const { scope } = events;
    if (!scope.containsKey(key)) return { state: 'not selected', by: 'namespaces' };
    const view = scope.views.find((each) => each.contains(parseObjectKey(key).namespace));
    const mustRead = passes !== undefined || scope.labelSelector !== undefined;
    const [found] = (await (mustRead ? view?.objects.first([key]) : view?.objects.entries([key]))) ?? [];
    if (found === undefined) {
      return isSynced() ? { state: 'absent' } : { state: 'unknown', reason: 'the cache is not complete yet' };
    }
    if (!('decode' in found)) return { state: 'cached' };
    return budget.inTurn(() => {
      const object = found.decode();
      if (!scope.selects(object)) return { state: 'not selected', by: 'labelSelector' };
      return passes?.(object) === false ? { state: 'not selected', by: 'predicate' } : { state: 'cached' };
    }, withinMs);
  }
}
