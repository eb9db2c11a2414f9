import type { KubernetesObject } from '../../src/core/index.ts';
import { stable } from './stable.ts';

/** A difference between two planes that the canonical form does not show. The README has a row with the reason. */
export interface Omission {
  /** The left cell of the row. It names each field with another value in the form, or without one. */
  readonly row: string;
  /** Objects that are not compared. */
  readonly skips?: (object: KubernetesObject, at: Compared) => boolean;
  /** Whether equal objects count once. */
  readonly once?: (object: KubernetesObject) => boolean;
  /** The value of a field at any depth. Undefined leaves the field out. */
  readonly field?: (name: string, value: unknown, object: KubernetesObject) => unknown;
  /** Changes a copy of the object, after all fields have their values. */
  readonly edit?: (copy: Copy, at: Compared) => void;
  /** Replacements in the text of all objects. */
  readonly rename?: (object: KubernetesObject) => readonly (readonly [from: string, to: string])[];
}

/** About all objects of a comparison. */
export interface Compared {
  /** The names of pods that the test has made. */
  readonly given: ReadonlySet<string>;
  /** The names of pods that were being deleted before the test evicted others. */
  readonly leaving: ReadonlySet<string>;
}

interface Named {
  name?: string;
}

interface Endpoint {
  addresses?: unknown;
  ip?: unknown;
  nodeName?: string;
  zone?: string;
  targetRef?: { kind?: string; name?: string };
}

interface Subset {
  addresses?: Endpoint[];
  notReadyAddresses?: Endpoint[];
  ports?: unknown[];
}

/** The fields that edits change. */
export interface Copy {
  kind?: string;
  metadata: Named & {
    generateName?: string;
    generation?: number;
    annotations?: Record<string, string>;
    labels?: Record<string, string>;
    ownerReferences?: { kind: string }[];
  };
  spec?: {
    nodeName?: string;
    taints?: unknown[];
    volumes?: Named[];
    containers?: { volumeMounts?: Named[] }[];
    initContainers?: { volumeMounts?: Named[] }[];
  };
  status?: { observedGeneration?: unknown; conditions?: { type: string; reason?: string; message?: string }[] };
  /** Null in a slice without endpoints. */
  endpoints?: Endpoint[] | null;
  ports?: unknown[] | null;
  subsets?: Subset[];
  count?: number;
}

/** The times of given objects (`objects.ts`) are of this year, and are compared. */
const GIVEN_TIME = /^2001-/;
const TIMES = /(Time|Timestamp|timeAdded|At)$/;
const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time';
const TOKEN_VOLUME = 'kube-api-access-';

/** All that `canonical` leaves out, in the order of the README's table. */
export const OMISSIONS: readonly Omission[] = [
  {
    row: "the hash of a Deployment's ReplicaSet, in its name, its labels and its selector, in its pods and in conditions",
    rename: ({ kind, metadata }) => {
      const [owner] = metadata.ownerReferences ?? [];
      if (kind !== 'ReplicaSet' || owner?.kind !== 'Deployment') return [];
      const hash = metadata.labels?.['pod-template-hash'] ?? '';
      const name = `${owner.name}@${metadata.annotations?.['deployment.kubernetes.io/revision'] ?? ''}`;
      return [[metadata.name, name], ...(hash === '' ? [] : ([[`"${hash}"`, `"${name}"`]] as const))];
    },
  },
  {
    row: "the annotations `desired-replicas` and `max-replicas` of a Deployment's ReplicaSet",
    edit: (copy) => {
      if (!isOfDeployment(copy)) return;
      for (const each of ['desired', 'max']) {
        delete copy.metadata.annotations?.[`deployment.kubernetes.io/${each}-replicas`];
      }
    },
  },
  {
    row: '`generation` of the ReplicaSets of a Deployment',
    edit: (copy) => {
      const { metadata, status } = copy;
      if (!isOfDeployment(copy) || !status) return;
      status.observedGeneration = status.observedGeneration === metadata.generation ? 'current' : 'behind';
      delete metadata.generation;
    },
  },
  {
    row: '`generation` of EndpointSlices',
    edit: ({ kind, metadata }) => {
      if (kind === 'EndpointSlice') delete metadata.generation;
    },
  },
  {
    row: '`managedFields`, `containerID`, empty `labels` and `annotations`',
    field: (name, value) => (['managedFields', 'containerID'].includes(name) ? undefined : value),
    edit: ({ metadata }) => {
      for (const map of ['annotations', 'labels'] as const) if (stable(metadata[map]) === '{}') delete metadata[map];
    },
  },
  { row: '`creationTimestamp`', field: (name, value) => (name === 'creationTimestamp' ? undefined : value) },
  {
    row: 'times of the run: `*Time`, `*Timestamp`, `*At`, `timeAdded`',
    field: (name, value) => (TIMES.test(name) && typeof value === 'string' && !GIVEN_TIME.test(value) ? '*' : value),
  },
  {
    row: 'the annotation `last-change-trigger-time`',
    field: (name, value) => (name === TRIGGER_TIME ? undefined : value),
  },
  { row: '`resourceVersion`, `uid`', field: (name, value) => (isVersion(name) ? undefined : value) },
  {
    row:
      'addresses of Services (`clusterIP`, `clusterIPs`) and of pods that a controller has made (`podIP`, `podIPs`, ' +
      '`addresses` of a slice, `ip` in Endpoints)',
    field: (name, value, object) => {
      const isOfService = /^clusterIPs?$/.test(name) && object.kind === 'Service' && !String(value).includes('None');
      return isOfService || (/^podIPs?$/.test(name) && isMade(object)) ? '*' : value;
    },
    edit: (copy, at) => {
      const address = copy.kind === 'Endpoints' ? 'ip' : 'addresses';
      for (const endpoint of madeEndpoints(copy, at)) if (endpoint[address] !== undefined) endpoint[address] = '*';
    },
  },
  {
    row: 'the node of a pod that was scheduled: `nodeName`, `hostIP`, `hostIPs`, `zone` of its endpoint',
    field: (name, value, object) => (/^hostIPs?$/.test(name) && isMade(object) ? '*' : value),
    edit: (copy, at) => {
      if (isMade(copy)) delete copy.spec?.nodeName;
      for (const endpoint of madeEndpoints(copy, at)) {
        delete endpoint.nodeName;
        delete endpoint.zone;
      }
    },
  },
  {
    row: 'the drawn end of `kube-api-access-*`, the `name` of a volume and of its mounts',
    edit: ({ kind, spec = {} }) => {
      if (kind !== 'Pod') return;
      const containers = [...(spec.initContainers ?? []), ...(spec.containers ?? [])];
      for (const each of [...(spec.volumes ?? []), ...containers.flatMap(({ volumeMounts = [] }) => volumeMounts)]) {
        if (each.name?.startsWith(TOKEN_VOLUME)) each.name = `${TOKEN_VOLUME}*`;
      }
    },
  },
  {
    row: 'drawn names: `name` of an object with a `generateName`, of the pod that an endpoint points to, and of an Event',
    edit: (copy, at) => {
      for (const { targetRef } of madeEndpoints(copy, at)) delete targetRef?.name;
      if (copy.metadata.generateName !== undefined || copy.kind === 'Event') delete copy.metadata.name;
    },
  },
  {
    row: 'the order of `endpoints`, `addresses`, `notReadyAddresses`, `ports` and `taints`',
    edit: (copy) => {
      if (copy.kind === 'EndpointSlice') order(copy, 'endpoints', 'ports');
      if (copy.kind === 'Endpoints') {
        for (const subset of copy.subsets ?? []) order(subset, 'addresses', 'notReadyAddresses', 'ports');
      }
      if (copy.kind === 'Node' && copy.spec) order(copy.spec, 'taints');
    },
  },
  {
    row: 'the name of the ReplicaSet in the `message` of a Deployment whose rollout is complete',
    edit: ({ kind, status }) => {
      const found =
        kind === 'Deployment' && status?.conditions?.find((each) => each.reason === 'NewReplicaSetAvailable');
      if (found) found.message = found.message?.replace(/^ReplicaSet "[^"]+"/, 'ReplicaSet "*"') ?? '';
    },
  },
  {
    row: 'the order of the `conditions` of Deployments and pods',
    edit: ({ kind, status }) => {
      if (kind === 'Deployment' || kind === 'Pod') status?.conditions?.sort((a, b) => (a.type < b.type ? -1 : 1));
    },
  },
  {
    row: 'eviction of pods that are being deleted already',
    skips: (object, { leaving }) => leaving.has(podOf(object) ?? ''),
  },
  {
    row: 'Events, but `NodeNotReady`, `TaintManagerEviction`, and `RegisteredNode` of Nodes that the test has made',
    skips: (object) => {
      if (!isEvent(object)) return false;
      const { reason = '', message = '', involvedObject: { name = '' } = {} } = object;
      if (reason === 'RegisteredNode') return name.startsWith('sim-');
      const isCancelled = message.startsWith('Cancelling');
      return !['NodeNotReady', 'TaintManagerEviction'].includes(reason) || isCancelled;
    },
  },
  {
    row: 'how often an Event is there: equal ones, and `count`',
    once: isEvent,
    edit: (copy) => {
      if (copy.kind === 'Event') delete copy.count;
    },
  },
];

interface EventObject extends KubernetesObject {
  readonly reason?: string;
  readonly message?: string;
  readonly involvedObject?: { readonly kind?: string; readonly name?: string };
}

function isEvent(object: KubernetesObject): object is EventObject {
  return object.kind === 'Event';
}

const isVersion = (name: string): boolean => name === 'resourceVersion' || name === 'uid';

const isOfDeployment = ({ kind, metadata }: Copy): boolean =>
  kind === 'ReplicaSet' && (metadata.ownerReferences ?? []).some((owner) => owner.kind === 'Deployment');

/** Whether a controller has made the pod. The test gives its own pods a name, a node and addresses. */
export const isMade = ({ kind, metadata }: Pick<Copy, 'kind'> & { metadata: { generateName?: string } }): boolean =>
  kind === 'Pod' && metadata.generateName !== undefined;

/** The endpoints of pods that a controller has made. */
function madeEndpoints({ kind, endpoints, subsets = [] }: Copy, { given }: Compared): Endpoint[] {
  const all = subsets.flatMap(({ addresses = [], notReadyAddresses = [] }) => [...addresses, ...notReadyAddresses]);
  const found = kind === 'EndpointSlice' ? endpoints : kind === 'Endpoints' ? all : [];
  return (found ?? []).filter(({ targetRef }) => targetRef?.kind === 'Pod' && !given.has(targetRef.name ?? ''));
}

/** The name of the pod, or of the pod that an Event is about. */
function podOf(object: KubernetesObject): string | undefined {
  if (object.kind === 'Pod') return object.metadata.name;
  return isEvent(object) && object.involvedObject?.kind === 'Pod' ? object.involvedObject.name : undefined;
}

function order<K extends string>(object: { [key in K]?: unknown[] | null }, ...lists: K[]): void {
  for (const list of lists) object[list]?.sort((a, b) => (stable(a) < stable(b) ? -1 : 1));
}
