import { isPlainObject } from './canonical.ts';

/** Objects to give to two control planes. All that is random comes from the seed. */
export interface Given {
  readonly deployments: readonly Body[];
  readonly replicaSets: readonly Body[];
  readonly services: readonly Body[];
  readonly endpoints: readonly Body[];
  readonly pods: readonly Body[];
  readonly nodes: readonly Body[];
  /** Namespaces that are deleted, with what they hold. */
  readonly leaving: readonly { readonly namespace: string; readonly held: readonly Body[] }[];
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
        },
      ],
      ...choice.once(4, {
        tolerations: [{ key: 'x', operator: 'Exists', tolerationSeconds: 300, effect: 'NoExecute' }],
      }),
      ...choice.once(4, { volumes: [{ name: 'v', emptyDir: { sizeLimit: choice.of(['1Gi', '1G', '1073741824']) } }] }),
    },
  };
}

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
    // Of no owner: some are adopted, some are behind Services.
    pods: many(30, (at) => {
      const { spec } = template(choice, 'alone');
      const labels = { app: at % 3 === 0 ? `set-${choice.below(24)}` : `alone-${at % 5}` };
      return {
        metadata: { namespace, name: `pod-${at}`, labels },
        spec: { ...(spec as object), nodeName: `hand-${at % 6}` },
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
    nodes: many(6, (at) => ({
      metadata: {
        name: `hand-${at}`,
        labels: { 'topology.kubernetes.io/zone': `zone-${at % 2}`, ...choice.once(2, { disk: 'fast' }) },
      },
      spec: {
        ...choice.once(2, {
          taints: [{ key: 'own', value: 'x', effect: choice.of(['NoSchedule', 'PreferNoSchedule']) }],
        }),
      },
    })),
    leaving: many(16, (at) => ({
      namespace: `${namespace}-leaving-${at}`,
      held: [
        { metadata: { name: 'one' }, data: { a: 'b' } },
        ...(at % 4 === 0 ? [{ metadata: { name: 'held', finalizers: ['example.com/held'] } }] : []),
      ],
    })),
  };
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
