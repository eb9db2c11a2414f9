import type { ObjectKey } from './object-key.ts';

/** `metadata.ownerReferences[]`. At most one of an object's owners has `controller: true`. */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** The part of ObjectMeta that levelhook reads. Raw JSON: timestamps are RFC 3339 text, unknown fields pass through. */
export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  generateName?: string;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  managedFields?: unknown[];
}

/**
 * An object as the apiserver sends it. Only its metadata is typed; all other fields depend on the kind. An integer
 * beyond ±(2^53 - 1) is a bigint, even in a field whose type says `number`: see `parseJson`.
 */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/** The key of an object, from its metadata. */
export function keyOf(object: KubernetesObject): ObjectKey {
  const { namespace, name } = object.metadata;
  return namespace ? { namespace, name } : { name };
}

/** The owner that manages this object (`controller: true`), as apimachinery's `metav1.GetControllerOf`. */
export function controllerOf(object: { metadata: Pick<ObjectMeta, 'ownerReferences'> }): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find((owner) => owner.controller === true);
}

/**
 * The identity of an owner: the object itself, or the two fields. A UID alone names no namespaced owner, because anyone
 * may write it into the owner references of an object in another namespace.
 */
export interface OwnerIdentity {
  readonly metadata: {
    /** Absent (or empty) for a cluster-scoped owner only. */
    readonly namespace?: string | undefined;
    readonly uid: string;
    /** An owner reference has a kind. It is no identity, because it does not name the owner's namespace. */
    readonly kind?: never;
  };
}

/**
 * Whether `owner` manages this object, as apimachinery's `metav1.IsControlledBy`. A namespaced owner counts only in its
 * own namespace, where the garbage collector looks for it. Objects of a cluster-scoped owner may be anywhere.
 */
export function isControlledBy(object: KubernetesObject, owner: OwnerIdentity): boolean {
  return isWithin(object, owner) && controllerOf(object)?.uid === owner.metadata.uid;
}

/** Whether an object is where objects of this owner can be. */
export function isWithin({ metadata }: KubernetesObject, owner: OwnerIdentity): boolean {
  return !owner.metadata.namespace || metadata.namespace === owner.metadata.namespace;
}

/** The part of an answer that shows whether its object still exists. */
interface UpdatedObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: Partial<ObjectMeta> & { readonly deletionGracePeriodSeconds?: number };
}

/**
 * Whether the update with this answer has removed the object, as the registry's `ShouldDeleteDuringUpdate` does, and
 * the one of Namespaces, which have finalizers in their spec too.
 */
export function isRemovedByUpdate(object: UpdatedObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = object.metadata;
  if (deletionTimestamp === undefined || deletionGracePeriodSeconds !== 0 || finalizers.length > 0) return false;
  if (object.kind !== 'Namespace' || object.apiVersion !== 'v1') return true;
  const { spec } = object as { readonly spec?: { readonly finalizers?: readonly string[] } };
  return !spec?.finalizers?.length;
}
