import { equal, type KubernetesObject, resource } from 'levelhook/function';
import type { Condition } from '../lib/condition.ts';

// The fields that this controller uses. All others pass through untouched, since objects are raw JSON.

export interface Namespace extends KubernetesObject {
  spec?: {
    /**
     * They block the deletion like the finalizers in the metadata, and are written through the subresource `finalize`.
     */
    finalizers?: string[];
  };
  status?: { phase?: string; conditions?: Condition[] };
}

export const Namespace = resource<Namespace>('v1', 'Namespace', { namespaced: false });

/** The finalizer of this controller, which the apiserver gives to each Namespace. */
const FINALIZER = 'kubernetes';

/** At most finalizers of its metadata remain, which this controller does not handle. */
export function isFinalized({ spec }: Namespace): boolean {
  return !spec?.finalizers?.length;
}

/**
 * The same Namespace without our finalizer, and with each of the others once and in order, as kube-controller-manager's
 * `finalizeNamespace` writes them; undefined when it is like this already.
 */
export function withoutFinalizer(namespace: Namespace): Namespace | undefined {
  const { finalizers = [] } = namespace.spec ?? {};
  const others = [...new Set(finalizers.filter((each) => each !== FINALIZER))].toSorted();
  return equal(others, finalizers) ? undefined : { ...namespace, spec: { ...namespace.spec, finalizers: others } };
}
