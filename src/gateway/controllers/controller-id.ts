import type { KubernetesObject } from '../../core/index.ts';

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

/** Whose share of processor time a ReconcileFunction draws on: that of its namespace, under no controller's id. */
export function tenantOf({ metadata }: KubernetesObject): string {
  return tenantNamed(metadata.namespace ?? '');
}

/** The tenant that a namespace is. */
export function tenantNamed(namespace: string): string {
  return `${namespace}.`;
}

/** The namespace of a tenant, whose share of Redis' memory and of indexes counts. */
export function namespaceOfTenant(tenant: string): string {
  return tenant.slice(0, -1);
}
