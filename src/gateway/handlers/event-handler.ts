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
import { type Change, type ChangeHandler, reasonOf, type Wakeup } from '../cache/change.ts';

/** Any event of an object wakes its own key. controller-runtime's EnqueueRequestForObject (pkg/handler/enqueue.go). */
export function enqueueObject(controller: string, kind: GroupVersionKind): ChangeHandler {
  return (change) => {
    if (formatKind(change.object) !== formatKind(kind)) return [];
    return [{ controller, key: formatObjectKey(keyOf(change.object)), reasons: [reasonOf(change)] }];
  };
}

/**
 * Any event of an object wakes the key of its controller owner, if that is of kind `owner`; when the owner has changed,
 * the old one too. controller-runtime's EnqueueRequestForOwner with OnlyControllerOwner (pkg/handler/enqueue_owner.go).
 */
export function enqueueControllerOwner(controller: string, owned: GroupVersionKind, owner: Resource): ChangeHandler {
  return (change) => {
    if (formatKind(change.object) !== formatKind(owned)) return [];
    const keys = new Set<string>();
    for (const object of statesOf(change)) {
      const key = ownerKey(object, owner);
      if (key !== undefined) keys.add(key);
    }
    return [...keys].map((key): Wakeup => ({ controller, key, reasons: [reasonOf(change)] }));
  };
}

function statesOf(change: Change): KubernetesObject[] {
  return change.type === 'updated' ? [change.object, change.old] : [change.object];
}

/** An owner is named by group and kind; the version it was written with does not matter. */
function ownerKey(object: KubernetesObject, owner: Resource): string | undefined {
  const reference = controllerOf(object);
  if (!reference || reference.kind !== owner.kind || groupOf(reference) !== groupOf(owner)) return undefined;
  const { namespace } = object.metadata;
  return formatObjectKey({ name: reference.name, ...(owner.namespaced && namespace ? { namespace } : {}) });
}
