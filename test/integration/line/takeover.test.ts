import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { replacedControllers } from '../../../src/cli/replaced-controllers.ts';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { Deployment, Endpoints, Namespace, Node, Pod, ReplicaSet, Service } from '../../../src/function/kinds/index.ts';
import {
  changeOf,
  Choice,
  createGiven,
  createIn,
  type Given,
  givenOf,
  isUnseen,
  leaveNamespaces,
} from '../../differential/objects.ts';
import { isWrite } from '../../harness/audit-log.ts';
import { eventually } from '../../harness/eventually.ts';
import { Fleet } from '../../harness/fleet.ts';
import { configMaps } from '../../harness/cluster.ts';
import { userOf } from '../../harness/identity.ts';
import { newSeed, randomOf } from '../../harness/random.ts';
import { Started } from '../../harness/started.ts';
import { type PlaneFunction, PLANE_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';

const SEED = newSeed();
const SETUP_MS = 300_000;
const namespace = 'rest';
/** Room for all pods. */
const NODES = 10;
/** Of each Deployment, before all is at rest. */
const CHANGES = 2;
/** How long a Node may be silent before it has reported, in seconds. */
const STARTUP_GRACE = 20;
/** Pods stay for this long on a node that is lost, in seconds: none goes while the test runs. */
const TOLERATED = 3600;
const HEARTBEAT_MS = 5000;
/** It tolerates no taint of its node, and has a finalizer. */
const HELD_POD = 'goes';
/** Endpoints of an election, which have no Service and stay. */
const LEFT_ENDPOINTS = 'left-leader';
/** A controller that a function stands in for, and a write about a late object that no other controller makes. */
interface Proof {
  readonly controller: string;
  /** Its ServiceAccount in kube-controller-manager. Default: `controller` */
  readonly account?: string;
  readonly by: PlaneFunction;
  readonly write: Partial<Write>;
}

const PROOFS: readonly Proof[] = [
  { controller: 'deployment-controller', by: 'deployment', write: { resource: 'replicasets', place: namespace } },
  {
    controller: 'replicaset-controller',
    by: 'replicaset',
    write: { verb: 'create', resource: 'pods', place: namespace },
  },
  {
    controller: 'endpoints-controller',
    account: 'endpoint-controller',
    by: 'endpoints',
    write: { verb: 'create', resource: 'endpoints', place: namespace, name: 'late' },
  },
  {
    controller: 'endpointslice-controller',
    by: 'endpointslice',
    write: { verb: 'create', resource: 'endpointslices', place: namespace },
  },
  {
    controller: 'endpointslice-mirroring-controller',
    account: 'endpointslicemirroring-controller',
    by: 'endpointslice-mirroring',
    write: { verb: 'create', resource: 'endpointslices', place: namespace },
  },
  {
    controller: 'namespace-controller',
    by: 'namespace',
    write: { verb: 'deletecollection', resource: 'configmaps', place: 'late' },
  },
  // Both controllers of Nodes have one account, so the write alone tells them apart.
  {
    controller: 'node-lifecycle-controller',
    account: 'node-controller',
    by: 'node-lifecycle',
    write: { verb: 'patch', resource: 'nodes', name: 'late' },
  },
  {
    controller: 'taint-eviction-controller',
    account: 'node-controller',
    by: 'node-lifecycle',
    write: { verb: 'delete', resource: 'pods', place: namespace, name: 'late' },
  },
];
const builtIn = ({ controller, account = controller }: Proof): string => `system:serviceaccount:kube-system:${account}`;
const ofFunction = ({ by }: Proof): string => userOf(by);
const BUILT_IN = [...new Set(PROOFS.map(builtIn))];
const FUNCTIONS = [...new Set(PROOFS.map(ofFunction))];
/** They begin with all keys at once, and repeat a write that failed within this time. */
const SETTLED_MS = 20_000;
/** The same quantity in another notation, which is no change for the apiserver. It stores some as they are written. */
const NOTATIONS: Readonly<Record<string, string>> = {
  '64Mi': '67108864',
  '67108864': '65536Ki',
  '1G': '1e9',
  '1e9': '1000M',
  '1.5Gi': '1610612736',
  '1536Mi': '1610612736',
  '100m': '0.1',
  '0.1': '100m',
  '1': '1e0',
  '1000m': '1e0',
  '1e0': '1000m',
};

/**
 * The objects of `test/differential`, after two changes of each Deployment, and nodes: with taints of both effects,
 * with pods that tolerate them and pods that do not, and a node that has fallen silent.
 */
class Resting {
  readonly #workloads: WorkloadPlane;
  readonly #choice = new Choice(randomOf(SEED));
  readonly given: Given = givenOf(this.#choice, namespace);
  readonly fleet: Fleet;

  constructor(workloads: WorkloadPlane) {
    this.#workloads = workloads;
    const zones = { kept: 2, silent: 1 };
    this.fleet = new Fleet(workloads.cluster, { zones, podsPerNode: 1, tolerationSeconds: TOLERATED, namespace });
  }

  static async start(started: Started, besideBuiltIn: boolean): Promise<[WorkloadPlane, Resting]> {
    const workloads = await WorkloadPlane.start(started, {
      functions: PLANE_FUNCTIONS,
      besideBuiltIn,
      nodes: NODES,
      apiserverArguments: ['not-ready', 'unreachable'].map((of) => `--default-${of}-toleration-seconds=${TOLERATED}`),
      controllerManagerArguments: [`--node-startup-grace-period=${STARTUP_GRACE}s`],
      functionVariables: { NODE_STARTUP_GRACE_SECONDS: String(STARTUP_GRACE) },
    });
    const resting = new Resting(workloads);
    await resting.#createLeftEndpoints();
    // The built-in controller deletes Endpoints whose Service is gone at its start alone.
    await (besideBuiltIn ? workloads.startBuiltIn() : workloads.startLine());
    await resting.#create(started);
    return [workloads, resting];
  }

  async #createLeftEndpoints(): Promise<void> {
    const { cluster } = this.#workloads;
    await cluster.createNamespace(namespace);
    await createIn(cluster, Endpoints, this.given.leftEndpoints[0]);
  }

  async #create(started: Started): Promise<void> {
    const { cluster } = this.#workloads;
    await createGiven(cluster, this.given, namespace);
    await leaveNamespaces(cluster, this.given);
    await this.fleet.create();
    const over = new AbortController();
    const beating = this.fleet.beatUntil(over.signal, HEARTBEAT_MS);
    started.add(() => {
      over.abort();
      return beating;
    });
    const own = { key: 'own', value: 'x' };
    const taints = ['NoExecute', 'NoSchedule'].map((effect) => ({ ...own, effect }));
    for (const [name, nodeName, spec, finalizers] of [
      ['stays', 'kept-0', { tolerations: [{ operator: 'Exists' }] }, []],
      [HELD_POD, 'kept-0', {}, ['example.com/held']],
      ['unaffected', 'kept-1', {}, []],
    ] as const) {
      const containers = [{ name: 'main', image: 'none' }];
      const metadata = { namespace, name, finalizers };
      await cluster.create(Pod, { metadata, spec: { ...spec, nodeName, containers } });
    }
    await cluster.patch(Node, { name: 'kept-0' }, { spec: { taints } });
    await cluster.patch(Node, { name: 'kept-1' }, { spec: { taints: taints.slice(1) } });
    await this.fleet.silence('silent');
    for (let at = 0; at < CHANGES; at += 1) {
      for (const body of this.given.deployments) {
        const key = { namespace, name: String(body.metadata['name']) };
        await cluster.patch(Deployment, key, changeOf(this.#choice, body));
      }
    }
  }

  /** Until these users, which are controllers, have done all and written nothing for a while. */
  async untilAtRest(users: readonly string[]): Promise<void> {
    const { cluster } = this.#workloads;
    let count = -1;
    await eventually(
      async () => {
        const nodes = (await cluster.list(Node)).items;
        const lost = nodes
          .filter(({ spec }) => spec?.taints?.some((each) => each.key.endsWith('/unreachable') && isEvicting(each)))
          .map(({ metadata }) => metadata.name);
        expect(lost).toEqual(this.lost);
        expect((await cluster.get(Pod, { namespace, name: HELD_POD }))?.metadata.deletionTimestamp).toBeDefined();
        const silenced = (await cluster.get(Pod, { namespace, name: 'silent-0-0' }))?.status?.conditions;
        expect(silenced?.find(({ type }) => type === 'Ready')?.status).toBe('False');
        const leaving = (await cluster.list(Namespace)).items.filter(({ metadata }) => metadata.deletionTimestamp);
        expect(leaving.map(({ metadata }) => metadata.name)).toEqual(this.held.toSorted());
        for (const { status } of leaving) {
          const conditions = (status?.conditions ?? []).map((each) => `${each.type} ${each.status}`);
          expect(conditions).toContain('NamespaceFinalizersRemaining True');
        }
        const left = (await cluster.list(Endpoints, namespace)).items.filter(({ metadata: { name } }) =>
          name.startsWith('left-'),
        );
        expect(left.map(({ metadata }) => metadata.name)).toEqual([LEFT_ENDPOINTS]);
        for (const { kind, items } of await this.#watched()) {
          expect(items.filter((item) => isUnseen({ ...item, kind })).map(({ metadata }) => metadata.name)).toEqual([]);
        }
        const before = count;
        count = (await changesOf(this.#workloads, users)).length;
        expect(count).toBe(before);
      },
      SETUP_MS,
      SETTLED_MS / 2,
    );
  }

  /** The names of the nodes that no kubelet reports for, and of the silent node. */
  get lost(): string[] {
    return [...this.given.nodes.map(({ metadata }) => String(metadata['name'])), 'silent-0'].toSorted();
  }

  /** Of each node, without their times. */
  async taints(): Promise<string[]> {
    const { items } = await this.#workloads.cluster.list(Node);
    return items.map((node) => [node.metadata.name, ...taintsOf(node)].join(' '));
  }

  /** The namespaces that cannot go. */
  get held(): string[] {
    return this.given.leaving.filter(({ held }) => held.length > 1).map((each) => each.namespace);
  }

  /** What the functions must look at, as `controller key`. */
  async keys(): Promise<string[]> {
    const { given } = this;
    const services = given.services.map(({ metadata, spec }) => ({
      name: String(metadata['name']),
      selects: (spec as { selector?: object }).selector !== undefined,
    }));
    const mirrored = given.endpoints.filter(({ metadata }) => !JSON.stringify(metadata).includes('skip-mirror'));
    const [sets = [], nodes = []] = await Promise.all(
      [ReplicaSet, Node].map(async (of) => (await this.#workloads.cluster.list<KubernetesObject>(of)).items),
    );
    return [
      ...given.deployments.map(({ metadata }) => `deployment ${namespace}/${String(metadata['name'])}`),
      ...sets.map(({ metadata }) => `replicaset ${namespace}/${metadata.name}`),
      ...services
        .filter(({ selects }) => selects)
        .flatMap(({ name }) => ['endpoints', 'endpointslice'].map((each) => `${each} ${namespace}/${name}`)),
      `endpoints ${namespace}/${LEFT_ENDPOINTS}`,
      ...mirrored.map(({ metadata }) => `endpointslice-mirroring ${namespace}/${String(metadata['name'])}`),
      ...this.held.map((name) => `namespace ${name}`),
      ...nodes.flatMap(({ metadata }) =>
        ['node-lifecycle', 'taint-eviction'].map((each) => `${each} ${metadata.name}`),
      ),
      'node-zones kube-node-lease',
    ];
  }

  #watched(): Promise<{ kind: string; items: KubernetesObject[] }[]> {
    const { cluster } = this.#workloads;
    return Promise.all(
      [Deployment, ReplicaSet].map(async (of) => ({
        kind: of.kind,
        items: (await cluster.list<KubernetesObject>(of, namespace)).items,
      })),
    );
  }
}

const taintsOf = ({ spec }: Node): string[] =>
  (spec?.taints ?? []).map(({ key, value = '', effect }) => `${key}=${value}:${effect}`).toSorted();

const isEvicting = ({ effect }: { effect: string }): boolean => effect === 'NoExecute';

interface Write {
  readonly user: string;
  readonly verb: string;
  readonly resource: string;
  readonly place: string | undefined;
  readonly name: string | undefined;
  readonly code: number;
}

/** Writes that these users have tried. */
async function writesOf({ audit }: WorkloadPlane, users: readonly string[], from = 0): Promise<Write[]> {
  return (await audit.requests())
    .slice(from)
    .filter((each) => users.includes(each.user) && isWrite(each))
    .map(({ user, verb, resource, namespace: place, name, code }) => ({ user, verb, resource, place, name, code }));
}

/** Without deletions of the contents of a namespace, which are tried again, and Events: they change nothing at rest. */
async function changesOf(workloads: WorkloadPlane, users: readonly string[], from = 0): Promise<Write[]> {
  const writes = await writesOf(workloads, users, from);
  return writes.filter(({ verb, resource }) => verb !== 'deletecollection' && resource !== 'events');
}

/**
 * kube-controller-manager begins with no memory of its taints and evictions: it takes the taint of each lost node away
 * and gives it again, and deletes again the pods that are being deleted.
 */
function isOfEachStart({ verb, resource, name }: Write, of: Resting): boolean {
  if (verb === 'patch' && resource === 'nodes') return of.lost.includes(name ?? '');
  return verb === 'delete' && resource === 'pods' && name === HELD_POD;
}

/** Writes the limits of all Deployments in other notations. @returns how many of them the apiserver has stored. */
async function rewriteQuantities({ cluster }: WorkloadPlane): Promise<number> {
  let count = 0;
  for (const { metadata, spec } of (await cluster.list(Deployment, namespace)).items) {
    const [container, ...others] = spec?.template.spec?.containers ?? [];
    const limits = Object.entries(container?.resources?.limits ?? {});
    if (!container || limits.length === 0) continue;
    const rewritten = Object.fromEntries(limits.map(([name, text]) => [name, NOTATIONS[text] ?? text]));
    const containers = [{ ...container, resources: { ...container.resources, limits: rewritten } }, ...others];
    const key = { namespace, name: metadata.name };
    const written = await cluster.patch(Deployment, key, { spec: { template: { spec: { containers } } } });
    expect(written.metadata.generation).toBe(metadata.generation);
    const stored = written.spec?.template.spec?.containers[0]?.resources?.limits ?? {};
    if (limits.some(([name, text]) => stored[name] !== text)) count += 1;
  }
  return count;
}

/** Creates and changes objects, and waits for a write of each controller, under the user that it has now. */
async function expectEachToRun(workloads: WorkloadPlane, user: (proof: Proof) => string): Promise<void> {
  expect(PROOFS.map(({ controller }) => controller).toSorted()).toEqual(
    replacedControllers(PLANE_FUNCTIONS).toSorted(),
  );
  const since = (await workloads.audit.requests()).length;
  await createLate(workloads);
  const { cluster } = workloads;
  await eventually(async () => {
    const writes = await writesOf(workloads, PROOFS.map(user), since);
    const missing = PROOFS.filter((proof) => !writes.some((each) => isProof(each, proof, user(proof))));
    expect(missing.map(({ controller }) => controller)).toEqual([]);
    // The function that keeps Nodes has three controllers: the conditions are of one, NoExecute taints of another.
    const node = await cluster.get(Node, { name: 'late' });
    expect(node?.status?.conditions?.find(({ type }) => type === 'Ready')?.status).toBe('Unknown');
    const unreachable = ['NoExecute', 'NoSchedule'].map((effect) => `node.kubernetes.io/unreachable=:${effect}`);
    expect(node && taintsOf(node)).toEqual([...unreachable, 'own=:NoExecute']);
    expect(await cluster.get(Namespace, { name: 'late' })).toBeUndefined();
  }, SETUP_MS);
}

function isProof(write: Write, proof: Proof, user: string): boolean {
  const wanted = { ...proof.write, user };
  return write.code < 300 && Object.entries(wanted).every(([field, value]) => write[field as keyof Write] === value);
}

/** Gives each controller something to do. */
async function createLate({ cluster }: WorkloadPlane): Promise<void> {
  // Of the drawn Deployments any may be paused since it was made, and has no ReplicaSet to scale.
  const labels = { app: 'late-deployment' };
  await cluster.create(Deployment, {
    metadata: { namespace, name: 'late' },
    spec: {
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'none' }] } },
    },
  });
  await cluster.patch(ReplicaSet, { namespace, name: 'set-0' }, { spec: { replicas: 7 } });
  // Chance decides whether the new pods are in a Service. A new Service gets Endpoints and a slice in any case.
  await cluster.create(Service, {
    metadata: { namespace, name: 'late' },
    spec: { selector: { app: 'late' }, ports: [{ port: 80 }] },
  });
  await cluster.create(Service, { metadata: { namespace, name: 'mirrored' }, spec: { ports: [{ port: 80 }] } });
  await cluster.create(Endpoints, {
    metadata: { namespace, name: 'mirrored' },
    subsets: [{ addresses: [{ ip: '10.9.2.1' }], ports: [{ port: 80 }] }],
  });
  await cluster.createNamespace('late');
  // The function deletes only where it finds objects.
  await cluster.create(configMaps, { metadata: { namespace: 'late', name: 'late' } });
  await cluster.deleteNamespace('late');
  // No kubelet reports for this node, and the pod does not tolerate its taint.
  await cluster.create(Node, { metadata: { name: 'late' }, spec: { taints: [{ key: 'own', effect: 'NoExecute' }] } });
  await cluster.create(Pod, {
    metadata: { namespace, name: 'late' },
    spec: { nodeName: 'late', containers: [{ name: 'main', image: 'none' }] },
  });
}

describe(`objects that kube-controller-manager has brought to rest (TEST_SEED=${SEED})`, () => {
  const started = new Started();
  let workloads: WorkloadPlane;
  let resting: Resting;

  beforeAll(async () => {
    [workloads, resting] = await Resting.start(started, true);
    await resting.untilAtRest(BUILT_IN);
    expect(await rewriteQuantities(workloads)).toBeGreaterThan(0);
    await resting.untilAtRest(BUILT_IN);
  }, 3 * SETUP_MS);

  afterAll(() => started.stop());

  const promise = 'are looked at by the functions that take over and get no write, while later objects get one of each';
  it(promise, { timeout: 3 * SETUP_MS }, async () => {
    const wanted = await resting.keys();
    await workloads.startLine();
    await eventually(async () => {
      const keys = new Set(
        workloads.gateway.process.lines
          .filter(({ msg }) => msg === 'trigger')
          .map((line) => `${String(line['controller'])} ${String(line['key'])}`),
      );
      expect(wanted.filter((key) => !keys.has(key))).toEqual([]);
    }, SETUP_MS);
    await workloads.untilIdle();
    await sleep(SETTLED_MS);
    expect(await writesOf(workloads, FUNCTIONS)).toEqual([]);
    // Its controllers might write first.
    await workloads.killBuiltIn();
    await expectEachToRun(workloads, ofFunction);
  });
});

describe(`objects that the functions have brought to rest (TEST_SEED=${SEED})`, () => {
  const started = new Started();
  let workloads: WorkloadPlane;
  let resting: Resting;

  beforeAll(async () => {
    [workloads, resting] = await Resting.start(started, false);
    await resting.untilAtRest(FUNCTIONS);
    await workloads.untilIdle();
    await workloads.killLine();
  }, 3 * SETUP_MS);

  afterAll(() => started.stop());

  it(
    'get no write of the controllers that take over again, while later objects get one of each',
    { timeout: 3 * SETUP_MS },
    async () => {
      const { audit, cluster } = workloads;
      const taints = await resting.taints();
      const from = (await audit.requests()).length;
      const controllerManager = await workloads.startBuiltIn();
      const running = 'all resource monitors have synced';
      await eventually(async () => expect(controllerManager.output).toContain(running), SETUP_MS);
      const touch = { metadata: { annotations: { touched: 'yes' } } };
      for (const { metadata } of (await cluster.list(Service, namespace)).items) {
        await cluster.patch(Service, { namespace, name: metadata.name }, touch);
      }
      await sleep(SETTLED_MS);
      // It takes the taints of lost nodes away at its start, and gives them back one by one, each ten seconds in a
      // zone.
      await eventually(async () => expect(await resting.taints()).toEqual(taints), SETUP_MS);
      const changes = await changesOf(workloads, BUILT_IN, from);
      expect(changes.filter((each) => !isOfEachStart(each, resting))).toEqual([]);
      await expectEachToRun(workloads, builtIn);
    },
  );
});
