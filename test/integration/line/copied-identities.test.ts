import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatJson, type KubernetesObject, type Resource } from '../../../src/core/index.ts';
import {
  Deployment,
  Endpoints,
  EndpointSlice,
  Lease,
  Pod,
  ReplicaSet,
  Service,
} from '../../../src/function/kinds/index.ts';
import { isWrite } from '../../harness/audit-log.ts';
import { eventually } from '../../harness/eventually.ts';
import { userOf } from '../../harness/identity.ts';
import { untilIdle } from '../../harness/levelhook.ts';
import { newSeed } from '../../harness/random.ts';
import { RestrictedUser } from '../../harness/restricted-user.ts';
import { Started } from '../../harness/started.ts';
import { PLANE_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';

const SETUP_MS = 240_000;
const COPIES = 120;
const KINDS: readonly Resource[] = [Deployment, ReplicaSet, Pod, Service, Endpoints, EndpointSlice];
/** Where the nodes and the components have their Leases. */
const LEASES = ['kube-node-lease', 'kube-system'];
const VERBS = ['get', 'list', 'create', 'update', 'patch', 'delete'];
/** All that the evil tenant may do, in its namespace alone. */
const RULES = [
  { apiGroups: [''], resources: ['pods', 'pods/status', 'services', 'endpoints'], verbs: VERBS },
  { apiGroups: ['apps'], resources: ['deployments', 'replicasets'], verbs: VERBS },
  { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: VERBS },
  { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: VERBS },
];
const victim = 'victim';
const evil = 'evil';
const labels = { app: 'web' };

/** What a copy takes over from the victim's object, and what it has of its own. */
interface Copy {
  /** Which of the victim's objects. */
  readonly of: number;
  readonly isPod: boolean;
  readonly name: boolean;
  readonly labels: boolean;
  readonly annotations: boolean;
  readonly owner: 'of the object' | 'the object' | 'any of the object, not controlling' | 'none';
  readonly uid: boolean;
  readonly held: boolean;
  readonly deleted: boolean;
  readonly isReady: boolean;
}

const copies = fc.array(
  fc.record<Copy>({
    of: fc.nat(),
    isPod: fc.boolean(),
    name: fc.boolean(),
    labels: fc.boolean(),
    annotations: fc.boolean(),
    owner: fc.constantFrom('of the object', 'the object', 'any of the object, not controlling', 'none'),
    uid: fc.boolean(),
    held: fc.boolean(),
    deleted: fc.boolean(),
    isReady: fc.boolean(),
  }),
  { minLength: COPIES, maxLength: COPIES },
);

describe("objects of one namespace that carry the names, labels and UIDs of another one's", () => {
  const started = new Started();
  const seed = newSeed();
  let workloads: WorkloadPlane;
  let tenant: RestrictedUser;

  const leases = async (): Promise<KubernetesObject[]> => {
    const lists = await Promise.all(LEASES.map((namespace) => workloads.cluster.list(Lease, namespace)));
    return lists.flatMap(({ items }) =>
      items.map((item) => ({ ...item, apiVersion: Lease.apiVersion, kind: Lease.kind })),
    );
  };
  const all = async (namespace: string): Promise<KubernetesObject[]> => {
    const lists = await Promise.all(
      KINDS.map(async (kind) => {
        const { items } = await workloads.cluster.list(kind, namespace);
        return items.map((item) => ({ ...item, apiVersion: kind.apiVersion, kind: kind.kind }));
      }),
    );
    return lists.flat();
  };
  /** All that a function could have changed, without what touching the objects changes. */
  const looks = async () =>
    (await all(victim)).map(({ kind, metadata, ...rest }) => {
      const { name, uid, generation, ownerReferences, deletionTimestamp } = metadata;
      return { kind, name, uid, generation, ownerReferences, deletionTimestamp, ...rest };
    });

  beforeAll(async () => {
    process.stdout.write(`copied identities: TEST_SEED=${seed}\n`);
    // They delete objects whose owner is not in their namespace, and pods that nobody runs: here they stay.
    const withoutControllers = ['garbage-collector-controller', 'pod-garbage-collector-controller'];
    workloads = await WorkloadPlane.start(started, { functions: PLANE_FUNCTIONS, withoutControllers, nodes: 2 });
    await workloads.startLine();
    const { cluster } = workloads;
    for (const each of [victim, evil]) await cluster.createNamespace(each);
    tenant = await RestrictedUser.create(
      cluster,
      workloads.plane.kubeconfig,
      { namespace: evil, name: 'tenant' },
      RULES,
    );
    started.add(() => tenant.close());
    const template = (app: string) => ({
      metadata: { labels: { app } },
      spec: { containers: [{ name: 'main', image: 'pause' }] },
    });
    for (const [name, strategy] of [
      ['web', { type: 'RollingUpdate' }],
      ['once', { type: 'Recreate' }],
    ] as const) {
      await cluster.create(Deployment, {
        metadata: { namespace: victim, name },
        spec: { replicas: 3, strategy, selector: { matchLabels: { app: name } }, template: template(name) },
      });
    }
    const ports = [{ port: 80 }];
    await cluster.create(Service, { metadata: { namespace: victim, name: 'web' }, spec: { selector: labels, ports } });
    await cluster.create(Service, { metadata: { namespace: victim, name: 'by-hand' }, spec: { ports } });
    await cluster.create(Endpoints, {
      metadata: { namespace: victim, name: 'by-hand' },
      subsets: [{ addresses: [{ ip: '10.9.9.1' }], ports }],
    });
    await eventually(async () => {
      for (const { status } of (await cluster.list(Deployment, victim)).items) {
        expect(status).toMatchObject({ availableReplicas: 3, observedGeneration: 1 });
      }
      const slices = (await cluster.list(EndpointSlice, victim)).items;
      expect(slices.flatMap(({ endpoints }) => endpoints ?? [])).toHaveLength(4);
    }, SETUP_MS);
    await untilIdle(workloads.gateway.url);
  }, 2 * SETUP_MS);

  afterAll(() => started.stop());

  /** Answers whether the apiserver took it. */
  async function put(copy: Copy, victims: readonly KubernetesObject[], at: number): Promise<boolean> {
    const original = victims[copy.of % victims.length];
    if (!original) throw new Error('the victim has nothing');
    const { metadata, ...rest } = original as KubernetesObject & { status?: unknown };
    const { status: _, ...parts } = rest;
    const kind = copy.isPod ? Pod : [...KINDS, Lease].find((each) => each.kind === original.kind);
    if (!kind) throw new Error(`no kind of ${original.kind}`);
    const self = { apiVersion: original.apiVersion, kind: original.kind, name: metadata.name, uid: metadata.uid };
    const owners = {
      'of the object': metadata.ownerReferences ?? [],
      'the object': [{ ...self, controller: true }],
      'any of the object, not controlling': (metadata.ownerReferences ?? [self]).map((each) => ({
        ...each,
        controller: false,
      })),
      none: [],
    };
    const spec = { nodeName: 'none', tolerations: [{ operator: 'Exists' }], containers: [{ name: 'c', image: 'x' }] };
    const key = { namespace: evil, name: copy.name ? metadata.name : `copy-${at}` };
    const selected = (original as { spec?: { template?: { metadata?: object } } }).spec?.template?.metadata;
    const put = await tenant.put(
      kind,
      key,
      formatJson({
        ...(copy.isPod && original.kind !== 'Pod' ? { spec } : parts),
        ...(kind === Service ? { spec: { selector: labels, ports: [{ port: 80 }] } } : {}),
        apiVersion: kind.apiVersion,
        kind: kind.kind,
        metadata: {
          ...key,
          ...(copy.labels ? { labels: metadata.labels } : copy.isPod ? selected : {}),
          annotations: {
            ...(copy.annotations ? metadata.annotations : {}),
            'controller.kubernetes.io/pod-deletion-cost': '2000000000',
          },
          ...(copy.uid ? { uid: metadata.uid } : {}),
          ...(copy.held ? { finalizers: ['example.com/held'] } : {}),
          ownerReferences: owners[copy.owner],
        },
      }),
    );
    if (put.status >= 500) throw new Error(put.text);
    if (put.status >= 300) return false;
    if (kind === Pod && copy.isReady) {
      const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }];
      const status = { phase: 'Running', podIP: '10.66.0.1', podIPs: [{ ip: '10.66.0.1' }], conditions };
      await tenant.setStatus(kind, key, status);
    }
    if (copy.deleted) await tenant.remove(kind, key);
    return true;
  }

  /** Wakes the keys of all that the victim has, as its own events would. */
  async function touch(round: number): Promise<void> {
    const { cluster } = workloads;
    for (const kind of [Deployment, ReplicaSet, Pod, Service]) {
      for (const { metadata } of (await cluster.list<KubernetesObject>(kind, victim)).items) {
        // A label of a Service, and an annotation of a Deployment, would be written on to what they own.
        const change =
          kind === Service || kind === Pod ? { annotations: { round: `${round}` } } : { labels: { round: `${round}` } };
        await cluster.patch<KubernetesObject>(kind, { namespace: victim, name: metadata.name }, { metadata: change });
      }
    }
  }

  it(`change nothing there, and cause no write (TEST_SEED=${seed})`, { timeout: 2 * SETUP_MS }, async () => {
    const [given = []] = fc.sample(copies, { seed, numRuns: 1 });
    const victims = [...(await all(victim)), ...(await leases())];
    const before = await looks();
    const writes = (await workloads.audit.requests()).length;
    let accepted = 0;
    for (const [at, copy] of given.entries()) {
      if (await put(copy, victims, at)) accepted += 1;
      if (at % 20 === 19) await touch(at);
    }
    expect(accepted).toBeGreaterThan(COPIES / 3);
    const owners = new Set(victims.map(({ metadata }) => metadata.uid));
    const held = (await workloads.cluster.list(Pod, evil)).items.filter(({ metadata }) =>
      metadata.ownerReferences?.some(({ uid, controller }) => controller && owners.has(uid)),
    );
    expect(held.length).toBeGreaterThan(COPIES / 20);
    await untilIdle(workloads.gateway.url);
    await touch(COPIES);
    await untilIdle(workloads.gateway.url);
    const users = PLANE_FUNCTIONS.map((name) => userOf(name));
    const there = (await workloads.audit.requests())
      .slice(writes)
      .filter((each) => users.includes(each.user) && isWrite(each) && each.namespace !== evil);
    expect(there.map(({ user, verb, resource, code }) => `${user} ${verb} ${resource} ${code}`)).toEqual([]);
    expect(await looks()).toEqual(before);
    // Nor are the copies deleted as somebody's surplus.
    const left = new Set((await workloads.cluster.list(Pod, evil)).items.map(({ metadata }) => metadata.uid));
    expect(held.filter(({ metadata }) => !metadata.deletionTimestamp && !left.has(metadata.uid))).toEqual([]);
  });

  it('do not hold up a rollout that recreates', { timeout: 2 * SETUP_MS }, async () => {
    const { cluster } = workloads;
    const once = { namespace: victim, name: 'once' };
    const [rs] = (await cluster.list(ReplicaSet, victim, 'app=once')).items;
    const { name = '', uid = '' } = rs?.metadata ?? {};
    // It is being deleted for as long as its owner wants.
    const waiting = { namespace: evil, name: 'waiting' };
    await cluster.create(Pod, {
      metadata: {
        ...waiting,
        finalizers: ['example.com/held'],
        ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name, uid, controller: true }],
      },
      spec: { nodeName: 'none', containers: [{ name: 'c', image: 'x' }] },
    });
    await cluster.delete(Pod, waiting);
    const image = { spec: { template: { spec: { containers: [{ name: 'main', image: 'pause:2' }] } } } };
    await cluster.patch(Deployment, once, image);
    await eventually(async () => {
      const pods = (await cluster.list(Pod, victim, 'app=once')).items;
      expect(pods.map(({ spec }) => spec?.containers[0]?.image)).toEqual(['pause:2', 'pause:2', 'pause:2']);
    }, SETUP_MS);
  });
});
