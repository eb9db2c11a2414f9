import { type KubernetesObject, type LabelSelector, resource } from 'levelhook/function';
import type { Condition } from '../lib/condition.ts';
import type { PodTemplate, ReplicaSet } from '../lib/replica-set.ts';

// The fields that this controller uses. All others pass through untouched, since objects are raw JSON.

export interface Deployment extends KubernetesObject {
  spec: {
    /** Defaulted to 1 by the apiserver. */
    replicas: number;
    selector: LabelSelector;
    template: PodTemplate;
    /** Defaulted to a RollingUpdate of 25% and 25%. */
    strategy: {
      type: 'RollingUpdate' | 'Recreate';
      rollingUpdate?: { maxSurge?: number | string; maxUnavailable?: number | string };
    };
    minReadySeconds?: number;
    /** Defaulted to 10. */
    revisionHistoryLimit?: number;
    /** Defaulted to 600. */
    progressDeadlineSeconds?: number;
    paused?: boolean;
  };
  status: DeploymentStatus;
}

export interface DeploymentStatus {
  replicas?: number;
  updatedReplicas?: number;
  readyReplicas?: number;
  availableReplicas?: number;
  unavailableReplicas?: number;
  terminatingReplicas?: number;
  observedGeneration?: number;
  collisionCount?: number;
  conditions?: DeploymentCondition[];
}

export interface DeploymentCondition extends Condition {
  /** RFC 3339. */
  lastUpdateTime?: string | null;
}

export const Deployment = resource<Deployment>('apps/v1', 'Deployment');

/** A Deployment's ReplicaSets. */
export interface Revisions {
  /** The ReplicaSet of the current template; undefined until it is created. */
  readonly current: ReplicaSet | undefined;
  /** All others, the oldest first. */
  readonly old: readonly ReplicaSet[];
}

/** Desired sizes of ReplicaSets. */
export type Sizes = readonly { readonly rs: ReplicaSet; readonly replicas: number }[];
