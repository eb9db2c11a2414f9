import { formatKind, formatObjectKey, keyOf, type KubernetesObject, NewestMap } from '../../../core/index.ts';
import { declaredIndex, type ObjectEntry } from '../../../contract/cache-layout.ts';
import type { SourceDescription } from '../../../contract/index.ts';
import { type Change, type ChangeHandler, reasonOf, type Wakeup } from '../../informer/cache/change.ts';
import { type KeyScope, mergeTargets } from './key-scope.ts';
import type { Mapper } from './mapper.ts';
import { isPausedEntry, PAUSED_ANNOTATION, PAUSED_INDEX } from './paused.ts';
import type { EventPredicate } from './predicate.ts';

/** Objects of a controller whose left-out events are remembered. */
const MOST_DROPPED = 100;

/**
 * The last event of an object, where a predicate has left it out. Known to the gateway that has applied it, for the
 * last hundred objects of a controller.
 */
export interface DroppedEvent {
  readonly type: Change['type'];
  readonly resourceVersion: string;
  /** The part of `for.predicate` that has decided: `all.0.changed`. */
  readonly by: string;
}

/** A kind whose events may wake a controller's keys, limited by namespaces and a predicate. */
export class EventSource {
  readonly #kind: string;
  readonly #namespaces: ReadonlySet<string> | undefined;
  readonly predicate: EventPredicate | undefined;
  /** By key, of the events that this gateway has applied. */
  readonly #dropped = new NewestMap<string, DroppedEvent>(MOST_DROPPED);

  constructor(description: Pick<SourceDescription, 'apiVersion' | 'kind' | 'namespaces'>, predicate?: EventPredicate) {
    this.#kind = formatKind(description);
    this.#namespaces = description.namespaces && new Set(description.namespaces);
    this.predicate = predicate;
  }

  covers(object: KubernetesObject): boolean {
    if (formatKind(object) !== this.#kind) return false;
    return this.#namespaces?.has(object.metadata.namespace ?? '') ?? true;
  }

  /** Whether the predicate needs the old object. */
  needsOld(object: KubernetesObject): boolean {
    return this.predicate?.needsOld(object) ?? false;
  }

  passes(change: Change): boolean {
    return this.predicate?.passes(change) ?? true;
  }

  /** The last event of an object, if the predicate has left it out and this gateway knows of it. */
  droppedOf(key: string): DroppedEvent | undefined {
    return this.#dropped.get(key);
  }

  /** Remembers whether the predicate, which was asked just now, has left the last event of a key out. */
  note(key: string, change: Change, isDropped: boolean): void {
    if (!this.predicate) return;
    if (!isDropped) return void this.#dropped.delete(key);
    const { resourceVersion } = change.object.metadata;
    this.#dropped.set(key, { type: change.type, resourceVersion, by: this.predicate.refusedBy });
  }
}

/**
 * Any event of an object wakes its own key: controller-runtime's EnqueueRequestForObject (pkg/handler/enqueue.go). If
 * the scope has a label selector, the handler sees the events that a watch with this selector would deliver.
 */
export function enqueueObject(controller: string, source: EventSource, scope: KeyScope): ChangeHandler {
  return {
    needsOld(object, old) {
      if (!source.covers(object)) return false;
      // The event of an unselected object matters only if the old object was selected.
      if (!scope.selects(object) || source.needsOld(object)) return true;
      return source.predicate !== undefined && pausedDiffers(object, old);
    },
    handle(change) {
      if (!source.covers(change.object)) return [];
      const event = asSelected(change, scope);
      if (!event) return [];
      const key = formatObjectKey(keyOf(event.object));
      const isDropped = !source.passes(event) && !pauseChanged(event);
      source.note(key, event, isDropped);
      return isDropped ? [] : [{ controller, key, reasons: [reasonOf(event)] }];
    },
  };
}

/**
 * The event that a watch with the scope's selector would deliver; undefined: none (apiserver's pkg/storage/cacher,
 * `cacheWatcher`).
 */
function asSelected(change: Change, scope: KeyScope): Change | undefined {
  const selected = scope.selects(change.object);
  if (change.type !== 'updated') return selected ? change : undefined;
  const { object, old } = change;
  if (selected) return old && !scope.selects(old) ? { type: 'added', object } : change;
  if (!old || !scope.selects(old)) return undefined;
  const { resourceVersion } = object.metadata;
  return { type: 'deleted', object: { ...old, metadata: { ...old.metadata, resourceVersion } } };
}

function pausedDiffers({ metadata }: KubernetesObject, old: ObjectEntry): boolean {
  const value = metadata.annotations?.[PAUSED_ANNOTATION];
  const before = old.indexEntries.find(isPausedEntry);
  return before !== (value === undefined ? undefined : declaredIndex(PAUSED_INDEX, value));
}

/**
 * Whether the paused annotation has changed. Such a change passes all predicates, because the queue has to begin or end
 * the pause of the key.
 */
function pauseChanged(change: Change): boolean {
  if (change.type !== 'updated' || !change.old) return false;
  const [now, before] = [change.object, change.old].map(({ metadata }) => metadata.annotations?.[PAUSED_ANNOTATION]);
  return now !== before;
}

/**
 * Any event of an object wakes the keys that it maps to; an update also wakes the keys that its old version maps to.
 */
export function enqueueMapped(controller: string, source: EventSource, mapper: Mapper): ChangeHandler {
  return {
    needsOld: (object, old) => source.covers(object) && (source.needsOld(object) || mapper.needsOld(object, old)),
    handle(change) {
      if (!source.covers(change.object) || !source.passes(change)) return [];
      const states = change.type === 'updated' && change.old ? [change.object, change.old] : [change.object];
      const targets = mergeTargets(states.flatMap((object) => mapper.targets(object)));
      return targets.map((target): Wakeup => ({ controller, ...target, reasons: [reasonOf(change)] }));
    },
  };
}
