// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.
import { type KubernetesObject, type Resource, resource } from '../../core/index.ts';

/** PriorityClass defines mapping from a priority class name to the priority integer value. */
export interface PriorityClass extends KubernetesObject {
  /** description is an arbitrary string that usually provides guidelines on when this priority class should be used. */
  description?: string;
  /** globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class. */
  globalDefault?: boolean;
  /** preemptionPolicy is the Policy for preempting pods with lower priority. */
  preemptionPolicy?: 'Never' | 'PreemptLowerPriority' | (string & {});
  /** value represents the integer value of this priority class. */
  value?: number;
}
export const PriorityClass: Resource<PriorityClass> = /* @__PURE__ */ resource<PriorityClass>(
  'scheduling.k8s.io/v1',
  'PriorityClass',
  { plural: 'priorityclasses', namespaced: false },
);
