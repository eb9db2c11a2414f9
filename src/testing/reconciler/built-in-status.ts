import { formatKind, type KubernetesObject, ownValue, type Resource } from '../../core/index.ts';
import { isJson, type Json } from './json.ts';

// Rules for the status of Kubernetes' own kinds. Custom kinds have none of them.

const REPLICAS = { replicas: 0 };
const LOAD_BALANCER = { loadBalancer: {} };

/**
 * The status of an object that no controller has seen yet, as the kinds' Go types write it: a struct that is always
 * present, with the fields without `omitempty`. Other kinds have a status once a client writes one.
 */
const INITIAL: Readonly<Record<string, Json>> = {
  'apps/v1/DaemonSet': {
    currentNumberScheduled: 0,
    numberMisscheduled: 0,
    desiredNumberScheduled: 0,
    numberReady: 0,
  },
  'apps/v1/Deployment': {},
  'apps/v1/ReplicaSet': REPLICAS,
  'apps/v1/StatefulSet': { ...REPLICAS, availableReplicas: 0 },
  'batch/v1/CronJob': {},
  'batch/v1/Job': {},
  'networking.k8s.io/v1/Ingress': LOAD_BALANCER,
  'policy/v1/PodDisruptionBudget': { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
  'v1/Namespace': { phase: 'Active' },
  'v1/PersistentVolumeClaim': { phase: 'Pending' },
  'v1/Pod': { phase: 'Pending' },
  'v1/ReplicationController': REPLICAS,
  'v1/Service': LOAD_BALANCER,
};

/** The status as it is stored, with the fields that the kind always has. */
export function fullStatus(resource: Resource, status: unknown): unknown {
  const initial = ownValue(INITIAL, formatKind(resource));
  if (initial === undefined) return status;
  return isJson(status) ? { ...initial, ...status } : structuredClone(initial);
}

type Metadata = KubernetesObject['metadata'];
const OF_THE_WRITER = ['labels', 'annotations', 'finalizers', 'ownerReferences'] as const;

/**
 * Metadata that the strategies of some kinds take from the old object on a write of the status. All other kinds accept
 * the new metadata.
 */
const KEPT: Readonly<Record<string, readonly (typeof OF_THE_WRITER)[number][]>> = {
  'apps/v1/Deployment': ['labels'],
  'v1/Pod': ['ownerReferences'],
  // These use `ResetObjectMetaForStatus`, or do the same themselves.
  'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy': OF_THE_WRITER,
  'apiregistration.k8s.io/v1/APIService': OF_THE_WRITER,
  'flowcontrol.apiserver.k8s.io/v1/FlowSchema': OF_THE_WRITER,
  'flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration': OF_THE_WRITER,
  'networking.k8s.io/v1/ServiceCIDR': OF_THE_WRITER,
  'resource.k8s.io/v1/ResourceClaim': OF_THE_WRITER,
  'storage.k8s.io/v1/VolumeAttachment': OF_THE_WRITER,
};

/** The metadata after a write of the status of a built-in kind, which may change more than the status. */
export function metadataOfStatusWrite<M extends Metadata>(resource: Resource, old: M, given: M): M {
  const kept = ownValue(KEPT, formatKind(resource)) ?? [];
  const metadata = { ...given, ...(Object.fromEntries(kept.map((field) => [field, old[field]])) as Partial<Metadata>) };
  for (const field of kept) if (metadata[field] === undefined) delete metadata[field];
  return metadata;
}
