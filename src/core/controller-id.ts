import type { KubernetesObject } from './kubernetes-object.ts';

/** Where a controller comes from: a function whose URL the operator has configured, or a ReconcileFunction. */
export type ControllerOrigin = 'configured' | 'declared';

/** The id of a ReconcileFunction's controller (see `ControllerSpec.id`). */
export function idOf({ metadata }: KubernetesObject): string {
  return `${metadata.namespace}.${metadata.name}`;
}

/** The namespace and the name of the ReconcileFunction that an id names: the reverse of `idOf`. */
export function objectNamed(id: string): { namespace: string; name: string } {
  const dot = id.indexOf('.');
  return { namespace: id.slice(0, dot), name: id.slice(dot + 1) };
}

/**
 * Derives the origin from an id. For ids from Redis, from tokens and from the command line, when there may be no
 * controller to ask. Only the id of a ReconcileFunction has a dot: names of functions and of namespaces have none.
 */
export function originOf(id: string): ControllerOrigin {
  return id.includes('.') ? 'declared' : 'configured';
}

/**
 * The tenant of a controller: the unit that has a share of processor time, memory and requests. All ReconcileFunctions
 * of a namespace share one tenant, because a user who may declare one there may declare many. Its name is no
 * controller's id. A configured function is a tenant of its own.
 */
export function tenantOf(id: string): string {
  return id.slice(0, id.indexOf('.') + 1) || id;
}

/** The tenant of a namespace. */
export function tenantNamed(namespace: string): string {
  return `${namespace}.`;
}

/** The namespace of a tenant. It has a share of Redis' memory and of indexes. */
export function namespaceOfTenant(tenant: string): string {
  return tenant.slice(0, -1);
}
