import { boundedText, type KubernetesObject, messageOf, namespaceOfKey, type Resource } from '../../../core/index.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import { type Informer, MOST_AT_REST_MS } from '../../informer/cache/informer.ts';
import type { KeyObject } from '../workqueue/key-status.ts';
import type { EventSources } from './event-sources.ts';

export interface KeyObjectsOptions {
  /** The reconciled kind. */
  readonly resource: Resource;
  readonly events: Pick<EventSources, 'reconciled' | 'scope'>;
  /** Of the reconciled kind. */
  readonly informers: readonly Pick<Informer, 'ageMs' | 'synced' | 'view'>[];
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
      const view = scope.containsKey(key) ? this.#informerOf(key)?.view : undefined;
      const keptOut = await view?.objects.keptOutReason(key);
      if (keptOut !== undefined) return { state: 'kept out', reason: keptOut };
      const found = await this.#find(
        key,
        predicate && ((object) => predicate.passes({ type: 'added', object })),
        MOST_WAITING_MS,
      );
      if (found.state === 'cached' || found.state === 'not selected') {
        const dropped = view && reconciled.droppedOf(key);
        if (!dropped) return found;
        // Another gateway, or a list, may have brought a later event.
        const [head] = await view.objects.heads([key]);
        return head?.resourceVersion === dropped.resourceVersion ? { ...found, dropped } : found;
      }
      const ageMs = found.state === 'absent' ? await this.#informerOf(key)?.ageMs() : undefined;
      if (ageMs === undefined || ageMs <= MOST_AT_REST_MS) return found;
      const reason = `the cache lacks it, and shows the apiserver of ${Math.round(ageMs / 1000)} s ago`;
      return { state: 'unknown', reason };
    } catch (error) {
      // The error must not hide the rest of the key's status.
      return { state: 'unknown', reason: boundedText(messageOf(error), MOST_REASON) };
    }
  }

  /** @throws TimeLimitError when the budget has no turn within this time, and what the predicate and Redis throw. */
  async #find(key: string, passes?: (object: KubernetesObject) => boolean, withinMs?: number): Promise<KeyObject> {
    const { budget, events, informers } = this.#options;
    const { scope } = events;
    if (!scope.containsKey(key)) return { state: 'not selected', by: 'namespaces' };
    const view = this.#informerOf(key)?.view;
    const mustRead = passes !== undefined || scope.labelSelector !== undefined;
    const [found] = (await (mustRead ? view?.objects.first([key]) : view?.objects.heads([key]))) ?? [];
    if (found === undefined) {
      const isSynced = informers.every(({ synced }) => synced);
      return isSynced ? { state: 'absent' } : { state: 'unknown', reason: 'the cache is not complete yet' };
    }
    if (!('decode' in found)) return { state: 'cached' };
    return budget.inTurn(() => {
      const object = found.decode();
      if (!scope.selects(object)) return { state: 'not selected', by: 'labelSelector' };
      return passes?.(object) === false ? { state: 'not selected', by: 'predicate' } : { state: 'cached' };
    }, withinMs);
  }

  #informerOf(key: string): KeyObjectsOptions['informers'][number] | undefined {
    return this.#options.informers.find(({ view }) => view.contains(namespaceOfKey(key)));
  }
}
