import 'reflect-metadata';
import { Pkcs10CertificateRequestGenerator } from '@peculiar/x509';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { checkFields, SELECTABLE } from '../../../src/contract/selectable-fields.ts';
import {
  ApiError,
  formatKind,
  groupOf,
  type KubernetesObject,
  type Resource,
  resource,
  resourcePath,
} from '../../../src/core/index.ts';
import { type ApiSide, type CachedCluster, startCachedCluster } from '../../harness/cached-cluster.ts';
import { type Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';

const ofCluster = { namespaced: false };
const nodes = resource('v1', 'Node', ofCluster);
const replicationControllers = resource('v1', 'ReplicationController');
const namespaces = resource('v1', 'Namespace', ofCluster);
const secrets = resource('v1', 'Secret');
const services = resource<KubernetesObject & { spec: { clusterIP: string } }>('v1', 'Service');
const events = resource('v1', 'Event');
const newEvents = resource('events.k8s.io/v1', 'Event');
const jobs = resource('batch/v1', 'Job');
const requests = resource('certificates.k8s.io/v1', 'CertificateSigningRequest', ofCluster);
const slices = resource('resource.k8s.io/v1', 'ResourceSlice', ofCluster);
const serviceAccounts = resource('v1', 'ServiceAccount');
const roles = resource('rbac.authorization.k8s.io/v1', 'ClusterRole', ofCluster);
const bindings = resource('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding', ofCluster);

const started = new Started();
const namespace = uniqueName('fields');
const controller = uniqueName('reader');
const node = `${namespace}-node`;
/** A namespace that is being deleted. */
const going = `${namespace}-going`;
/** The address that the apiserver has given to a Service. */
let clusterIP = '';

/** The object of both Events. Each Event is created as v1; events.k8s.io names some of its fields otherwise. */
const ABOUT = {
  kind: 'Pod',
  namespace,
  name: 'full',
  uid: 'an-id',
  apiVersion: 'v1',
  resourceVersion: '7',
  fieldPath: 'spec.containers{main}',
};
const under = (field: string): Record<string, string> =>
  Object.fromEntries(Object.entries(ABOUT).map(([name, value]) => [`${field}.${name}`, value]));

/** By kind, each field with a value that one of the objects has, and another has not. */
const CASES: readonly { of: Resource; values: Readonly<Record<string, string | (() => string)>> }[] = [
  {
    of: pods,
    values: {
      'spec.nodeName': node,
      'spec.restartPolicy': 'Never',
      'spec.schedulerName': 'mine',
      'spec.serviceAccountName': 'robot',
      'status.phase': 'Running',
      'status.podIP': '10.1.2.3',
      'status.nominatedNodeName': 'elsewhere',
      'spec.hostNetwork': 'true',
      'spec.host': node,
      'status.podIPs': '10.1.2.3',
    },
  },
  { of: nodes, values: { 'spec.unschedulable': 'true' } },
  { of: replicationControllers, values: { 'status.replicas': '1' } },
  { of: namespaces, values: { 'status.phase': 'Terminating' } },
  { of: secrets, values: { type: 'example.com/token' } },
  { of: services, values: { 'spec.clusterIP': () => clusterIP, 'spec.type': 'NodePort' } },
  {
    of: events,
    values: {
      ...under('involvedObject'),
      reason: 'Tested',
      reportingComponent: 'tester',
      type: 'Warning',
      source: 'kubelet',
    },
  },
  {
    of: newEvents,
    values: { ...under('regarding'), reason: 'Tested', reportingController: 'tester', type: 'Warning' },
  },
  { of: jobs, values: { 'status.successful': '1' } },
  { of: requests, values: { 'spec.signerName': 'example.com/one' } },
  { of: slices, values: { 'spec.nodeName': node, 'spec.driver': 'one.example.com' } },
];
/**
 * Fields with one value in all objects: `status.podIPs` is empty for the apiserver, which refuses Events about another
 * namespace.
 */
const SAME = new Set(['status.podIPs', 'involvedObject.namespace', 'regarding.namespace']);

let cluster: Cluster;
let world: CachedCluster;

beforeAll(async () => {
  const kubeconfig = inject('kubeconfig');
  cluster = await started.cluster(kubeconfig, namespace);
  await allowReading();
  await createObjects();
  world = await startCachedCluster(started, {
    cluster,
    kubeconfig,
    redisUrl: inject('redisUrl'),
    name: controller,
    kinds: CASES.map(({ of }) => of),
    scope: Object.fromEntries(CASES.map(({ of }) => [formatKind(of), '*'])),
  });
});
afterAll(() => started.stop());

it('each field by which the gateway lets built-in kinds be selected is compared with the apiserver', async () => {
  const fieldsOf = (of: object): string[] => Object.keys(of).toSorted();
  const served = new Set((await servedKinds()).map(({ of }) => formatKind(of)));
  expect(Object.fromEntries(CASES.map(({ of, values }) => [formatKind(of), fieldsOf(values)]))).toEqual(
    Object.fromEntries(
      Object.entries(SELECTABLE).flatMap(([kind, fields]) => (served.has(kind) ? [[kind, fieldsOf(fields)]] : [])),
    ),
  );
});

it('each built-in kind can be selected by the fields of its schema that the apiserver selects it by, and by no other', async () => {
  const asked = (await servedKinds()).flatMap(({ of, paths }) => paths.map((path) => ({ of, path })));
  expect(asked.length).toBeGreaterThan(500);
  const wrong: string[] = [];
  const next = async (): Promise<void> => {
    for (let each = asked.pop(); each; each = asked.pop()) {
      const { of, path } = each;
      const request = cluster.client.json({ path: `${resourcePath(of, {})}?limit=1&fieldSelector=${path}%3Dx` });
      const isSelectable = await request.then(
        () => true,
        (error: unknown) => !(error instanceof ApiError && error.code === 400),
      );
      if (isSelectable !== canSelect(of, path)) wrong.push(`${formatKind(of)} ${path}: ${isSelectable}`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, next));
  expect(wrong).toEqual([]);
});

function canSelect(of: Resource, field: string): boolean {
  try {
    checkFields(of, [{ field, operator: '=', value: 'x' }]);
    return true;
  } catch {
    return false;
  }
}

interface Schema {
  readonly type?: string;
  readonly allOf?: readonly { readonly $ref: string }[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly 'x-kubernetes-group-version-kind'?: readonly { group: string; version: string; kind: string }[];
}

/**
 * The kinds of Kubernetes' own groups that the apiserver lists, with the paths of one and two names in their schemas.
 */
async function servedKinds(): Promise<{ of: Resource; paths: string[] }[]> {
  const read = (path: string): Promise<unknown> => cluster.client.json({ path });
  const { paths } = (await read('/openapi/v3')) as { paths: Readonly<Record<string, { serverRelativeURL: string }>> };
  const own = Object.entries(paths).filter(([path]) => /^(api|apis\/([a-z]+|[a-z.]+\.k8s\.io))\/v[^/]+$/.test(path));
  const found = await Promise.all(
    own.map(async ([path, { serverRelativeURL }]) => {
      const [{ resources }, { components }] = (await Promise.all([read(`/${path}`), read(serverRelativeURL)])) as [
        { resources: { name: string; kind: string; namespaced: boolean; verbs: string[] }[] },
        { components: { schemas: Readonly<Record<string, Schema>> } },
      ];
      const apiVersion = path.replace(/^apis?\//, '');
      return resources
        .filter(({ name, verbs }) => !name.includes('/') && verbs.includes('list'))
        .map(({ name, kind, namespaced }) => ({
          of: resource(apiVersion, kind, { plural: name, namespaced }),
          paths: pathsOf(kind, components.schemas),
        }));
    }),
  );
  return found.flat();
}

function pathsOf(kind: string, schemas: Readonly<Record<string, Schema>>): string[] {
  const whole = Object.values(schemas).find((each) =>
    each['x-kubernetes-group-version-kind']?.some((of) => of.kind === kind),
  );
  return Object.entries(whole?.properties ?? {}).flatMap(([name, { type, allOf }]) => {
    const [{ $ref } = { $ref: '' }] = allOf ?? [];
    const inner = Object.keys(schemas[$ref.split('/').at(-1) ?? '']?.properties ?? {});
    return type === 'string' ? [name] : inner.map((each) => `${name}.${each}`);
  });
}

describe.each(CASES.map((each) => ({ ...each, kind: formatKind(each.of) })))(
  'the cache API selects $kind as the apiserver does',
  ({ of, values }) => {
    it.each(Object.entries(values))('by %s', async (field, value) => {
      const text = typeof value === 'string' ? value : value();
      const found: string[][] = [];
      for (const selector of [`=${text}`, `!=${text}`, '=', '!=', '=of-nobody', '!=of-nobody']) {
        await eventually(async () => {
          const expected = await namesOf(world.direct, of, field + selector);
          expect(await namesOf(world.cached, of, field + selector), field + selector).toEqual(expected);
          found.push(expected);
        });
      }
      if (SAME.has(field)) return;
      const [equal, other] = found;
      expect(equal).not.toEqual([]);
      expect(other).not.toEqual([]);
    });
  },
);

async function namesOf(side: ApiSide, of: Resource, fieldSelector: string): Promise<string[]> {
  const query = new URLSearchParams({ fieldSelector, ...(of.namespaced ? {} : { labelSelector: `of=${namespace}` }) });
  const path = resourcePath(of, of.namespaced ? { namespace } : {});
  const { status, text } = await side.ask(`${path}?${query.toString()}`);
  if (status !== 200) throw new Error(`${fieldSelector}: ${status} ${text}`);
  return (JSON.parse(text) as { items: KubernetesObject[] }).items.map(({ metadata }) => metadata.name).toSorted();
}

async function allowReading(): Promise<void> {
  const rules = CASES.map(({ of }) => ({ apiGroups: [groupOf(of)], resources: [of.plural], verbs: ['get', 'list'] }));
  const apiGroup = 'rbac.authorization.k8s.io';
  await make(roles, { metadata: { name: controller }, rules });
  await make(bindings, {
    metadata: { name: controller },
    roleRef: { apiGroup, kind: 'ClusterRole', name: controller },
    subjects: [{ apiGroup, kind: 'User', name: `levelhook:controller:${controller}` }],
  });
}

/** Of each kind an object with all of the fields, where the apiserver lets one have them, and one without. */
async function createObjects(): Promise<void> {
  const own = { of: namespace };
  const named = (name: string) => ({ namespace, name });
  await make(nodes, { metadata: { name: node, labels: own }, spec: { unschedulable: true } });
  await make(nodes, { metadata: { name: `${namespace}-other`, labels: own } });

  await cluster.create(serviceAccounts, { metadata: named('robot') });
  const containers = [{ name: 'main', image: 'pause' }];
  const spec = { containers, nodeName: node, restartPolicy: 'Never', schedulerName: 'mine' };
  await cluster.create(pods, { metadata: named('full'), spec: { ...spec, serviceAccountName: 'robot' } });
  await cluster.create(pods, { metadata: named('on-host'), spec: { containers, hostNetwork: true } });
  await cluster.create(pods, { metadata: named('empty'), spec: { containers } });
  await patchStatus(pods, 'full', { phase: 'Running', podIP: '10.1.2.3', podIPs: [{ ip: '10.1.2.3' }] });
  await patchStatus(pods, 'empty', { nominatedNodeName: 'elsewhere' });

  const template = { metadata: { labels: { app: 'rc' } }, spec: { containers } };
  for (const replicas of [0, 1]) {
    await cluster.create(replicationControllers, {
      metadata: named(`rc-${replicas}`),
      spec: { replicas, selector: { app: 'rc' }, template },
    });
  }
  await eventually(async () => {
    expect(await cluster.get(replicationControllers, named('rc-1'))).toMatchObject({ status: { replicas: 1 } });
  });

  await cluster.patch(namespaces, { name: namespace }, { metadata: { labels: own } });
  await cluster.create(namespaces, { metadata: { name: going, labels: own } });
  await cluster.create(configMaps, {
    metadata: { namespace: going, name: 'stays', finalizers: ['levelhook.test/stays'] },
  });
  started.add(async () => {
    await cluster.patch(configMaps, { namespace: going, name: 'stays' }, { metadata: { finalizers: null } });
  });
  await cluster.deleteNamespace(going);

  await cluster.create(secrets, { metadata: named('token'), type: 'example.com/token' });
  await cluster.create(secrets, { metadata: named('opaque') });

  const ports = [{ port: 80, protocol: 'TCP' }];
  const made = await cluster.create(services, {
    metadata: named('addressed'),
    spec: { ports, type: 'NodePort' },
  });
  ({ clusterIP } = made.spec);
  await cluster.create(services, { metadata: named('headless'), spec: { ports, clusterIP: 'None' } });
  await cluster.create(services, {
    metadata: named('elsewhere'),
    spec: { type: 'ExternalName', externalName: 'example.com' },
  });

  await cluster.create(events, {
    metadata: named('full'),
    involvedObject: ABOUT,
    reason: 'Tested',
    reportingComponent: 'tester',
    type: 'Warning',
  });
  await cluster.create(events, {
    metadata: named('sourced'),
    involvedObject: { namespace },
    source: { component: 'kubelet' },
  });
  await cluster.create(events, { metadata: named('empty'), involvedObject: { namespace } });

  const job = { template: { spec: { restartPolicy: 'Never', containers } }, suspend: true };
  for (const name of ['done', 'to-do']) await cluster.create(jobs, { metadata: named(name), spec: job });
  await patchStatus(jobs, 'done', { succeeded: 1 });

  const request = await certificateRequest();
  for (const name of ['one', 'two']) {
    await make(requests, {
      metadata: { name: `${namespace}-${name}`, labels: own },
      spec: { request, signerName: `example.com/${name}`, usages: ['client auth'] },
    });
    const pool = { name: `${namespace}-${name}`, generation: 1, resourceSliceCount: 1 };
    await make(slices, {
      metadata: { name: `${namespace}-${name}`, labels: own },
      spec: { driver: `${name}.example.com`, pool, ...(name === 'one' ? { nodeName: node } : { allNodes: true }) },
    });
  }
}

/** Creates an object outside the namespace, which goes at the end. */
async function make(
  of: Resource,
  object: { metadata: { name: string; labels?: object }; [field: string]: unknown },
): Promise<void> {
  await cluster.create(of, object);
  started.add(() => cluster.delete(of, { name: object.metadata.name }));
}

async function patchStatus(of: Resource, name: string, status: object): Promise<void> {
  await cluster.client.json({
    method: 'PATCH',
    path: resourcePath(of, { namespace, name, subresource: 'status' }),
    body: { status },
    contentType: 'application/merge-patch+json',
  });
}

async function certificateRequest(): Promise<string> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const request = await Pkcs10CertificateRequestGenerator.create({ name: 'CN=x', keys, signingAlgorithm: algorithm });
  return Buffer.from(request.toString('pem')).toString('base64');
}
