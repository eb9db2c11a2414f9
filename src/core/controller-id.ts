import type { KubernetesObject } from './kubernetes-object.ts';

/** Where a controller comes from: a function whose URL the operator has configured, or a ReconcileFunction. */
export type ControllerOrigin = 'configured' | 'declared';

/** The id of a ReconcileFunction's controller (see `ControllerSpec.id`). */
export function idOf({ metadata }: KubernetesObject): string {
  return `${metadata.namespace}.${metadata.name}`;
}

/**
 * The origin that an id tells, for ids from Redis, from tokens and from the command line: there may be no controller to
 * ask. Only that of a ReconcileFunction has a dot, since neither a function's name nor a namespace has one.
 */
export function originOf(id: string): ControllerOrigin {
  return id.includes('.') ? 'declared' : 'configured';
}

/**
 * Whose share of processor time, memory and requests a controller draws on. Those of a ReconcileFunction are those of
 * its namespace, under no controller's id, because a user who may declare one there may declare many. A configured
 * function has its own.
 */
export function tenantOf(id: string): string {
  return id.slice(0, id.indexOf('.') + 1) || id;
}

/** The tenant that a namespace is. */
export function tenantNamed(namespace: string): string {
  return `${namespace}.`;
}

/** The namespace of a tenant, whose share of Redis' memory and of indexes counts. */
export function namespaceOfTenant(tenant: string): string {
  return tenant.slice(0, -1);
}
