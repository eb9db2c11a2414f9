import {
  controllerOf,
  groupOf,
  type KubernetesObject,
  type ObjectMeta,
  type OwnerReference,
  type Resource,
} from '../core/index.ts';

/** Builds an owner reference to `owner`. It checks nothing: see `setControllerReference`. */
export function controllerReference(resource: Resource, owner: KubernetesObject) {
  const { apiVersion, kind } = resource;
  const { name, uid } = owner.metadata;
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** The owner can never own the object. */
export class OwnerError extends Error {
  override readonly name = 'OwnerError';
  readonly code = 'ERR_LEVELHOOK_OWNER';
}

/**
 * Makes `owner` the controller owner of `object`, in place, and returns `object`. Events of `object` then wake the key
 * of `owner` (`owns`), and the garbage collector deletes `object` with its owner. Replaces a reference to an object of
 * the same group, kind and name; other owners stay. As controller-runtime's `SetControllerReference`
 * (pkg/controller/controllerutil).
 *
 * @throws OwnerError when another owner controls it already, and for an owner that Kubernetes does not allow: an owner
 *   in another namespace, or a namespaced owner of a cluster-scoped object. The garbage collector would delete an
 *   object with such an owner.
 */
export function setControllerReference<T extends { metadata: Partial<ObjectMeta> }>(
  resource: Resource,
  owner: KubernetesObject,
  object: T,
): T {
  const { metadata } = object;
  const what = `${metadata.name ?? metadata.generateName} cannot be owned by ${resource.kind} ${owner.metadata.name}`;
  if (owner.metadata.namespace) {
    if (!metadata.namespace) throw new OwnerError(`${what}: it is cluster-scoped, and its owner is not`);
    if (metadata.namespace !== owner.metadata.namespace)
      throw new OwnerError(`${what}: they are in different namespaces`);
  }
  const reference = controllerReference(resource, owner);
  const isSame = (other: OwnerReference): boolean =>
    groupOf(other) === groupOf(reference) && other.kind === reference.kind && other.name === reference.name;
  const { ownerReferences } = metadata;
  const other = controllerOf({ metadata: ownerReferences ? { ownerReferences } : {} });
  if (other && !isSame(other)) throw new OwnerError(`${what}: ${other.kind} ${other.name} controls it`);
  const owners = [...(ownerReferences ?? [])];
  const at = owners.findIndex(isSame);
  owners.splice(at < 0 ? owners.length : at, at < 0 ? 0 : 1, reference);
  metadata.ownerReferences = owners;
  return object;
}
