import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  Deployment,
  Endpoints,
  EndpointSlice,
  Namespace,
  ReplicaSet,
  Service,
} from '../../../src/function/kinds/index.ts';
import { isWrite } from '../../harness/audit-log.ts';
import { configMaps, replicaSet } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { userOf } from '../../harness/identity.ts';
import { untilIdle } from '../../harness/levelhook.ts';
import { Started } from '../../harness/started.ts';
import { PLANE_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';

const SETUP_MS = 240_000;
const namespace = 'rest';
const web = { namespace, name: 'web' };
const leaving = 'leaving';
const labels = { app: 'web' };
/** By their accounts: the controllers that the functions stand in for. */
const BUILT_IN = [
  'deployment-controller',
  'endpoint-controller',
  'endpointslice-controller',
  'endpointslicemirroring-controller',
  'namespace-controller',
  'node-controller',
  'replicaset-controller',
];
/** They begin with all keys at once, and repeat a write that failed within this time. */
const SETTLED_MS = 20_000;

/** As a user writes it; the apiserver keeps the notation of some quantities. */
const limits = (memory: string, cpu: string) => ({
  spec: {
    template: { spec: { containers: [{ name: 'main', image: 'pause', resources: { limits: { memory, cpu } } }] } },
  },
});

/** Objects of all kinds that the functions look after. */
async function createObjects({ cluster }: WorkloadPlane): Promise<void> {
  await cluster.createNamespace(namespace);
  await cluster.create(Deployment, {
    metadata: { ...web, annotations: { team: 'a' } },
    spec: {
      replicas: 3,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          ...limits('1Gi', '2').spec.template.spec,
          volumes: [{ name: 'v', emptyDir: { sizeLimit: '1G' } }],
          tolerations: [{ operator: 'Exists', tolerationSeconds: 300, effect: 'NoExecute' }],
        },
      },
    },
  });
  await cluster.create(ReplicaSet, replicaSet({ namespace, name: 'alone' }, 2));
  const ports = [{ name: 'http', port: 80, targetPort: 8080 }];
  await cluster.create(Service, {
    metadata: { ...web, labels: { tier: 'front' } },
    spec: { selector: labels, ports },
  });
  await cluster.create(Service, {
    metadata: { namespace, name: 'headless' },
    spec: { selector: labels, clusterIP: 'None', trafficDistribution: 'PreferClose' },
  });
  await cluster.create(Service, { metadata: { namespace, name: 'by-hand' }, spec: { ports: [{ port: 80 }] } });
  await cluster.create(Endpoints, {
    metadata: { namespace, name: 'by-hand', labels: { own: 'yes' }, annotations: { note: 'x' } },
    subsets: [{ addresses: [{ ip: '10.9.9.2' }, { ip: '10.9.9.1', hostname: 'a' }], ports: [{ port: 80 }] }],
  });
  await cluster.createNamespace(leaving);
  await cluster.create(configMaps, {
    metadata: { namespace: leaving, name: 'held', finalizers: ['example.com/held'] },
  });
  await cluster.delete(Namespace, { name: leaving });
}

async function untilAtRest({ cluster }: WorkloadPlane): Promise<void> {
  await eventually(async () => {
    expect((await cluster.get(Deployment, web))?.status).toMatchObject({
      availableReplicas: 3,
      observedGeneration: 1,
    });
    expect((await cluster.get(ReplicaSet, { namespace, name: 'alone' }))?.status).toMatchObject({
      availableReplicas: 2,
    });
    const slices = (await cluster.list(EndpointSlice, namespace)).items;
    const counts = Object.fromEntries(
      slices.map(({ metadata, endpoints }) => [metadata.labels?.['kubernetes.io/service-name'], endpoints?.length]),
    );
    expect(counts).toEqual({ 'by-hand': 2, headless: 3, web: 3 });
    const conditions = (await cluster.get(Namespace, { name: leaving }))?.status?.conditions ?? [];
    expect(conditions.map(({ type, status }) => `${type} ${status}`)).toContain('NamespaceFinalizersRemaining True');
  }, SETUP_MS);
}

/** Writes that these users have tried. */
async function writesOf({ audit }: WorkloadPlane, users: readonly string[], from = 0) {
  return (await audit.requests())
    .slice(from)
    .filter((each) => users.includes(each.user) && isWrite(each))
    .map(({ user, verb, resource, namespace: place, code }) => ({ user, verb, resource, place, code }));
}

describe('objects that kube-controller-manager has brought to rest', () => {
  const started = new Started();
  let workloads: WorkloadPlane;

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, { functions: PLANE_FUNCTIONS, besideBuiltIn: true, nodes: 3 });
    const { cluster } = workloads;
    await createObjects(workloads);
    await untilAtRest(workloads);
    // No change for the apiserver, nor for kube-controller-manager.
    for (const [memory, cpu] of [['1073741824', '2e0']] as const)
      await cluster.patch(Deployment, web, limits(memory, cpu));
    const deployment = await cluster.get(Deployment, web);
    expect(deployment?.metadata.generation).toBe(1);
    expect(deployment?.spec?.template.spec?.containers[0]?.resources?.limits).toEqual({
      memory: '1073741824',
      cpu: '2e0',
    });
  }, 2 * SETUP_MS);

  afterAll(() => started.stop());

  it('are looked at by the functions that take over, and get no write of any', { timeout: 2 * SETUP_MS }, async () => {
    await workloads.startLine();
    const keys = (): Set<string> =>
      new Set(
        workloads.gateway.process.lines
          .filter(({ msg }) => msg === 'trigger')
          .map((line) => `${String(line['controller'])} ${String(line['key'])}`),
      );
    await eventually(async () => {
      for (const each of [
        'deployment rest/web',
        'replicaset rest/alone',
        'endpointslice rest/web',
        'endpointslice rest/headless',
        'endpoints rest/web',
        'endpointslice-mirroring rest/by-hand',
        `namespace ${leaving}`,
        'node-zones kube-node-lease',
      ]) {
        expect(keys()).toContain(each);
      }
      for (const name of ['node-lifecycle', 'taint-eviction']) {
        expect([...keys()].filter((key) => key.startsWith(`${name} `))).toHaveLength(3);
      }
    }, SETUP_MS);
    await untilIdle(workloads.gateway.url);
    expect(
      await writesOf(
        workloads,
        PLANE_FUNCTIONS.map((name) => userOf(name)),
      ),
    ).toEqual([]);
    expect((await workloads.cluster.list(ReplicaSet, namespace)).items).toHaveLength(2);
  });
});

describe('objects that the functions have brought to rest', () => {
  const started = new Started();
  let workloads: WorkloadPlane;

  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, { functions: PLANE_FUNCTIONS, nodes: 3 });
    await workloads.startLine();
    await createObjects(workloads);
    await untilAtRest(workloads);
    await untilIdle(workloads.gateway.url);
    await workloads.killLine();
  }, 2 * SETUP_MS);

  afterAll(() => started.stop());

  it('get no write of the controllers that take over again', { timeout: 2 * SETUP_MS }, async () => {
    const { audit, cluster } = workloads;
    const from = (await audit.requests()).length;
    const controllerManager = await workloads.startBuiltIn();
    const users = BUILT_IN.map((name) => `system:serviceaccount:kube-system:${name}`);
    const running = 'all resource monitors have synced';
    await eventually(async () => expect(controllerManager.output).toContain(running), SETUP_MS);
    await cluster.patch(Deployment, web, { metadata: { labels: { touched: 'yes' } } });
    await cluster.patch(Service, web, { metadata: { annotations: { touched: 'yes' } } });
    await sleep(SETTLED_MS);
    const written = (await writesOf(workloads, users, from)).filter(
      // What these two do at each start: they delete the contents of a namespace again, and greet each node.
      ({ verb, resource }) => verb !== 'deletecollection' && resource !== 'events',
    );
    expect(written).toEqual([]);
    expect((await cluster.list(ReplicaSet, namespace)).items).toHaveLength(2);
    // They do run.
    await cluster.patch(Deployment, web, { spec: { replicas: 4 } });
    await eventually(async () => {
      const writes = (await writesOf(workloads, users, from)).map(({ user }) => user);
      for (const name of ['deployment', 'replicaset', 'endpoint', 'endpointslice']) {
        expect(writes).toContain(`system:serviceaccount:kube-system:${name}-controller`);
      }
    }, SETUP_MS);
  });
});
