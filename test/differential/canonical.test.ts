import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { KubernetesObject } from '../../src/core/index.ts';
import { canonical } from './canonical.ts';
import { type Omission, OMISSIONS } from './omissions.ts';
import { isPlainObject } from './stable.ts';

const readme = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8');
const HASH = '5d9c7b';
const LEAVING = 'leaving';
const time = '2026-01-02T03:04:05Z';
const given = '2001-01-01T00:00:01Z';
const containers = [
  { name: 'main', image: 'pause', env: [{ name: 'A', value: '1' }], volumeMounts: [{ name: 'v', mountPath: '/v' }] },
];
const labels = { app: 'web', 'pod-template-hash': HASH };
const condition = (type: string, lastTransitionTime = time) => ({
  type,
  status: 'True',
  reason: 'AsExpected',
  message: `ReplicaSet "web-${HASH}" is there`,
  lastTransitionTime,
});
const complete = {
  ...condition('Progressing'),
  reason: 'NewReplicaSetAvailable',
  message: `ReplicaSet "web-${HASH}" has successfully progressed.`,
};
const ownerOf = (kind: string, name: string) => [{ apiVersion: 'apps/v1', kind, name, uid: 'u-1', controller: true }];
const targetOf = (name: string) => ({ kind: 'Pod', namespace: 'n', name, uid: 'u-2' });

function object(kind: string, metadata: object, rest: object = {}): KubernetesObject {
  const own = { namespace: 'n', uid: 'u-3', resourceVersion: '7', creationTimestamp: time };
  const managedFields = [{ manager: 'test', operation: 'Update' }];
  return { apiVersion: 'v1', kind, metadata: { ...own, managedFields, ...metadata }, ...rest } as KubernetesObject;
}

const podStatus = {
  phase: 'Running',
  hostIP: '10.0.0.1',
  hostIPs: [{ ip: '10.0.0.1' }],
  podIP: '10.9.0.1',
  podIPs: [{ ip: '10.9.0.1' }],
  startTime: given,
  conditions: [condition('Ready', given), condition('PodScheduled')],
  containerStatuses: [{ name: 'main', containerID: 'c-1', ready: true, state: { running: { startedAt: time } } }],
};
const tokenMount = (name: string) => ({ name: 'init', image: 'pause', volumeMounts: [{ name, mountPath: '/token' }] });
const eventOf = (name: string, reason: string, about: string, kind = 'Pod') =>
  object(
    'Event',
    { name },
    {
      type: 'Normal',
      reason,
      message: `Marking for deletion Pod n/${about}`,
      involvedObject: { kind, namespace: 'n', name: about, uid: 'u-4' },
      source: { component: 'taint-eviction-controller' },
      count: 1,
      firstTimestamp: time,
      lastTimestamp: time,
    },
  );

/** Each kind that is compared, with each field that a controller or a kubelet writes. */
const SAMPLES: readonly KubernetesObject[] = [
  object(
    'Deployment',
    { name: 'web', labels: {}, annotations: { team: 'a', 'kubectl.kubernetes.io/restartedAt': time }, generation: 3 },
    {
      spec: { replicas: 2, template: { metadata: { labels: { app: 'web' } }, spec: { containers } } },
      status: { observedGeneration: 3, replicas: 2, conditions: [condition('Available'), complete] },
    },
  ),
  object(
    'ReplicaSet',
    {
      name: `web-${HASH}`,
      labels,
      generation: 4,
      ownerReferences: ownerOf('Deployment', 'web'),
      annotations: {
        'deployment.kubernetes.io/revision': '1',
        'deployment.kubernetes.io/desired-replicas': '2',
        'deployment.kubernetes.io/max-replicas': '3',
      },
    },
    {
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers } },
      },
      status: { observedGeneration: 4, replicas: 2, conditions: [condition('A'), condition('B')] },
    },
  ),
  object(
    'ReplicaSet',
    { name: 'set', generation: 2, annotations: {} },
    { spec: { replicas: 1 }, status: { observedGeneration: 2, replicas: 1 } },
  ),
  object(
    'Pod',
    {
      name: `web-${HASH}-x7`,
      generateName: `web-${HASH}-`,
      labels,
      generation: 1,
      ownerReferences: ownerOf('ReplicaSet', `web-${HASH}`),
      deletionTimestamp: time,
      deletionGracePeriodSeconds: 30,
    },
    {
      spec: {
        nodeName: 'sim-1',
        containers,
        initContainers: [tokenMount('kube-api-access-q5')],
        tolerations: [{ key: 'x', operator: 'Exists', tolerationSeconds: 2n ** 53n + 1n }],
        volumes: [{ name: 'kube-api-access-q5', projected: { defaultMode: 420 } }, { name: 'v' }],
      },
      status: podStatus,
    },
  ),
  object('Pod', { name: 'own' }, { spec: { nodeName: 'hand-1', containers }, status: podStatus }),
  object('Pod', { name: LEAVING }, { spec: { nodeName: 'hand-2', containers }, status: podStatus }),
  object(
    'Service',
    { name: 'web' },
    { spec: { clusterIP: '10.1.0.1', clusterIPs: ['10.1.0.1'], ports: [{ port: 80 }, { port: 81 }] } },
  ),
  object('Service', { name: 'headless' }, { spec: { clusterIP: 'None', clusterIPs: ['None'] } }),
  object(
    'Endpoints',
    { name: 'web', annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': time, own: 'yes' } },
    {
      subsets: [
        {
          addresses: [
            { ip: '10.9.0.1', nodeName: 'sim-1', targetRef: targetOf(`web-${HASH}-x7`) },
            { ip: '10.9.0.2', nodeName: 'hand-1', targetRef: targetOf('own') },
          ],
          notReadyAddresses: [{ ip: '10.9.0.3', hostname: 'a' }, { ip: '10.9.0.4' }],
          ports: [{ port: 80 }, { port: 81 }],
        },
        { addresses: [{ ip: '10.9.0.5' }], ports: [{ port: 82 }] },
      ],
    },
  ),
  object(
    'EndpointSlice',
    { name: 'web-k2', generateName: 'web-', generation: 5, ownerReferences: ownerOf('Service', 'web') },
    {
      addressType: 'IPv4',
      endpoints: [
        {
          addresses: ['10.9.0.1'],
          conditions: { ready: true, serving: true, terminating: false },
          nodeName: 'sim-1',
          zone: 'a',
          targetRef: targetOf(`web-${HASH}-x7`),
        },
        {
          addresses: ['10.9.0.2'],
          conditions: { ready: false },
          nodeName: 'hand-1',
          zone: 'b',
          targetRef: targetOf('own'),
        },
      ],
      ports: [{ port: 80 }, { port: 81 }],
    },
  ),
  object('EndpointSlice', { name: 'none-k3', generateName: 'none-' }, { endpoints: null, ports: null }),
  object(
    'Node',
    { name: 'hand-1', labels: { disk: 'fast' } },
    {
      spec: {
        unschedulable: true,
        taints: [
          { key: 'a', effect: 'NoExecute', timeAdded: time },
          { key: 'b', effect: 'NoSchedule' },
        ],
      },
      status: {
        conditions: [{ ...condition('Ready', given), lastHeartbeatTime: time }, condition('NetworkUnavailable')],
      },
    },
  ),
  object(
    'Namespace',
    { name: 'leaving', deletionTimestamp: time },
    { spec: { finalizers: ['kubernetes'] }, status: { phase: 'Terminating', conditions: [condition('A')] } },
  ),
  object('ConfigMap', { name: 'held', finalizers: ['example.com/held'] }, { data: { a: 'b' } }),
  eventOf('own.1', 'TaintManagerEviction', 'own'),
  eventOf('own.2', 'Scheduled', 'own'),
  eventOf('leaving.3', 'TaintManagerEviction', LEAVING),
  eventOf('sim-1.4', 'RegisteredNode', 'sim-1', 'Node'),
  eventOf('hand-1.5', 'RegisteredNode', 'hand-1', 'Node'),
];

interface Change {
  /** `Pod own status.hostIP: another value`. */
  readonly title: string;
  /** The fields on the way. None: the change is not of one field. */
  readonly fields: readonly string[];
  readonly objects: readonly KubernetesObject[];
}

/** Each value of each sample is another one, each field is gone, each list is in reverse. */
function changes(): Change[] {
  const ofFields = SAMPLES.flatMap((sample, at) => {
    const { kind, metadata } = sample;
    return variantsOf(sample).map(({ fields, title, value }): Change => {
      const objects = SAMPLES.with(at, value as KubernetesObject);
      return { title: `${kind} ${metadata.name} ${fields.join('.')}: ${title}`, fields, objects };
    });
  });
  const ofAll = SAMPLES.flatMap((sample, at): Change[] => {
    const title = `${sample.kind} ${sample.metadata.name}`;
    return [
      { title: `${title}: gone`, fields: [], objects: SAMPLES.toSpliced(at, 1) },
      { title: `${title}: twice`, fields: [], objects: [...SAMPLES, sample] },
    ];
  });
  const rewritten = (each: unknown): unknown => mapped(each, (text) => text.replaceAll(HASH, '8f6e4d'));
  const renamed = (each: unknown): unknown => mapped(each, (text) => text.replace(/".*" has/, '"other" has'));
  const sets = SAMPLES.map((each) => (each.metadata.name === `web-${HASH}` ? afterWrite(each) : each));
  return [
    ...ofFields,
    ...ofAll,
    { title: 'another hash', fields: [], objects: SAMPLES.map(rewritten) as KubernetesObject[] },
    { title: 'a complete rollout of another ReplicaSet', fields: ['message'], objects: SAMPLES.map(renamed) as never },
    { title: 'a further write of a ReplicaSet', fields: ['generation'], objects: sets },
  ];
}

function afterWrite(set: KubernetesObject): KubernetesObject {
  const { metadata, status } = set as KubernetesObject & { readonly status?: object };
  const changed = { ...set, metadata: { ...metadata, generation: 5 }, status: { ...status, observedGeneration: 5 } };
  return changed;
}

interface Variant {
  readonly fields: readonly string[];
  readonly title: string;
  readonly value: unknown;
}

function variantsOf(value: unknown): Variant[] {
  if (Array.isArray(value)) {
    const all: readonly unknown[] = value;
    const reversed = { fields: [], title: 'in reverse', value: all.toReversed() };
    const inside = all.flatMap((each, at) =>
      variantsOf(each).map((variant) => ({ ...variant, value: all.with(at, variant.value) })),
    );
    return [...(all.length > 1 ? [reversed] : []), ...inside];
  }
  if (!isPlainObject(value)) return [{ fields: [], title: 'another value', value: another(value) }];
  return Object.entries(value).flatMap(([name, each]) => {
    const { [name]: _, ...without } = value;
    const inside = variantsOf(each).map((variant) => ({
      ...variant,
      fields: [name, ...variant.fields],
      value: { ...value, [name]: variant.value },
    }));
    // Each object has these.
    return ['kind', 'metadata', 'name'].includes(name)
      ? inside
      : [{ fields: [name], title: 'gone', value: without }, ...inside];
  });
}

function another(value: unknown): unknown {
  if (value === null) return [];
  if (typeof value === 'number') return value + 1;
  if (typeof value === 'bigint') return value + 1n;
  if (typeof value === 'boolean') return !value;
  if (typeof value !== 'string') throw new Error(`no other value for ${JSON.stringify(value)}`);
  return value.endsWith('Z') ? value.replace(/\dZ$/, (digit) => (digit === '7Z' ? '8Z' : '7Z')) : `${value}x`;
}

function mapped(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((each) => mapped(each, change));
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapped(each, change)]));
}

const form = (objects: readonly KubernetesObject[], omissions: readonly Omission[]): string =>
  canonical(objects, { leaving: new Set([LEAVING]), omissions }).join('\n');

/** The changes that these omissions hide. */
function hidden(all: readonly Change[], omissions: readonly Omission[]): Change[] {
  const before = form(SAMPLES, omissions);
  return all.filter(({ objects }) => form(objects, omissions) === before);
}

/** Whether a row names the field in backticks, if need be with a `*`. */
function isNamedIn(row: string, field: string): boolean {
  const names = [...row.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name);
  const [last = ''] = field.split('/').slice(-1);
  return names.some((name) => new RegExp(`^${name.replaceAll('*', '.*')}$`).test(last));
}

describe('the canonical form', () => {
  const all = changes();
  const byOmission = new Map(OMISSIONS.map((omission) => [omission, hidden(all, [omission])]));

  it('has a row with a reason in the README for each omission, and no other row', () => {
    const table = readme.split('\n').filter((line) => line.startsWith('| '));
    const cells = table.slice(2).map((line) => line.split('|').map((cell) => cell.trim()));
    expect(cells.map(([, row]) => row)).toEqual(OMISSIONS.map(({ row }) => row));
    expect(cells.filter(([, , reason = '']) => reason.length < 5)).toEqual([]);
  });

  it('shows every change of every field without its omissions', () => {
    expect(all.length).toBeGreaterThan(500);
    expect(hidden(all, []).map(({ title }) => title)).toEqual([]);
  });

  it('hides something by each omission', () => {
    const idle = [...byOmission].filter(([, changed]) => changed.length === 0);
    expect(idle.map(([{ row }]) => row)).toEqual([]);
  });

  it('names in the row of an omission each field that it hides', () => {
    const unnamed = [...byOmission].flatMap(([{ row, skips }, changed]) =>
      changed
        .filter(({ fields }) => !skips && fields.length > 0 && !fields.some((field) => isNamedIn(row, field)))
        .map(({ title }) => `${row}: ${title}`),
    );
    expect(unnamed).toEqual([]);
  });

  it('hides no change by two omissions together', () => {
    const alone = new Set([...byOmission.values()].flat());
    expect(
      hidden(all, OMISSIONS)
        .filter((change) => !alone.has(change))
        .map(({ title }) => title),
    ).toEqual([]);
  });
});
