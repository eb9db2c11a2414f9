import { controllerOf, type KubernetesObject, type LabelSelector, type ObjectMeta, resource } from 'levelhook/function';
import type { Condition } from './condition.ts';
import type { Pod, PodSpec } from './pod.ts';

// The fields that our controllers use. All others pass through untouched, since objects are raw JSON.

export interface ReplicaSet extends KubernetesObject {
  spec: {
    /** Defaulted to 1 by the apiserver. */
    replicas: number;
    minReadySeconds?: number;
    selector: LabelSelector;
    template: PodTemplate;
  };
  status: ReplicaSetStatus;
}

export interface PodTemplate {
  metadata?: Pick<ObjectMeta, 'labels' | 'annotations' | 'finalizers'>;
  spec: PodSpec;
}

export interface ReplicaSetStatus {
  replicas: number;
  fullyLabeledReplicas?: number;
  readyReplicas?: number;
  availableReplicas?: number;
  terminatingReplicas?: number;
  observedGeneration?: number;
  conditions?: Condition[];
}

export const ReplicaSet = resource<ReplicaSet>('apps/v1', 'ReplicaSet');

/**
 * Whether kube-controller-manager's index of pods (`PodControllerIndexKey`) has the pod for this ReplicaSet: a pod
 * without a controller, or one whose reference has the ReplicaSet's kind and name, besides its UID. A Deployment's
 * ReplicaSets are found by UID alone.
 */
export function isIndexed(rs: ReplicaSet, pod: Pod): boolean {
  const reference = controllerOf(pod);
  return !reference || (reference.kind === ReplicaSet.kind && reference.name === rs.metadata.name);
}
