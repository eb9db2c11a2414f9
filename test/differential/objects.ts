import { type KubernetesObject, type Resource, resource, resourcePath } from '../../src/core/index.ts';
import { Endpoints, Node } from '../../src/function/kinds/index.ts';
import { type Cluster, configMaps, pods, replicaSets } from '../harness/cluster.ts';
import { referencesTo } from '../harness/webs.ts';
import { isPlainObject } from './stable.ts';

export const deployments = resource('apps/v1', 'Deployment');
export const services = resource('v1', 'Service');

/** Objects to give to two control planes. All that is random comes from the seed. */
export interface Given {
  readonly deployments: readonly Body[];
  readonly replicaSets: readonly Body[];
  readonly services: readonly Body[];
  readonly endpoints: readonly Body[];
  readonly pods: readonly Body[];
  readonly families: readonly Family[];
  readonly nodes: readonly Body[];
  /** Names of nodes that get the taint of a node that is lost. */
  readonly lost: readonly string[];
  /** Names of nodes whose Lease is renewed. */
  readonly renewed: readonly string[];
  /** Endpoints whose Service is gone: there before the controllers start, and made later. */
  readonly leftEndpoints: readonly [readonly Body[], readonly Body[]];
  /** Namespaces that are deleted, with what they hold. */
  readonly leaving: readonly { readonly namespace: string; readonly held: readonly Body[] }[];
}

/**
 * Two ReplicaSets of one owner. One has three pods, and gets one less. Pods of another owner, which the sibling
 * selects, decide which of the three has to go.
 */
export interface Family {
  readonly name: string;
  readonly pods: readonly Body[];
  readonly strangers: readonly Body[];
  readonly sibling: Body;
  readonly replicaSet: Body;
}

export type Body = { metadata: Readonly<Record<string, unknown>>; [field: string]: unknown };

export class Choice {
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** From 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  of<T>(all: readonly T[]): T {
    return all[this.below(all.length)] as T;
  }

  /** With a chance of one in `times`. */
  once<T>(times: number, value: T): T | undefined {
    return this.below(times) === 0 ? value : undefined;
  }
}

/** A time of the year that the canonical form keeps. */
const timeOf = (second: number): string => `2001-01-01T00:00:${String(second).padStart(2, '0')}Z`;

/** Seconds around 2^53, which a float rounds, and the most that the API takes. */
const INTEGERS = [2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 62n + 1n, 2n ** 63n - 1n];
/**
 * Those of them that kube-controller-manager waits for: 2^62 + 1 seconds in nanoseconds wrap around to one second
 * (getMinTolerationTime, pkg/controller/tainteviction/taint_eviction.go).
 */
const WAITED = INTEGERS.filter((seconds) => seconds !== 2n ** 62n + 1n);

const QUANTITIES = [
  { memory: '64Mi', cpu: '100m' },
  { memory: '67108864', cpu: '0.1' },
  { memory: '1G', cpu: '1' },
  { memory: '1e9', cpu: '1000m' },
  { memory: '1.5Gi', cpu: '1e0' },
];

/** A pod template. @param app all its pods carry it. */
export function template(choice: Choice, app: string): Body {
  return {
    metadata: {
      labels: { app, ...choice.once(3, { tier: choice.of(['front', 'back']) }) },
      ...choice.once(3, { annotations: { note: choice.of(['a', 'b', '']) } }),
    },
    spec: {
      terminationGracePeriodSeconds: choice.of([0, 1, 30]),
      containers: [
        {
          name: 'main',
          image: choice.of(['pause', 'pause:1', 'pause:2']),
          ...choice.once(2, { env: [{ name: 'A', value: choice.of(['1', '2', '']) }] }),
          ...choice.once(2, { resources: { limits: choice.of(QUANTITIES) } }),
          ...choice.once(3, { ports: [{ name: 'http', containerPort: 8080 }] }),
          ...choice.once(4, {
            livenessProbe: { tcpSocket: { port: 8080 }, terminationGracePeriodSeconds: choice.of(INTEGERS) },
          }),
        },
      ],
      ...choice.once(3, { tolerations: [tolerationOf('x', choice.of([300n, ...INTEGERS]))] }),
      ...choice.once(4, { volumes: [{ name: 'v', emptyDir: { sizeLimit: choice.of(['1Gi', '1G', '1073741824']) } }] }),
    },
  };
}

const tolerationOf = (key: string, tolerationSeconds?: bigint) => ({
  key,
  operator: 'Exists',
  effect: 'NoExecute',
  ...(tolerationSeconds === undefined ? {} : { tolerationSeconds }),
});

/** No pod is evicted from a node without a kubelet before the test asks for it. */
const STAYING = ['not-ready', 'unreachable'].map((name) => tolerationOf(`node.kubernetes.io/${name}`));

const STRATEGIES = [
  { type: 'Recreate' },
  { type: 'RollingUpdate' },
  { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
  { type: 'RollingUpdate', rollingUpdate: { maxSurge: '50%', maxUnavailable: '25%' } },
  { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 2 } },
];

const PORTS = [
  [{ port: 80 }],
  [{ name: 'http', port: 80, targetPort: 'http' }],
  [
    { name: 'a', port: 80, targetPort: 8080 },
    { name: 'b', port: 443, targetPort: 8443, protocol: 'TCP', appProtocol: 'https' },
  ],
  [{ name: 'dns', port: 53, protocol: 'UDP' }],
];

const COST = 'controller.kubernetes.io/pod-deletion-cost';
const NODES = 10;
/** The test adds a taint with the key `LEAVE` to the first `TAINTED` nodes. */
export const TAINTED = 2;
export const LEAVE = 'leave';

/** By node: without a kubelet, with an unknown one whose taint is missing, not ready, and ready. */
const CONDITIONS: readonly (readonly [type: string, status: string][] | undefined)[] = [
  ...Array.from({ length: 6 }, () => undefined),
  [['Ready', 'Unknown']],
  [['Ready', 'Unknown']],
  [
    ['MemoryPressure', 'True'],
    ['Ready', 'False'],
  ],
  [
    ['Ready', 'True'],
    ['NetworkUnavailable', 'True'],
  ],
];

const conditionOf = ([type, status]: [string, string]) => ({
  type,
  status,
  reason: `${type}Is${status}`,
  message: 'as given',
  lastHeartbeatTime: timeOf(1),
  lastTransitionTime: timeOf(2),
});

/** How another controller, or the taint manager itself, has marked a pod before it is evicted. */
const MARKS = [
  { status: 'True', reason: 'PreemptionByScheduler', message: 'by another' },
  { status: 'True', reason: 'PreemptionByScheduler', message: 'by another', observedGeneration: 1 },
  { status: 'False', reason: 'PreemptionByScheduler', message: 'no longer' },
  { status: 'True', reason: 'DeletionByTaintManager', message: 'Taint manager: deleting due to NoExecute taint' },
  { status: 'True', reason: 'PreemptionByScheduler', lastProbeTime: timeOf(3) },
].map((condition, at) => ({ type: 'DisruptionTarget', lastTransitionTime: timeOf(at), ...condition }));

/** The status that a kubelet would report. */
function running(choice: Choice, at: number): object {
  const ip = `10.9.0.${at + 1}`;
  const status = choice.of(['True', 'True', 'False']);
  return {
    phase: 'Running',
    podIP: ip,
    podIPs: [{ ip }],
    startTime: timeOf(0),
    conditions: [
      { type: 'PodScheduled', status: 'True', lastTransitionTime: timeOf(0) },
      { type: 'Ready', status, lastTransitionTime: timeOf(1 + at) },
    ],
  };
}

const pausing = (terminationGracePeriodSeconds: number) => ({
  terminationGracePeriodSeconds,
  containers: [{ name: 'main', image: 'pause' }],
});

/** Endpoints that a controller wrote, whose Service is gone; one of them has a leader's record. */
function leftEndpoints(namespace: string, name: string): Body[] {
  const labels = { 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' };
  const annotations = { 'control-plane.alpha.kubernetes.io/leader': '{}' };
  const subsets = [{ addresses: [{ ip: '10.9.1.1' }], ports: [{ port: 80 }] }];
  return [
    { metadata: { namespace, name: `${name}-0`, labels }, subsets },
    { metadata: { namespace, name: `${name}-1`, labels } },
    { metadata: { namespace, name: `${name}-leader`, labels, annotations } },
  ];
}

export function givenOf(choice: Choice, namespace: string): Given {
  const many = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));
  return {
    deployments: many(24, (at) => {
      const name = `deployment-${at}`;
      return {
        metadata: { namespace, name, ...choice.once(2, { annotations: { team: choice.of(['a', 'b']) } }) },
        spec: {
          replicas: choice.below(5),
          selector: { matchLabels: { app: name } },
          strategy: choice.of(STRATEGIES),
          ...choice.once(3, { revisionHistoryLimit: choice.below(3) }),
          ...choice.once(4, { minReadySeconds: 1 }),
          ...choice.once(6, { paused: true }),
          template: template(choice, name),
        },
      };
    }),
    replicaSets: many(24, (at) => {
      const name = `set-${at}`;
      return {
        metadata: { namespace, name },
        spec: {
          replicas: choice.below(4),
          selector: choice.of([
            { matchLabels: { app: name } },
            { matchExpressions: [{ key: 'app', operator: 'In', values: [name, 'other'] }] },
          ]),
          ...choice.once(4, { minReadySeconds: 1 }),
          template: template(choice, name),
        },
      };
    }),
    pods: [
      // Of no owner: some are adopted, some are behind Services.
      ...many(30, (at) => {
        const isAdopted = at % 3 === 0;
        const labels = { app: isAdopted ? `set-${choice.below(24)}` : `alone-${at % 5}` };
        const spec = template(choice, 'alone')['spec'] as { tolerations?: object[] };
        const tolerated = [undefined, ...WAITED].map((seconds) => tolerationOf(LEAVE, seconds));
        const tolerations = [...STAYING, ...(spec.tolerations ?? []), ...(at % 4 === 1 ? [choice.of(tolerated)] : [])];
        return {
          // Among pods with the same cost, chance decides which of them goes.
          metadata: { namespace, name: `pod-${at}`, labels, annotations: { [COST]: String(at) } },
          spec: { ...spec, tolerations, nodeName: `hand-${at % NODES}` },
          ...(isAdopted ? {} : { status: running(choice, at) }),
        };
      }),
      // Evicted by a taint, after another controller has marked them.
      ...many(10, (at) => ({
        metadata: { namespace, name: `marked-${at}`, labels: { app: 'marked' } },
        spec: { ...pausing(30), tolerations: STAYING, nodeName: `hand-${at % TAINTED}` },
        status: { conditions: [MARKS[at >> 1]] },
      })),
    ],
    families: many(4, (at) => {
      const name = `family-${at}`;
      const [near, far] = [`hand-${choice.below(3)}`, `hand-${3 + choice.below(3)}`];
      const podOf = (part: string, nth: number, nodeName: string): Body => ({
        metadata: { namespace, name: `${name}-${part}-${nth}`, labels: { app: `${name}-${part}` } },
        spec: { ...pausing(choice.of([0, 30])), tolerations: STAYING, nodeName },
      });
      const setOf = (part: string, replicas: number): Body => {
        const labels = { app: `${name}-${part}` };
        const spec = {
          replicas,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: pausing(0) },
        };
        return { metadata: { namespace, name: `${name}-${part}` }, spec };
      };
      return {
        name,
        // Alone, the two pods on one node would rank behind the third.
        pods: [near, far, far].map((nodeName, nth) => podOf('own', nth, nodeName)),
        strangers: many(3 + choice.below(2), (nth) => podOf('sibling', nth, near)),
        sibling: setOf('sibling', choice.below(2)),
        replicaSet: setOf('own', 3),
      };
    }),
    services: many(40, (at) => ({
      metadata: { namespace, name: `service-${at}`, ...choice.once(3, { labels: { tier: 'front' } }) },
      spec: {
        ports: choice.of(PORTS),
        ...choice.once(4, { clusterIP: 'None' }),
        ...choice.once(4, { publishNotReadyAddresses: true }),
        ...choice.once(5, { sessionAffinity: 'ClientIP' }),
        ...(at % 4 === 0
          ? {}
          : { selector: choice.of([{ app: `alone-${at % 5}` }, { app: `set-${at % 24}` }, { app: 'none' }]) }),
      },
    })),
    // Of Services without a selector: they are mirrored.
    endpoints: many(10, (at) => ({
      metadata: {
        namespace,
        name: `service-${at * 4}`,
        ...choice.once(3, { labels: { own: 'yes' } }),
        ...choice.once(5, { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } }),
      },
      subsets: [
        {
          addresses: many(1 + choice.below(3), (nth) => ({ ip: `10.7.${at}.${nth + 1}` })),
          ...choice.once(2, { notReadyAddresses: [{ ip: `10.8.${at}.1` }] }),
          ports: choice.of([
            [{ port: 80 }],
            [
              { name: 'a', port: 80 },
              { name: 'b', port: 81 },
            ],
          ]),
        },
      ],
    })),
    nodes: many(NODES, (at) => ({
      metadata: {
        name: `hand-${at}`,
        // A zone that has a ready node, too, would evict from none.
        labels: {
          'topology.kubernetes.io/zone': `zone-${at < 9 ? at % 2 : 'ready'}`,
          ...choice.once(2, { disk: 'fast' }),
        },
      },
      spec: {
        ...choice.once(2, {
          taints: [{ key: 'own', value: 'x', effect: choice.of(['NoSchedule', 'PreferNoSchedule']) }],
        }),
        ...choice.once(4, { unschedulable: true }),
      },
      ...(CONDITIONS[at] ? { status: { conditions: CONDITIONS[at].map(conditionOf) } } : {}),
    })),
    // The sixth has no status, but a Lease.
    lost: [0, 1, 2, 3, 4, 6, 7, 8].map((at) => `hand-${at}`),
    renewed: ['hand-5', 'hand-7'],
    leftEndpoints: [leftEndpoints(namespace, 'left'), leftEndpoints(namespace, 'left-later')],
    leaving: many(16, (at) => ({
      namespace: `${namespace}-leaving-${at}`,
      held: [
        { metadata: { name: 'one' }, data: { a: 'b' } },
        ...(at % 4 === 0 ? [{ metadata: { name: 'held', finalizers: ['example.com/held'] } }] : []),
      ],
    })),
  };
}

/** Creates objects. The status of all pods is written after that, as kubelets would. */
export async function createIn(cluster: Cluster, of: Resource, bodies: readonly Body[]): Promise<void> {
  await Promise.all(bodies.map((body) => cluster.create(of, body)));
  if (of !== pods) return;
  const contentType = 'application/merge-patch+json';
  const reported = bodies.filter(({ status }) => status !== undefined);
  await Promise.all(
    reported.map(({ metadata, status }) => {
      const at = { namespace: String(metadata['namespace']), name: String(metadata['name']), subresource: 'status' };
      return cluster.client.json({ method: 'PATCH', path: resourcePath(of, at), body: { status }, contentType });
    }),
  );
}

/** Creates all objects of the namespace but Endpoints without a Service. */
export async function createGiven(cluster: Cluster, given: Given, namespace: string): Promise<void> {
  await createIn(cluster, Node, given.nodes);
  await createPodsOfFamilies(cluster, given, namespace);
  await createIn(cluster, pods, given.pods);
  await createIn(cluster, replicaSets, given.replicaSets);
  await createIn(cluster, deployments, given.deployments);
  await createIn(cluster, services, given.services);
  await createIn(cluster, Endpoints, given.endpoints);
  await createFamilies(cluster, given, namespace);
}

/** Creates a ConfigMap for an owner. @returns gives a body its reference. */
async function ownedBy(cluster: Cluster, owner: string, namespace: string): Promise<(body: Body) => Body> {
  const created = await cluster.create(configMaps, { metadata: { namespace, name: owner } });
  const ownerReferences = referencesTo([created], created);
  return (body) => ({ ...body, metadata: { ...body.metadata, ownerReferences } });
}

/** Creates the pods of the families, before their ReplicaSets: these adopt them. */
export function createPodsOfFamilies(cluster: Cluster, { families }: Given, namespace: string): Promise<unknown> {
  return Promise.all(
    families.map(async ({ name, pods: own, strangers }) => {
      const ofStranger = await ownedBy(cluster, `${name}-stranger`, namespace);
      await createIn(cluster, pods, [...own, ...strangers.map(ofStranger)]);
    }),
  );
}

export function createFamilies(cluster: Cluster, { families }: Given, namespace: string): Promise<unknown> {
  return Promise.all(
    families.map(async ({ name, sibling, replicaSet }) => {
      const ofFamily = await ownedBy(cluster, name, namespace);
      await createIn(cluster, replicaSets, [sibling, replicaSet].map(ofFamily));
    }),
  );
}

/** Creates the leaving namespaces with their objects, and deletes the namespaces. */
export async function leaveNamespaces(cluster: Cluster, { leaving }: Given): Promise<void> {
  for (const { namespace, held } of leaving) {
    await cluster.createNamespace(namespace);
    for (const body of held) await cluster.create(configMaps, { ...body, metadata: { ...body.metadata, namespace } });
    await cluster.deleteNamespace(namespace);
  }
}

/** Whether its controller has not seen the object as it is now. */
export function isUnseen(object: KubernetesObject): boolean {
  const { status } = object as { readonly status?: { readonly observedGeneration?: number } };
  const isWatched = object.kind === 'Deployment' || object.kind === 'ReplicaSet';
  return isWatched && status?.observedGeneration !== object.metadata.generation;
}

/** A change of a Deployment, as a merge patch. */
export function changeOf(choice: Choice, { metadata, spec }: Body): object {
  const { template: before, replicas = 1 } = spec as { template: Body; replicas?: number };
  const changes: readonly (() => object)[] = [
    () => ({ spec: { replicas: choice.below(6) } }),
    () => ({ spec: { replicas: replicas + 1 } }),
    () => ({ spec: { template: template(choice, String(metadata['name'])) } }),
    () => ({
      spec: {
        template: { spec: { containers: [{ ...firstContainer(before), image: choice.of(['pause:3', 'pause:4']) }] } },
      },
    }),
    () => ({
      spec: {
        template: {
          spec: { containers: [{ ...firstContainer(before), resources: { limits: choice.of(QUANTITIES) } }] },
        },
      },
    }),
    () => ({ spec: { paused: choice.of([true, false, null]) } }),
    () => ({ spec: { revisionHistoryLimit: choice.of([0, 1, 2, null]) } }),
    () => ({ spec: { strategy: { rollingUpdate: null, ...choice.of(STRATEGIES) } } }),
    () => ({ spec: { minReadySeconds: choice.of([0, 1]) } }),
    () => ({ metadata: { annotations: { team: choice.of(['a', 'c', null]), more: choice.of(['x', null]) } } }),
    () => ({ metadata: { labels: { tier: choice.of(['front', 'back', null]) } } }),
  ];
  return choice.of(changes)();
}

function firstContainer(before: Body): object {
  const { containers } = before['spec'] as { containers: readonly object[] };
  return containers[0] ?? {};
}

/** A merge patch applied, as the apiserver does. */
export function merged(object: unknown, patch: unknown): unknown {
  if (!isPlainObject(patch)) return patch;
  const result: Record<string, unknown> = isPlainObject(object) ? { ...object } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}
