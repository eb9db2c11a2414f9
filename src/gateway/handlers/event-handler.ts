import {
  controllerOf,
  formatKind,
  formatObjectKey,
  type GroupVersionKind,
  groupOf,
  keyOf,
  type KubernetesObject,
  type Resource,
} from '../../core/index.ts';
import { controllerIndex, declaredIndex, namespaceIndex, type WatchMap } from '../../contract/index.ts';
import { type Change, type ChangeHandler, type Lookup, reasonOf, type Wakeup } from '../cache/change.ts';
import type { View } from '../cache/view.ts';

/** Any event of an object wakes its own key. controller-runtime's EnqueueRequestForObject (pkg/handler/enqueue.go). */
export function enqueueObject(controller: string, kind: GroupVersionKind): ChangeHandler {
  return {
    needsOld: () => false,
    handle(change) {
      if (formatKind(change.object) !== formatKind(kind)) return [];
      return [{ controller, key: formatObjectKey(keyOf(change.object)), reasons: [reasonOf(change)] }];
    },
  };
}

/**
 * Any event of an object wakes the key of its controller owner, if that is of kind `owner`; when the owner has changed,
 * the old one too. controller-runtime's EnqueueRequestForOwner with OnlyControllerOwner (pkg/handler/enqueue_owner.go).
 */
export function enqueueControllerOwner(controller: string, owned: GroupVersionKind, owner: Resource): ChangeHandler {
  return {
    needsOld: (object, old) => {
      const now = controllerOf(object);
      return !sameMembers(old.indexEntries.filter(isControllerIndex), now ? [controllerIndex(now.uid)] : []);
    },
    handle(change) {
      if (formatKind(change.object) !== formatKind(owned)) return [];
      const keys = new Set<string>();
      for (const object of statesOf(change)) {
        const key = ownerKey(object, owner);
        if (key !== undefined) keys.add(key);
      }
      return [...keys].map((key): Wakeup => ({ controller, key, reasons: [reasonOf(change)] }));
    },
  };
}

function statesOf(change: Change): KubernetesObject[] {
  return change.type === 'updated' && change.old ? [change.object, change.old] : [change.object];
}

const CONTROLLER_INDEX = controllerIndex('');

function isControllerIndex(entry: string): boolean {
  return entry.startsWith(CONTROLLER_INDEX);
}

function sameMembers(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((each) => b.includes(each));
}

/** An owner is named by group and kind; the version it was written with does not matter. */
function ownerKey(object: KubernetesObject, owner: Resource): string | undefined {
  const reference = controllerOf(object);
  if (!reference || reference.kind !== owner.kind || groupOf(reference) !== groupOf(owner)) return undefined;
  const { namespace } = object.metadata;
  return formatObjectKey({ name: reference.name, ...(owner.namespaced && namespace ? { namespace } : {}) });
}

/**
 * Any event of an object wakes the objects of kind `for` that refer to it, found in the cache after the change is
 * applied: those that name it in a declared index, or whose label selector matches its labels. controller-runtime leaves
 * that to EnqueueRequestsFromMapFunc and the author's own List.
 *
 * @param views of the kind `for`.
 */
export function enqueueReferrers(
  controller: string,
  watched: GroupVersionKind,
  map: WatchMap,
  views: readonly View[],
): ChangeHandler {
  return {
    // A name never changes, labels do. The old state of an object that was and is managed is of no interest to adopters.
    needsOld: (object, old) =>
      map.by === 'selector' && !(map.orphansOnly && controllerOf(object) && old.indexEntries.some(isControllerIndex)),
    handle(change) {
      if (formatKind(change.object) !== formatKind(watched)) return [];
      return statesOf(change)
        .filter((object) => map.by !== 'selector' || !map.orphansOnly || !controllerOf(object))
        .flatMap((object) => lookupsFor(object, map, views))
        .map((lookup): Wakeup => ({ controller, lookup, reasons: [reasonOf(change)] }));
    },
  };
}

function lookupsFor({ metadata }: KubernetesObject, map: WatchMap, views: readonly View[]): Lookup[] {
  const { namespace, name, labels = {} } = metadata;
  return views.flatMap((view): Lookup[] => {
    // A cluster-scoped object may be referred to from any namespace, a namespaced one from its own.
    if (namespace && !view.holds(namespace)) return [];
    const where = namespace && view.resource.namespaced ? [namespaceIndex(namespace)] : [];
    const at = { view: view.location.prefix };
    if (map.by === 'selector') return [{ ...at, entries: where, selector: { path: map.path, labels } }];
    return [{ ...at, entries: [...where, declaredIndex(map.index, name)], declared: map.index }];
  });
}
