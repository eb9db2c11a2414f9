import type { KubernetesObject } from '../../core/index.ts';

/** See `ControllerSpec.id`. A namespace holds no dot. */
export function idOf({ metadata }: KubernetesObject): string {
  return `${metadata.namespace}.${metadata.name}`;
}

/** Whether an id is that of a ReconcileFunction rather than of a configured function, whose name holds no dot. */
export function isDeclared(id: string): boolean {
  return id.includes('.');
}

/** To whom a controller belongs: the namespace of a ReconcileFunction; a configured function stands alone. */
export function tenantOf(id: string): string {
  return isDeclared(id) ? id.slice(0, id.indexOf('.') + 1) : id;
}
