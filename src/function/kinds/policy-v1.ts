// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.
import { type KubernetesObject, type Resource, resource } from '../../core/index.ts';
import type { Condition, LabelSelector } from './meta-v1.ts';

/** PodDisruptionBudget is an object to define the max disruption that can be caused to a collection of pods. */
export interface PodDisruptionBudget extends KubernetesObject {
  /** Specification of the desired behavior of the PodDisruptionBudget. */
  spec?: PodDisruptionBudgetSpec;
  /** Most recently observed status of the PodDisruptionBudget. */
  status?: PodDisruptionBudgetStatus;
}
export const PodDisruptionBudget: Resource<PodDisruptionBudget> = /* @__PURE__ */ resource<PodDisruptionBudget>(
  'policy/v1',
  'PodDisruptionBudget',
);

/** PodDisruptionBudgetSpec is a description of a PodDisruptionBudget. */
export interface PodDisruptionBudgetSpec {
  /** An eviction is allowed if at most "maxUnavailable" pods selected by "selector" are unavailable after the eviction, i.e. */
  maxUnavailable?: number | string;
  /** An eviction is allowed if at least "minAvailable" pods selected by "selector" will still be available after the eviction, i.e. */
  minAvailable?: number | string;
  /** Label query over pods whose evictions are managed by the disruption budget. */
  selector?: LabelSelector;
  /** UnhealthyPodEvictionPolicy defines the criteria for when unhealthy pods should be considered for eviction. */
  unhealthyPodEvictionPolicy?: 'AlwaysAllow' | 'IfHealthyBudget' | (string & {});
}

/** PodDisruptionBudgetStatus represents information about the status of a PodDisruptionBudget. */
export interface PodDisruptionBudgetStatus {
  /** Conditions contain conditions for PDB. The disruption controller sets the DisruptionAllowed condition. */
  conditions?: Condition[];
  /** current number of healthy pods. */
  currentHealthy?: number;
  /** minimum desired number of healthy pods. */
  desiredHealthy?: number;
  /** DisruptedPods contains information about pods whose eviction was processed by the API server eviction subresource handler but has not yet been observed by the PodDisruptionBudget controller. */
  disruptedPods?: Record<string, string>;
  /** Number of pod disruptions that are currently allowed. */
  disruptionsAllowed?: number;
  /** total number of pods counted by this disruption budget. */
  expectedPods?: number;
  /** Most recent generation observed when updating this PDB status. */
  observedGeneration?: number;
}
