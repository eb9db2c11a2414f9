import { type KubernetesObject, resource } from 'levelhook/function';
import type { Condition } from './condition.ts';

// The fields that our controllers use. All others pass through untouched, since objects are raw JSON.

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

export const Pod = resource<Pod>('v1', 'Pod');

/** Has ended for good. */
export function hasEnded(pod: Pod): boolean {
  return pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
}
