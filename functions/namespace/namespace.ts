import { type KubernetesObject, resource } from 'levelhook/function';
import type { Condition } from '../lib/condition.ts';

// The fields that this controller uses. All others pass through untouched, since objects are raw JSON.

export interface Namespace extends KubernetesObject {
  spec?: {
    /** They hold the Namespace as those in its metadata do, and are written through its subresource `finalize`. */
    finalizers?: string[];
  };
  status?: { phase?: string; conditions?: Condition[] };
}

export const Namespace = resource<Namespace>('v1', 'Namespace', { namespaced: false });

/** The finalizer of this controller, which the apiserver gives to each Namespace. */
const FINALIZER = 'kubernetes';

/** Nothing holds it but finalizers of its metadata, which are no affair of this controller. */
export function isFinalized({ spec }: Namespace): boolean {
  return !spec?.finalizers?.length;
}

/** The same Namespace without our finalizer; undefined when it has none of ours. */
export function withoutFinalizer(namespace: Namespace): Namespace | undefined {
  const { finalizers = [] } = namespace.spec ?? {};
  if (!finalizers.includes(FINALIZER)) return undefined;
  return { ...namespace, spec: { ...namespace.spec, finalizers: finalizers.filter((each) => each !== FINALIZER) } };
}
