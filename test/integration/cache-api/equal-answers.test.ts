import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { AppsV1Api, CoreV1Api, CustomObjectsApi, KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { ApiError, type KubernetesObject, type Resource, resource, resourcePath } from '../../../src/core/index.ts';
import type { CacheScope } from '../../../src/contract/index.ts';
import { sharedConnections } from '../../../src/function/node/index.ts';
import { findOnPath } from '../../../src/testing/process/find-on-path.ts';
import { type ApiSide, type CachedCluster, startCachedCluster } from '../../harness/cached-cluster.ts';
import { type Cluster, configMaps, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { exact } from '../../harness/exact-json.ts';
import { randomJsonPath } from '../../harness/json-paths.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { seededRandom } from '../../harness/seeded-random.ts';
import { Started } from '../../harness/started.ts';

const GROUP = 'answers.levelhook.test';
const deployments = resource('apps/v1', 'Deployment');
const daemonSets = resource('apps/v1', 'DaemonSet');
const autoscalers = resource('autoscaling/v1', 'HorizontalPodAutoscaler');
const services = resource('v1', 'Service');
const namespaces = resource('v1', 'Namespace', { namespaced: false });
const leases = resource('coordination.k8s.io/v1', 'Lease');
const gizmos = resource(`${GROUP}/v1`, 'Gizmo');
const oddities = resource(`${GROUP}/v1`, 'Oddity', { plural: 'oddities' });
const nodes = resource('v1', 'Node', { namespaced: false });
const jobs = resource('batch/v1', 'Job');
const events = resource('v1', 'Event');
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const roles = resource('rbac.authorization.k8s.io/v1', 'ClusterRole', { namespaced: false });
const bindings = resource('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding', { namespaced: false });
const KINDS: readonly Resource[] = [
  configMaps,
  pods,
  replicaSets,
  deployments,
  daemonSets,
  autoscalers,
  services,
  namespaces,
  leases,
  gizmos,
  oddities,
  nodes,
  jobs,
  events,
];
const CLUSTER_WIDE: CacheScope = Object.fromEntries(
  KINDS.map(({ apiVersion, kind }) => [`${apiVersion}/${kind}`, '*']),
);

const PARTS = [{ name: 'wheel', size: 1.5 }, { name: '<axle>' }];
const STATUS = {
  conditions: [
    { type: 'First', status: 'False', n: 1, on: true, inner: { deep: 'x' } },
    { type: 'Ready', status: 'True', n: 2, on: false, reason: 'Because', inner: { deep: 'y' } },
    { type: 'with "quotes" and )', status: 'Unknown', n: 3, on: false, inner: {} },
  ],
};
/** Values as they stand in `.spec.value` of an Oddity, by its name. */
const VALUES: Readonly<Record<string, unknown>> = {
  none: undefined,
  text: 'plain',
  empty: '',
  null: 'null',
  html: '<b> & "c" \u2028',
  object: { b: '<b>&', a: [1, 2.5, null, true], '\u00e9': 1e21 },
  list: ['x', 1],
  'empty-list': [],
  'empty-object': {},
  whole: 5,
  negative: -7,
  large: 1_000_000_000_000,
  float: 1_000_000.5,
  small: 1e-7,
  fraction: 0.0001,
  tiny: 0.00001234,
  'six-digits': 123456.5,
  yes: true,
  no: false,
  never: 'never',
  'no-month': '2025-13-01T00:00:00Z',
  'no-day': '2025-02-30T00:00:00Z',
  'no-hour': '2025-02-03T24:00:00Z',
  'day-alone': '2025-01-01',
  zero: '0001-01-01T00:00:00Z',
  day: '2020-01-01T00:00:00Z',
  zoned: '2020-01-01T00:00:00.5+05:30',
  'small-letters': '2020-01-01t00:00:00z',
  future: '2100-01-01T00:00:00Z',
};
const ODDITIES = Object.fromEntries(
  Object.entries(VALUES).map(([name, value], at) => [
    name,
    { value, size: at, colour: at % 2 === 0 ? 'red' : 'blue', ...(at % 3 === 0 ? { on: true } : {}), parts: PARTS },
  ]),
);
/** Paths whose values are text, and each type of a column for the value. */
const PATHS = [
  '.metadata.annotations.crossplane\\.io/external-name',
  '.metadata.labels.node\\.kubernetes\\.io/instance-type',
  ".metadata.labels['example\\.com/custom-value']",
  ".metadata.annotations['a.b']",
  ".metadata.annotations['a\\.b']",
  '.status.conditions[-1:].type',
  '.status.conditions[-1].type',
  '.status.conditions[0:2].type',
  '.status.conditions[1:].type',
  '.status.conditions[:1].type',
  '.status.conditions[::2].type',
  '.status.conditions[*].type',
  '.status.conditions[9].type',
  '.status.conditions[-9].type',
  '.status.conditions[0,2].type',
  '.status.conditions[?(@.status!="True")].type',
  '.status.conditions[?(@.status=="False")].type',
  ".status.conditions[?(@.type=='Ready')].status",
  '.status.conditions[?(@.reason)].type',
  '.status.conditions[?(@.n>1)].type',
  '.status.conditions[?(@.n<=1)].type',
  '.status.conditions[?(@.n>1.5)].type',
  '.status.conditions[?(@.on==true)].type',
  '.status.conditions[?(@.type=="with \\"quotes\\" and )")].status',
  '.status.conditions[?(@.inner.deep=="x")].type',
  '.status.conditions.type',
  '.status.nothing.at.all',
  '.status',
  '.status.conditions',
  '..deep',
  '.status..deep',
  '.spec.parts[0]',
  '.spec.parts[1].name',
  '.metadata.name.x',
  '.metadata.*.nothing',
];
const COLUMNS = [
  ...PATHS.map((jsonPath, at) => ({ name: `Path${at}`, type: 'string', jsonPath })),
  ...['string', 'integer', 'number', 'boolean', 'date'].map((type) => ({ name: type, type, jsonPath: '.spec.value' })),
];

/** Drawn paths, of which the apiserver refuses some, and columns with them: the gateway shows 64 columns at most. */
const DRAWN = 60;
const DRAWN_COLUMNS = 24;

/** The columns of a definition that the apiserver refuses, by their place. */
async function refusedColumns(definition: object): Promise<ReadonlySet<number>> {
  const path = `${resourcePath(definitions, {})}?dryRun=All`;
  const answer = await cluster.client.json({ method: 'POST', path, body: definition }).catch((error: unknown) => error);
  const said = answer instanceof ApiError ? answer.message : '';
  return new Set([...said.matchAll(/additionalPrinterColumns\[(\d+)\]/g)].map(([, at]) => Number(at)));
}

/** Every field that Kubernetes 1.36 can select by, where the test has objects of the kind. */
function fieldSelectors(inNamespace: string): string[] {
  const of = (path: string, ...selectors: string[]): string[] =>
    selectors.map((selector) => `${path}fieldSelector=${encodeURIComponent(selector)}`);
  const core = (plural: string): string => `/api/v1/namespaces/${inNamespace}/${plural}?`;
  const odd = `/apis/${GROUP}/v1/namespaces/${inNamespace}/oddities?`;
  return [
    ...of(core('services'), 'spec.type=ClusterIP', 'spec.type!=ClusterIP', 'spec.clusterIP=None', 'spec.clusterIPs=x'),
    ...of(
      core('pods'),
      'spec.hostNetwork=false',
      'spec.hostNetwork=true',
      'spec.hostNetwork=',
      'spec.host=',
      'spec.host!=',
    ),
    ...of(core('pods'), 'status.podIPs=', 'status.podIPs=1.2.3.4', 'status.podIP=', 'spec.restartPolicy=Always'),
    ...of(
      core('pods'),
      'spec.schedulerName=default-scheduler',
      'spec.serviceAccountName=default',
      'status.phase!=Pending',
    ),
    ...of(`/api/v1/nodes?labelSelector=of%3D${inNamespace}&`, 'spec.unschedulable=true', 'spec.unschedulable=false'),
    ...of(`/api/v1/nodes?labelSelector=of%3D${inNamespace}&`, 'spec.unschedulable!=true', 'spec.taints=x'),
    ...of(
      core('events'),
      'involvedObject.name=pod-a',
      'reason=Tested',
      'type!=Normal',
      'source=tester',
      'source=kubelet',
    ),
    ...of(
      core('events'),
      'reportingComponent=tester',
      'involvedObject.fieldPath=spec',
      'involvedObject.uid=u',
      'message=x',
    ),
    ...of(`/apis/batch/v1/namespaces/${inNamespace}/jobs?`, 'status.successful=0', 'status.successful=1', 'spec.x=1'),
    ...of(
      odd,
      'spec.size=5',
      'spec.size!=5',
      'spec.colour=red',
      'spec.on=true',
      'spec.on=',
      'spec.on=false',
      'spec.nope=1',
    ),
    ...of(odd, 'spec.colour=red,spec.on!=true', 'metadata.name=text,spec.size=1'),
  ];
}

const started = new Started();
const namespace = uniqueName('answers');
/** With ConfigMaps whose labels are numbers. */
const numbers = uniqueName('numbers');
const controller = uniqueName('reader');
let cluster: Cluster;
let world: CachedCluster;

function podOf(name: string, labels: Record<string, string>) {
  return { metadata: { namespace, name, labels }, spec: { containers: [{ name: 'main', image: 'pause' }] } };
}

/** What only the server that made the answer can know, or what the cache leaves out on purpose (cache-api/README). */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value as Record<string, unknown>)
      .filter(([name]) => name !== 'managedFields')
      .map(([name, each]) => [name, comparable(each)]),
  );
}

interface ListBody {
  kind: string;
  metadata: { resourceVersion?: string; continue?: string };
  items?: Partial<KubernetesObject>[];
  columnDefinitions?: { description: string }[];
}

function normal(text: string): unknown {
  const body = comparable(exact(text)) as ListBody;
  if (body.kind.endsWith('List')) {
    expect(body.metadata.resourceVersion).toMatch(/^[0-9]+$/);
    delete body.metadata.resourceVersion;
    if (body.metadata.continue) body.metadata.continue = 'more';
    // In lists of custom resources the apiserver says so when there is no more.
    else delete body.metadata.continue;
    for (const item of body.items ?? []) {
      delete item.kind;
      delete item.apiVersion;
    }
  }
  if (body.kind === 'Table') {
    // Of a list it is the list's.
    delete body.metadata.resourceVersion;
    if (body.metadata.continue) body.metadata.continue = 'more';
    // In lists of custom resources the apiserver says so when there is no more.
    else delete body.metadata.continue;
    for (const definition of body.columnDefinitions ?? []) definition.description = '';
  }
  return body;
}

/** The age that both say may have grown by a second in between. */
const ageless = (text: string): string => text.replaceAll(/\b\d+[smh](\d+[sm])?\b/g, 'AGE').replaceAll(/ {2,}/g, '  ');

beforeAll(async () => {
  const kubeconfig = inject('kubeconfig');
  cluster = await started.cluster(kubeconfig, namespace);
  await cluster.createNamespace(numbers);
  started.add(() => cluster.deleteNamespace(numbers));
  const user = `levelhook:controller:${controller}`;
  const rules = [
    {
      apiGroups: [''],
      resources: ['configmaps', 'pods', 'services', 'namespaces', 'nodes', 'events'],
      verbs: ['get', 'list'],
    },
    { apiGroups: ['apps'], resources: ['replicasets', 'deployments', 'daemonsets'], verbs: ['get', 'list'] },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['get', 'list'] },
    { apiGroups: [GROUP], resources: ['gizmos', 'oddities'], verbs: ['get', 'list'] },
    { apiGroups: ['batch'], resources: ['jobs'], verbs: ['get', 'list'] },
    { apiGroups: ['autoscaling'], resources: ['horizontalpodautoscalers'], verbs: ['get', 'list'] },
  ];
  const kind = 'ClusterRole';
  await cluster.create(roles, { metadata: { name: controller }, rules });
  await cluster.create(bindings, {
    metadata: { name: controller },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: controller },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: user }],
  });
  started.add(() => cluster.delete(bindings, { name: controller }));
  started.add(() => cluster.delete(roles, { name: controller }));
  const names = { kind: 'Gizmo', plural: 'gizmos', singular: 'gizmo', listKind: 'GizmoList', shortNames: ['gz'] };
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  const additionalPrinterColumns = [
    { name: 'Size', type: 'integer', jsonPath: '.spec.size' },
    { name: 'Text', type: 'string', jsonPath: '.spec.size' },
    { name: 'Ratio', type: 'number', jsonPath: '.spec.size' },
    { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status', priority: 1 },
    { name: 'First', type: 'string', jsonPath: '.spec.parts[0].name' },
    { name: 'Born', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    { name: 'On', type: 'boolean', jsonPath: '.spec.on' },
    // The apiserver takes it, and shows no column from there on.
    { name: 'None', type: 'string', jsonPath: '.spec.parts[?("a"!="with )")]' },
    { name: 'Behind', type: 'string', jsonPath: '.spec.on' },
  ];
  const version = { name: 'v1', served: true, storage: true, schema, additionalPrinterColumns };
  await cluster.create(definitions, {
    metadata: { name: `gizmos.${GROUP}` },
    spec: { group: GROUP, scope: 'Namespaced', names, versions: [version] },
  });
  started.add(() => cluster.delete(definitions, { name: `gizmos.${GROUP}` }));

  const odd = { kind: 'Oddity', plural: 'oddities', singular: 'oddity', listKind: 'OddityList' };
  const fields = { size: { type: 'integer' }, colour: { type: 'string' }, on: { type: 'boolean' } };
  const openAPIV3Schema = {
    type: 'object',
    'x-kubernetes-preserve-unknown-fields': true,
    properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: fields } },
  };
  const oddVersion = {
    name: 'v1',
    served: true,
    storage: true,
    schema: { openAPIV3Schema },
    selectableFields: Object.keys(fields).map((name) => ({ jsonPath: `.spec.${name}` })),
  };
  const definition = (additionalPrinterColumns: readonly object[]) => ({
    metadata: { name: `oddities.${GROUP}` },
    spec: {
      group: GROUP,
      scope: 'Namespaced',
      names: odd,
      versions: [{ ...oddVersion, additionalPrinterColumns }],
    },
  });
  const random = seededRandom('JSON paths');
  const drawn = Array.from({ length: DRAWN }, (_, at) => ({
    name: `Drawn${at}`,
    type: 'string',
    jsonPath: randomJsonPath(random),
  }));
  const refused = await refusedColumns(definition(drawn));
  const kept = drawn.filter((_, at) => !refused.has(at)).slice(0, DRAWN_COLUMNS);
  expect(kept).toHaveLength(DRAWN_COLUMNS);
  await cluster.create(definitions, definition([...COLUMNS, ...kept]));
  started.add(() => cluster.delete(definitions, { name: `oddities.${GROUP}` }));

  await cluster.create(configMaps, {
    metadata: { namespace, name: 'one', labels: { app: 'x' } },
    data: { a: '1', b: '2' },
  });
  await cluster.create(configMaps, { metadata: { namespace, name: 'two', labels: { app: 'y', tier: 'front' } } });
  await cluster.create(configMaps, { metadata: { namespace, name: 'three', annotations: { note: '<b> & "c"' } } });
  await cluster.create(pods, podOf('pod-a', { app: 'x' }));
  await cluster.create(pods, podOf('pod-b', { app: 'x', tier: 'back' }));
  await cluster.create(pods, podOf('pod-c', { app: 'z' }));
  await cluster.create(replicaSets, replicaSet({ namespace, name: 'rs' }, 3));
  await cluster.create(deployments, {
    ...replicaSet({ namespace, name: 'web' }, 2),
  });
  // Fields of other versions, which this one has as annotations.
  await cluster.create(deployments, {
    ...replicaSet({ namespace, name: 'rolled-back' }, 0),
    metadata: { namespace, name: 'rolled-back', annotations: { 'deprecated.deployment.rollback.to': '1' } },
  });
  await cluster.create(resource('autoscaling/v2', 'HorizontalPodAutoscaler'), {
    metadata: { namespace, name: 'web' },
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' },
      maxReplicas: 3,
      metrics: [
        { type: 'Resource', resource: { name: 'memory', target: { type: 'Utilization', averageUtilization: 80 } } },
      ],
      behavior: { scaleDown: { stabilizationWindowSeconds: 60 } },
    },
  });
  const { selector, template: daemon } = replicaSet({ namespace, name: 'daemon' }, 0).spec;
  for (const annotations of [undefined, { note: 'kept' }]) {
    const name = annotations ? 'noted' : 'daemon';
    await cluster.create(daemonSets, {
      metadata: { namespace, name, ...(annotations ? { annotations } : {}) },
      // On no node.
      spec: { selector, template: { ...daemon, spec: { ...daemon.spec, nodeSelector: { no: 'node' } } } },
    });
  }
  await cluster.create(services, {
    metadata: { namespace, name: 'svc' },
    spec: { selector: { app: 'x' }, ports: [{ port: 80, protocol: 'TCP' }], clusterIP: 'None' },
  });
  await cluster.create(leases, { metadata: { namespace, name: 'lease' }, spec: { holderIdentity: 'nobody' } });
  for (const [name, unschedulable] of [
    [`${namespace}-a`, true],
    [`${namespace}-b`, false],
  ] as const) {
    await cluster.create(nodes, { metadata: { name, labels: { of: namespace } }, spec: { unschedulable } });
    started.add(() => cluster.delete(nodes, { name }));
  }
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'pause' }] } };
  await cluster.create(jobs, { metadata: { namespace, name: 'job' }, spec: { template, suspend: true } });
  await cluster.create(events, {
    metadata: { namespace, name: 'happened' },
    type: 'Normal',
    reason: 'Tested',
    reportingComponent: 'tester',
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace, name: 'pod-a', uid: 'u', fieldPath: 'spec' },
  });
  await cluster.create(events, {
    metadata: { namespace, name: 'again' },
    type: 'Warning',
    source: { component: 'kubelet' },
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace, name: 'pod-b' },
  });
  for (const [name, spec] of Object.entries(ODDITIES)) {
    const labels = { 'example.com/custom-value': 'labelled', 'node.kubernetes.io/instance-type': 'm5' };
    const annotations = { 'crossplane.io/external-name': 'acl-ext-1', 'a.b': 'c' };
    await eventually(() =>
      cluster.create(oddities, { metadata: { namespace, name, labels, annotations }, spec, status: STATUS }),
    );
  }
  await eventually(() =>
    cluster.create(gizmos, {
      metadata: { namespace, name: 'gizmo' },
      spec: { size: 3, on: true, parts: [{ name: 'wheel' }] },
      status: {
        conditions: [
          { type: 'Other', status: 'No' },
          { type: 'Ready', status: 'True' },
        ],
      },
    }),
  );
  for (const size of [9007199254740993n, 9223372036854775807n, -9223372036854775808n]) {
    await cluster.create(gizmos, { metadata: { namespace, name: `gizmo${size}` }, spec: { size } });
  }
  for (const n of ['7', '9223372036854775807', '9223372036854775808', '00000000000000000000009']) {
    await cluster.create(configMaps, { metadata: { namespace: numbers, name: `n-${n}`, labels: { n } } });
  }
  world = await startCachedCluster(started, {
    cluster,
    kubeconfig,
    redisUrl: inject('redisUrl'),
    name: controller,
    kinds: KINDS,
    scope: CLUSTER_WIDE,
  });
});
afterAll(() => started.stop());

/** Asks both until they agree: the cache is a moment behind, and other tests work on the same apiserver. */
async function equal(look: (side: ApiSide) => Promise<unknown>): Promise<void> {
  await eventually(async () => {
    const before = await look(world.direct);
    expect(await look(world.cached)).toEqual(before);
  });
}

const cm = `/api/v1/namespaces/${namespace}/configmaps`;
const numbered = `/api/v1/namespaces/${numbers}/configmaps`;
const pod = `/api/v1/namespaces/${namespace}/pods`;
const daemons = `/apis/apps/v1/namespaces/${namespace}/daemonsets`;
const rolledBack = `/apis/apps/v1/namespaces/${namespace}/deployments/rolled-back`;
const autoscaled = `/apis/autoscaling/v1/namespaces/${namespace}/horizontalpodautoscalers`;
const TABLE =
  'application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json';
const PARTIAL = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json';
const CORE_ENTRIES = ['configmaps', 'pods', 'services', 'namespaces', 'events', 'nodes'];

describe('the same request to apiserver and cache API, as a user with the same rights', () => {
  it.each<[string, string?]>([
    [`${cm}/one`],
    [`${cm}/nope`],
    [cm],
    [`/apis/apps/v1/namespaces/${namespace}/deployments/web`],
    [`/apis/${GROUP}/v1/namespaces/${namespace}/gizmos/gizmo`],
    [`/apis/${GROUP}/v1/gizmos`],
    [`/api/v1/namespaces/${namespace}`],
    [`/api/v1/namespaces?fieldSelector=metadata.name=${namespace}`],
    [`/api/v1/namespaces/nobody/configmaps`],
    [`${cm}?labelSelector=app=x`],
    [`${cm}?labelSelector=app+in+(x,y),tier!=front`],
    [`${cm}?labelSelector=!app,kubernetes.io/a+notin+(b)`],
    [`/api/v1/pods?labelSelector=app%3Dx&fieldSelector=metadata.namespace%3D${namespace}`],
    [`${pod}?fieldSelector=spec.nodeName=,metadata.name!=pod-a`],
    [`${pod}?fieldSelector=status.phase=Running`],
    [`${numbered}?labelSelector=n>5`],
    [`${numbered}?labelSelector=n>9223372036854775806`],
    [`${numbered}?labelSelector=n<9223372036854775807`],
    [`${numbered}?labelSelector=n>9223372036854775808`],
    [`${cm}?fieldSelector=metadata.name=one`],
    ...fieldSelectors(namespace).map((path) => [path] as [string]),
    [`${cm}?limit=2`],
    [`${cm}?limit=1&labelSelector=app`],
    [`${cm}?resourceVersion=0`],
    [`${cm}?resourceVersion=1&resourceVersionMatch=NotOlderThan`],
    [`${cm}/one?resourceVersion=1`],
    // Refused.
    [`${cm}?labelSelector=a===b`],
    [`${cm}?labelSelector=a+in`],
    [`${cm}?labelSelector=a+in+(b`],
    [`${cm}?labelSelector=,a`],
    [`${cm}?labelSelector=a,`],
    [`${cm}?labelSelector=-x=1`],
    [`${cm}?labelSelector=a=-b`],
    [`${cm}?labelSelector=a>b`],
    [`${cm}?fieldSelector=spec.foo=1`],
    [`${pod}?fieldSelector=spec.foo=1`],
    [`${cm}?fieldSelector=metadata.name`],
    [`${cm}?limit=abc`],
    [`${cm}?limit=-1`],
    [`${cm}?resourceVersion=abc`],
    [`${cm}?resourceVersionMatch=Exact`],
    [`${cm}?resourceVersionMatch=Foo&resourceVersion=5`],
    [`${cm}?resourceVersionMatch=Exact&resourceVersion=0`],
    [`${cm}?sendInitialEvents=true`],
    ['/api/v1/secrets'],
    [`/api/v1/namespaces/${namespace}/secrets/s`],
    ['/apis/batch/v1/cronjobs'],
    ['/apis/nobody.example.com/v1/namespaces/x/things/y'],
    ['/api/v1/persistentvolumes'],
    [`${pod}/pod-a/log`],
    [`/apis/apps/v1/namespaces/${namespace}/deployments/web/scale`],
    ['/nowhere'],
    [`/api/v1/configmaps/one`],
    // Other forms.
    [`${cm}/one`, TABLE],
    [`${cm}?limit=2`, TABLE],
    [`${pod}?includeObject=None`, TABLE],
    [`/apis/${GROUP}/v1/namespaces/${namespace}/gizmos`, TABLE],
    ...Object.keys(ODDITIES).map((name): [string, string] => [
      `/apis/${GROUP}/v1/namespaces/${namespace}/oddities/${name}?includeObject=None`,
      TABLE,
    ]),
    [`${cm}?limit=1`, PARTIAL],
    [`${cm}/one`, 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'],
    [daemons],
    [daemons, PARTIAL],
    [rolledBack],
    [rolledBack, 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'],
    [autoscaled],
    [autoscaled, PARTIAL],
    [`${daemons}/daemon`, 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'],
    [`${cm}/one`, 'application/vnd.kubernetes.protobuf;as=Table;v=v9;g=meta.k8s.io,application/json'],
  ])('%s %s', async (path, accept) => {
    await equal(async (side) => {
      const { status, text, headers } = await side.ask(path, accept ? { headers: { accept } } : {});
      return { status, type: headers['content-type'], body: normal(text.replaceAll(/"\d+[sm](\d+s)?"/g, '"AGE"')) };
    });
  });

  it('refuses a version from the future, and tells how long to wait', async () => {
    const look = async (side: ApiSide) => {
      const { status, text, headers } = await side.ask(`${cm}?resourceVersion=99999999999`);
      const { message, ...rest } = JSON.parse(text) as { message: string };
      return { status, rest, message: message.replace(/current: .*/, ''), retryAfter: headers['retry-after'] };
    };
    expect(await look(world.cached)).toEqual(await look(world.direct));
  });

  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE'])(
    'allows no %s: 405 where reading is allowed, 403 as the apiserver elsewhere',
    async (method) => {
      const { status, text } = await world.cached.ask(`${cm}/one`, { method });
      expect(status).toBe(405);
      if (method !== 'HEAD') expect(JSON.parse(text)).toMatchObject({ kind: 'Status', reason: 'MethodNotAllowed' });
      if (['HEAD', 'TRACE'].includes(method)) return;
      await equal(async (side) => {
        const answer = await side.ask(`/api/v1/namespaces/${namespace}/secrets/s`, { method });
        return [answer.status, answer.text === '' ? '' : JSON.parse(answer.text)];
      });
    },
  );

  it('continues a list to its end, each object once', async () => {
    const look = async (side: ApiSide) => {
      const names: string[] = [];
      const remaining: unknown[] = [];
      let next = '';
      do {
        const { text } = await side.ask(`${cm}?limit=2&continue=${next}`);
        const list = JSON.parse(text) as {
          metadata: { continue?: string; remainingItemCount?: number };
          items: KubernetesObject[];
        };
        names.push(...list.items.map(({ metadata }) => metadata.name));
        remaining.push(list.metadata.remainingItemCount);
        next = list.metadata.continue ?? '';
      } while (next);
      return { names, remaining };
    };
    await equal(look);
    expect((await look(world.cached)).names).toEqual(['kube-root-ca.crt', 'one', 'three', 'two']);
  });

  it('describes the kinds that may be read, and no other', async () => {
    const resources = async (side: ApiSide, path: string, wanted: readonly string[]) => {
      const list = JSON.parse((await side.ask(path)).text) as { resources: Record<string, unknown>[] };
      const served = list.resources.filter(({ name }) => wanted.includes(String(name)));
      return { ...list, resources: served.map(({ storageVersionHash: _, verbs: __, ...entry }) => entry) };
    };
    const byName = ({ resources: found, ...rest }: Awaited<ReturnType<typeof resources>>) => ({
      ...rest,
      resources: found.toSorted((a, b) => String(a['name']).localeCompare(String(b['name']))),
    });
    await equal(async (side) => byName(await resources(side, '/api/v1', CORE_ENTRIES)));
    await equal(async (side) => byName(await resources(side, '/apis/apps/v1', ['deployments', 'replicasets'])));
    await equal(async (side) => byName(await resources(side, `/apis/${GROUP}/v1`, ['gizmos'])));
    const all = JSON.parse((await world.cached.ask('/api/v1')).text) as {
      resources: { name: string; verbs: string[] }[];
    };
    expect(all.resources.map(({ name }) => name).toSorted()).toEqual(CORE_ENTRIES.toSorted());
    expect(all.resources.every(({ verbs }) => verbs.join(' ') === 'get list')).toBe(true);
    await equal(async (side) => JSON.parse((await side.ask('/apis/apps')).text) as unknown);
    await equal(async (side) => JSON.parse((await side.ask('/version')).text) as unknown);
    expect((await world.cached.ask('/apis/policy/v1')).status).toBe(404);
    const groups = JSON.parse((await world.cached.ask('/apis')).text) as { groups: { name: string }[] };
    expect(groups.groups.map(({ name }) => name).toSorted()).toEqual(
      [GROUP, 'apps', 'autoscaling', 'batch', 'coordination.k8s.io'].toSorted(),
    );
  });
});

interface Aggregated {
  items: {
    metadata?: { name?: string };
    versions: { version: string; freshness: string; resources: Record<string, unknown>[] }[];
  }[];
}

describe('aggregated discovery', () => {
  const V2 = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
  const accept = `${V2},application/json`;

  it.each(['/api', '/apis'])('of %s says of each kind what the apiserver says', async (path) => {
    await equal(async (side) => {
      const { status, headers, text } = await side.ask(path, { headers: { accept } });
      const { items, ...type } = JSON.parse(text) as Aggregated;
      const served = items.flatMap(({ metadata: { name: group = '' } = {}, versions }) =>
        versions.flatMap(({ version, freshness, resources }) =>
          // The cache has no subresources, and is not written to.
          resources.flatMap(({ subresources: _, verbs: __, responseKind, ...rest }) => {
            const { kind } = responseKind as { kind: string };
            const apiVersion = group ? `${group}/${version}` : version;
            // The apiserver leaves group and version out where they are those around it, for its own kinds.
            const known = KINDS.some((each) => each.kind === kind && each.apiVersion === apiVersion);
            return known ? [{ apiVersion, kind, freshness, ...rest }] : [];
          }),
        ),
      );
      expect(served.length).toBeGreaterThan(2);
      return {
        status,
        type,
        content: headers['content-type'],
        served: served.map((each) => JSON.stringify(each)).toSorted(),
      };
    });
  });

  it('holds nothing that may not be read, and is there with nothing to read', async () => {
    const one = await world.side({ 'apps/v1/Deployment': '*' });
    const of = async (path: string): Promise<Aggregated> =>
      JSON.parse((await one.ask(path, { headers: { accept } })).text) as Aggregated;
    expect(
      (await of('/apis')).items.map(({ metadata, versions }) => [
        metadata,
        versions.map((each) => each.resources.length),
      ]),
    ).toEqual([[{ name: 'apps' }, [1]]]);
    expect((await of('/api')).items).toEqual([
      { metadata: {}, versions: [{ version: 'v1', resources: [], freshness: 'Current' }] },
    ]);
  });

  it('is all that kubectl needs to know the kinds', async () => {
    await equal(async (side) => {
      const lines = (await side.kubectl('api-resources', '--no-headers', '--api-group=apps')).trim().split('\n');
      return lines
        .map((line) => line.replaceAll(/ +/g, ' '))
        .filter((line) => /^(deployments|replicasets) /.test(line));
    });
    const log = await world.cached.kubectl('api-resources', '--no-headers', '-v=6');
    expect(log).toMatch(/\/cache\/apis\?/);
    expect(log).not.toMatch(/\/cache\/(api|apis)\/[a-z]/);
  });
});

describe('kubectl, pointed at the cache', () => {
  it.each([
    [['get', 'pods', '-A', '-l', 'app=x', '-o', 'yaml']],
    [['get', 'deploy', '-n', namespace, '-o', 'wide']],
    [['get', 'deploy,rs,svc', '-n', namespace]],
    [['get', 'rs', '-n', namespace, '-o', 'wide']],
    [['get', 'po', '-n', namespace, '-o', 'wide', '--show-labels']],
    [['get', 'pods', '-n', namespace, '--field-selector', 'metadata.name!=pod-a', '-o', 'name']],
    [['get', 'cm', '-n', namespace, '--sort-by=.metadata.uid']],
    [['get', 'cm', 'one', '-n', namespace, '-o', 'json']],
    [['get', 'cm', 'one', 'two', '-n', namespace]],
    [['get', 'cm', 'nope', '-n', namespace]],
    [['get', 'cm', '-n', namespace, '--chunk-size=1', '-o', 'jsonpath={.items[*].metadata.name}']],
    [['get', 'cm', '-n', 'nowhere']],
    [['get', 'ns', namespace]],
    [['get', 'svc', 'svc', '-n', namespace, '-o', 'wide']],
    [['get', 'gz', '-n', namespace]],
    [['get', 'gizmos', '-A', '-o', 'wide']],
    [['get', 'leases', '-n', namespace, '-o', 'yaml']],
    [['get', 'pods', '-n', namespace, '-l', 'app in (x', '-o', 'name']],
    [['get', 'cm,po', '-n', namespace, '-l', 'app', '-o', 'name']],
    [['get', 'cm/one', 'deploy/web', '-n', namespace, '-o', 'name']],
  ])('%j', async (args) => {
    await equal(async (side) => {
      const text = ageless(await side.kubectl(...args));
      return text
        .replaceAll(/"?resourceVersion"?: "?\d*"?/g, 'VERSION')
        .replaceAll(/"metadata":\{VERSION\}/g, 'LIST')
        .trim();
    });
  });

  it('is told that there is no watch', async () => {
    expect(await world.cached.kubectl('get', 'cm', '-n', namespace, '--watch-only')).toMatch(/watch is not supported/);
  });

  it('reads a raw path as it is written', async () => {
    const path = `${cm}?limit=0&labelSelector=app=nobody`;
    await equal(async (side) => normal(await side.kubectl('get', '--raw', path)));
  });

  it('finds no kind that may not be read', async () => {
    expect(await world.cached.kubectl('get', 'secrets', '-n', namespace)).toMatch(
      /doesn't have a resource type "secrets"/,
    );
  });

  it('is told that nothing can be written', async () => {
    expect(await world.cached.kubectl('delete', 'cm', 'one', '-n', namespace)).toMatch(/does not allow this method/);
  });
});

describe("client-node's own classes, pointed at the cache", () => {
  function clientOf(side: ApiSide): KubeConfig {
    const config = new KubeConfig();
    config.loadFromString(readFileSync(side.kubeconfig, 'utf8'));
    return sharedConnections(config);
  }

  const plain = (value: unknown): unknown => {
    const body = comparable(JSON.parse(JSON.stringify(value))) as ListBody;
    for (const item of body.items ?? []) {
      delete item.kind;
      delete item.apiVersion;
    }
    if (body.items) {
      delete body.metadata.resourceVersion;
      if (!body.metadata.continue) delete body.metadata.continue;
    }
    return body;
  };
  const failure = async (asked: Promise<unknown>) => {
    try {
      return plain(await asked);
    } catch (error) {
      const { code, body } = error as { code: number; body: string };
      return { code, body: JSON.parse(body) as unknown };
    }
  };

  it('reads and lists, and fails, as from the apiserver', async () => {
    await equal(async (side) => {
      const config = clientOf(side);
      const core = config.makeApiClient(CoreV1Api);
      const apps = config.makeApiClient(AppsV1Api);
      const custom = config.makeApiClient(CustomObjectsApi);
      return Promise.all([
        failure(core.readNamespacedConfigMap({ namespace, name: 'one' })),
        failure(core.readNamespacedConfigMap({ namespace, name: 'nope' })),
        failure(core.listNamespacedPod({ namespace, labelSelector: 'app=x' })),
        failure(core.listPodForAllNamespaces({ fieldSelector: `metadata.namespace=${namespace}` })),
        failure(core.listNamespacedSecret({ namespace })),
        failure(core.listNamespacedConfigMap({ namespace, labelSelector: 'a===b' })),
        failure(apps.readNamespacedDeployment({ namespace, name: 'web' })),
        failure(apps.listReplicaSetForAllNamespaces({ labelSelector: 'nobody' })),
        failure(custom.listNamespacedCustomObject({ group: GROUP, version: 'v1', namespace, plural: 'gizmos' })),
        failure(
          custom.getNamespacedCustomObject({ group: GROUP, version: 'v1', namespace, plural: 'gizmos', name: 'gizmo' }),
        ),
      ]);
    });
  });
});

/** As the control plane's own programs are built; without it this one program is not run, and says so. */
const go = findOnPath(['go'], process.env['PATH']);

describe("client-go's clients, pointed at the cache", () => {
  const run = promisify(execFile);

  it.skipIf(go === undefined)(
    'read and list, page, and fail, as from the apiserver',
    async () => {
      const directory = await started.directory();
      const program = join(directory, 'reader');
      const cwd = resolve(import.meta.dirname, '../../harness/client-go-reader');
      // A cold build cache takes minutes.
      await run(go ?? 'go', ['build', '-o', program, '.'], { cwd, timeout: 600_000 });
      await equal(async (side) => JSON.parse((await run(program, [side.kubeconfig, namespace])).stdout) as string[]);
      const { stdout } = await run(program, [world.cached.kubeconfig, namespace]);
      const said = JSON.parse(stdout) as string[];
      for (const what of ['dynamic', 'selected', 'paged', 'metadata']) {
        expect(said.filter((line) => line.startsWith(`${what}: ${namespace}/one `))).toHaveLength(2);
      }
    },
    700_000,
  );
});
