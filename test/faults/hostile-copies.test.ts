import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubernetesObject, Resource } from '../../src/core/index.ts';
import { Deployment, Endpoints, EndpointSlice, Pod, ReplicaSet, Service } from '../../src/function/kinds/index.ts';
import { canonical, differences } from '../differential/canonical.ts';
import { type AuditedRequest, isWrite } from '../harness/audit-log.ts';
import { eventually } from '../harness/eventually.ts';
import { userOf } from '../harness/identity.ts';
import { newSeed } from '../harness/random.ts';
import { Started } from '../harness/started.ts';
import { PLANE_FUNCTIONS, WorkloadPlane } from '../harness/workload-plane.ts';
import { Copier } from './hostile-tenant/copier.ts';
import { patchOf, type Round, rounds, SURPLUS, WAITED_FOR } from './hostile-tenant/grammar/copies.ts';
import { strangeReasons } from './hostile-tenant/monitor.ts';

const SETUP_MS = 240_000;
const DRAWS = Number(process.env['HOSTILE_COPIES_DRAWS'] ?? 1);
const ACTIONS = 30;
const KINDS: readonly Resource[] = [Deployment, ReplicaSet, Pod, Service, Endpoints, EndpointSlice];
const USERS = PLANE_FUNCTIONS.map((name) => userOf(name));
const DEPLOYMENTS = ['web', 'once'] as const;
const victim = 'victim';
/** This namespace gets each object and change of the victim at the same time. The copier leaves it alone. */
const twin = 'twin';
const evil = 'evil';

/**
 * A tenant fills its namespace with copies of another one's objects: their names, labels, annotations, owner references
 * and UIDs, and Leases. Every function in the box runs. A twin of the victim shows which writes and statuses the
 * victim's own changes explain.
 */
describe("objects of one namespace that carry the names, labels and UIDs of another one's", () => {
  const started = new Started();
  const seed = newSeed();
  let workloads: WorkloadPlane;
  let tenant: Copier;

  async function objectsOf(namespace: string): Promise<KubernetesObject[]> {
    const lists = await Promise.all(
      KINDS.map(async (kind) => {
        const { items } = await workloads.cluster.list(kind, namespace);
        return items.map((item) => ({ ...item, apiVersion: kind.apiVersion, kind: kind.kind }));
      }),
    );
    return lists.flat();
  }

  /** All that a function could have changed, without what touching the objects changes. */
  const looks = async () =>
    (await objectsOf(victim)).map(({ kind, metadata, ...rest }) => {
      const { name, uid, generation, ownerReferences, deletionTimestamp } = metadata;
      return { kind, name, uid, generation, ownerReferences, deletionTimestamp, ...rest };
    });

  /** Writes outside the copier's namespace that the functions have tried. */
  const writesSince = async (from: number): Promise<AuditedRequest[]> =>
    (await workloads.audit.requests())
      .slice(from)
      .filter((each) => USERS.includes(each.user) && isWrite(each) && each.namespace !== evil);

  async function untilAlike(): Promise<void> {
    await eventually(async () => {
      const deployments = (await workloads.cluster.list(Deployment, victim)).items;
      for (const { metadata, spec, status } of deployments) {
        expect(status?.observedGeneration).toBe(metadata.generation);
        expect(status?.updatedReplicas ?? 0).toBe(spec?.replicas);
        expect(status?.availableReplicas ?? 0).toBe(spec?.replicas);
      }
      const [theirs = [], ours = []] = await Promise.all(
        [twin, victim].map(async (namespace) => canonical(await objectsOf(namespace))),
      );
      const named = theirs.map((text) => text.replaceAll(`"${twin}"`, `"${victim}"`));
      expect(differences(named, ours)).toEqual([]);
    }, SETUP_MS);
    await workloads.untilIdle();
  }

  beforeAll(async () => {
    process.stdout.write(`hostile copies: TEST_SEED=${seed}\n`);
    // These controllers would delete the copies, whose owners are in another namespace and which no kubelet runs.
    const withoutControllers = ['garbage-collector-controller', 'pod-garbage-collector-controller'];
    workloads = await WorkloadPlane.start(started, { functions: PLANE_FUNCTIONS, withoutControllers, nodes: 3 });
    await workloads.startLine();
    const { cluster, plane } = workloads;
    for (const each of [victim, twin, evil]) await cluster.createNamespace(each);
    tenant = await Copier.create({ cluster, kubeconfig: plane.kubeconfig }, evil, victim);
    started.add(() => tenant.close());
    for (const namespace of [victim, twin]) await createObjects(workloads, namespace);
    await untilAlike();
  }, 2 * SETUP_MS);

  afterAll(() => started.stop());

  /** Wakes the keys of all that the victim has, as its own events would, and those of its twin. */
  async function touch(round: number): Promise<void> {
    const { cluster } = workloads;
    for (const namespace of [victim, twin]) {
      for (const kind of [Deployment, ReplicaSet, Pod, Service]) {
        // The functions write labels of a Service and annotations of a Deployment on to the objects of both.
        const map = kind === Service || kind === Pod ? 'annotations' : 'labels';
        for (const { metadata } of (await cluster.list<KubernetesObject>(kind, namespace)).items) {
          const change = { metadata: { [map]: { round: `${round}` } } };
          await cluster.patch<KubernetesObject>(kind, { namespace, name: metadata.name }, change);
        }
      }
    }
  }

  /** Half of the tenant's actions come before the victim's change, and half while the victim rolls out. */
  async function play({ victim: change, actions }: Round): Promise<void> {
    const { cluster } = workloads;
    const half = Math.floor(actions.length / 2);
    for (const action of actions.slice(0, half)) await tenant.act(action);
    const sets = (await cluster.list(ReplicaSet, victim)).items;
    // Chance may draw few.
    for (const [nth, { spec }] of sets.entries()) if (spec?.replicas) await tenant.act({ ...SURPLUS, nth });
    if (change !== 'rests') {
      const name = DEPLOYMENTS[change.nth % DEPLOYMENTS.length] ?? '';
      for (const [nth, { metadata, spec }] of sets.entries()) {
        if (metadata.ownerReferences?.[0]?.name === name && spec?.replicas) await tenant.act({ ...WAITED_FOR, nth });
      }
      for (const namespace of [victim, twin]) {
        await cluster.patch(Deployment, { namespace, name }, patchOf(change, 'Deployment'));
      }
    }
    for (const action of actions.slice(half)) await tenant.act(action);
  }

  /** The copier's pods that are not being deleted, and say that one of these owners manages them. */
  async function copiesOf(owners: ReadonlySet<string>): Promise<string[]> {
    return (await workloads.cluster.list(Pod, evil)).items
      .filter(({ metadata }) => !metadata.deletionTimestamp)
      .filter(({ metadata }) => metadata.ownerReferences?.some((each) => each.controller && owners.has(each.uid)))
      .map(({ metadata }) => metadata.uid);
  }

  const runs = () =>
    workloads.gateway.process.lines.filter(({ msg }) => msg === 'trigger') as unknown as {
      key: string;
      reasons: readonly { object?: string }[];
    }[];

  it.each(Array.from({ length: DRAWS }, (_, at) => seed + at))(
    'change nothing there, and cause no write that its own changes do not (TEST_SEED=%i)',
    { timeout: 4 * SETUP_MS },
    async (drawn) => {
      const [given = []] = fc.sample(rounds(ACTIONS), { seed: drawn, numRuns: 1 });
      const accepted = tenant.accepted;
      let [explained, copied] = [0, 0];
      for (const [at, round] of given.entries()) {
        const from = (await workloads.audit.requests()).length;
        const before = await looks();
        await play(round);
        // By the end of a rollout some of them may be gone.
        const owners = new Set((await objectsOf(victim)).map(({ metadata }) => metadata.uid));
        const copies = await copiesOf(owners);
        if (round.victim === 'rests') await touch(2 * at);
        await untilAlike();
        const writes = await writesSince(from);
        if (round.victim === 'rests') {
          const said = writes.map(
            (each) => `${each.user} ${each.verb} ${each.namespace} ${each.resource} ${each.code}`,
          );
          expect(said, said.slice(0, 6).join('; ')).toEqual([]);
          expect(await looks()).toEqual(before);
        } else {
          expect(writes.filter(({ namespace }) => namespace !== victim && namespace !== twin)).toEqual([]);
          expect(effectOf(writes, victim), JSON.stringify(round.victim)).toEqual(effectOf(writes, twin));
        }
        await touch(2 * at + 1);
        await untilAlike();
        // Nor are the copies deleted as surplus of the victim's.
        expect(await copiesOf(owners)).toEqual(expect.arrayContaining(copies));
        explained += writes.length;
        copied += copies.length;
      }
      process.stdout.write(
        `hostile copies: TEST_SEED=${drawn}, ${given.map(({ victim: how }) => JSON.stringify(how)).join(' ')}, ` +
          `${tenant.accepted - accepted} actions accepted, ${explained} writes, ${copied} pods of the victim's owners\n`,
      );
      expect(tenant.accepted - accepted).toBeGreaterThan((given.length * ACTIONS) / 3);
      expect(explained).toBeGreaterThan(0);
      expect(copied).toBeGreaterThan(ACTIONS / 10);
      expect(strangeReasons(victim, runs())).toEqual([]);
      await eventually(() => tenant.clear());
      await workloads.untilIdle();
    },
  );
});

/** Which kinds of write there were in a namespace, and how many pods and ReplicaSets were made and deleted. */
function effectOf(writes: readonly AuditedRequest[], namespace: string): string[] {
  const own = writes.filter((each) => each.namespace === namespace && each.resource !== 'events');
  const counts = ['create pods', 'delete pods', 'create replicasets', 'delete replicasets'].map((what) => {
    const done = own.filter(({ verb, resource, code }) => `${verb} ${resource}` === what && code < 300);
    return `${what}: ${done.length}`;
  });
  return [...new Set(own.map(({ user, verb, resource }) => `${user} ${verb} ${resource}`)), ...counts].toSorted();
}

/** Creates a Deployment of each strategy, a Service for the first, and a Service with Endpoints made by hand. */
async function createObjects({ cluster }: WorkloadPlane, namespace: string): Promise<void> {
  for (const [name, strategy] of [
    ['web', { type: 'RollingUpdate' }],
    ['once', { type: 'Recreate' }],
  ] as const) {
    const labels = { app: name };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'pause' }] } };
    await cluster.create(Deployment, {
      metadata: { namespace, name },
      spec: { replicas: 3, strategy, selector: { matchLabels: labels }, template },
    });
  }
  const ports = [{ port: 80 }];
  await cluster.create(Service, {
    metadata: { namespace, name: 'web' },
    spec: { selector: { app: 'web' }, ports },
  });
  await cluster.create(Service, { metadata: { namespace, name: 'by-hand' }, spec: { ports } });
  await cluster.create(Endpoints, {
    metadata: { namespace, name: 'by-hand' },
    subsets: [{ addresses: [{ ip: '10.9.9.1' }], ports }],
  });
}
