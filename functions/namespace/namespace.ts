import { type KubernetesObject, resource } from 'levelhook/function';
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

/** The same Namespace without our finalizer; undefined when it does not have it. */
export function withoutFinalizer(namespace: Namespace): Namespace | undefined {
  const { finalizers = [] } = namespace.spec ?? {};
  if (!finalizers.includes(FINALIZER)) return undefined;
  return { ...namespace, spec: { ...namespace.spec, finalizers: finalizers.filter((each) => each !== FINALIZER) } };
}
