import { type KubernetesObject, type LabelSelector, type ObjectMeta, resource } from 'levelhook/function';

// The fields that this controller uses. All others pass through untouched, since objects are raw JSON.

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

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  /** RFC 3339. */
  lastTransitionTime?: string | null;
}

export interface Pod extends KubernetesObject {
  spec: PodSpec;
  status?: PodStatus;
}

export interface PodSpec {
  /** Absent until the pod is scheduled. */
  nodeName?: string;
  initContainers?: { name: string; restartPolicy?: string }[];
}

export interface PodStatus {
  phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  conditions?: Condition[];
  containerStatuses?: ContainerStatus[];
  initContainerStatuses?: ContainerStatus[];
}

export interface ContainerStatus {
  name: string;
  restartCount: number;
}

export interface Event extends KubernetesObject {
  involvedObject: { apiVersion: string; kind: string; namespace?: string; name: string; uid: string };
  type: 'Normal' | 'Warning';
  reason: string;
  message: string;
  source: { component: string };
  reportingComponent: string;
  firstTimestamp: string;
  lastTimestamp: string;
  count: number;
}

export const ReplicaSet = resource<ReplicaSet>('apps/v1', 'ReplicaSet');
export const Pod = resource<Pod>('v1', 'Pod');
export const Event = resource<Event>('v1', 'Event');
