import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type KubernetesObject, type Resource, resource } from '../../src/core/index.ts';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { Endpoints, Event, Node } from '../../src/function/kinds/index.ts';
import { Cluster, configMaps, leases, pods, replicaSets } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { newSeed, randomOf } from '../harness/random.ts';
import { Started } from '../harness/started.ts';
import { PLANE_FUNCTIONS, WorkloadPlane } from '../harness/workload-plane.ts';
import { canonical, differences } from './canonical.ts';
import {
  type Body,
  changeOf,
  Choice,
  createFamilies,
  createIn,
  createPodsOfFamilies,
  deployments,
  type Given,
  givenOf,
  isUnseen,
  LEAVE,
  leaveNamespaces,
  merged,
  services,
  TAINTED,
} from './objects.ts';
import { isMade } from './omissions.ts';
import { stable } from './stable.ts';

const SEED = newSeed();
const ROUNDS = Number(process.env['DIFFERENTIAL_ROUNDS'] ?? 16);
/** Room for all pods: among pods that wait for a place, chance says which of them gets it. */
const NODES = 16;
const namespace = 'differential';
const slices = resource('discovery.k8s.io/v1', 'EndpointSlice');
const namespaces = resource('v1', 'Namespace', { namespaced: false });
const KINDS: readonly Resource[] = [deployments, replicaSets, pods, services, Endpoints, slices];
const AT_REST_MS = 240_000;
/** Well within the time that a node without a status has for its first one. */
const RENEW_EVERY_MS = 10_000;
/** On a busy machine kwok may be late with the heartbeats of its nodes, whose pods would then be evicted. */
const SILENCE_SECONDS = 3600;

/**
 * The same objects at two control planes: kube-controller-manager alone, and with our functions in place of its
 * controllers. All objects must come to the same, but for the differences of `omissions.ts`.
 */
describe(`objects of kube-controller-manager and of our functions (TEST_SEED=${SEED})`, () => {
  const started = new Started();
  const choice = new Choice(randomOf(SEED));
  const given: Given = givenOf(choice, namespace);
  let theirs: ControlPlane;
  let clusters: readonly [Cluster, Cluster];

  beforeAll(async () => {
    theirs = await startControlPlane({
      kubeControllerManager: {
        controllers: ['*'],
        extraArguments: [`--node-monitor-grace-period=${SILENCE_SECONDS}s`],
      },
      kwokNodes: NODES,
    });
    started.add(() => theirs.stop());
    const cluster = await Cluster.connect(theirs.kubeconfig);
    started.add(() => cluster.close());
    const ours = await WorkloadPlane.start(started, {
      functions: PLANE_FUNCTIONS,
      nodes: NODES,
      functionVariables: { NODE_MONITOR_GRACE_SECONDS: String(SILENCE_SECONDS) },
    });
    clusters = [cluster, ours.cluster];
    await both((each) => each.createNamespace(namespace));
    await createAll(Endpoints, given.leftEndpoints[0]);
    await Promise.all([startControllersAgain(), ours.startLine()]);
  }, 300_000);

  afterAll(() => started.stop());

  /** kube-controller-manager deletes Endpoints whose Service is gone at its start alone. */
  async function startControllersAgain(): Promise<void> {
    await theirs.kill('kube-controller-manager');
    await theirs.start('kube-controller-manager');
  }

  const both = (act: (cluster: Cluster) => Promise<unknown>): Promise<unknown> => Promise.all(clusters.map(act));

  async function objectsOf(cluster: Cluster): Promise<KubernetesObject[]> {
    const lists = await Promise.all(
      KINDS.map(async (of) =>
        (await cluster.list(of, namespace)).items.map((item) => ({
          ...item,
          apiVersion: of.apiVersion,
          kind: of.kind,
        })),
      ),
    );
    const all = lists.flat();
    const unseen = all.filter(isUnseen);
    expect(unseen.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
    return all;
  }

  async function expectEqual(read: (cluster: Cluster) => Promise<string[]>): Promise<void> {
    let before = '';
    await eventually(
      async () => {
        const [theirs = [], ours = []] = await Promise.all(clusters.map(read));
        expect(differences(theirs, ours)).toEqual([]);
        // What is equal in passing says nothing.
        const now = stable(ours);
        const isSame = now === before;
        before = now;
        expect(isSame).toBe(true);
      },
      AT_REST_MS,
      2000,
    );
  }

  const createAll = (of: Resource, bodies: readonly Body[]): Promise<unknown> =>
    both((cluster) => createIn(cluster, of, bodies));

  /** Renews the Leases of some nodes until the test is over. */
  async function renewLeases(): Promise<void> {
    const of = { namespace: 'kube-node-lease' };
    const renewal = () => ({ spec: { renewTime: new Date().toISOString().replace('Z', '000Z') } });
    const each = (act: (cluster: Cluster, name: string) => Promise<unknown>) =>
      both((cluster) => Promise.all(given.renewed.map((name) => act(cluster, name))));
    await each((cluster, name) => cluster.create(leases, { metadata: { ...of, name }, ...renewal() }));
    const stopping = new AbortController();
    const { signal } = stopping;
    const renewing = (async () => {
      while (!signal.aborted) {
        await each((cluster, name) => cluster.patch(leases, { ...of, name }, renewal()));
        await sleep(RENEW_EVERY_MS, undefined, { signal }).catch(() => undefined);
      }
    })();
    started.add(() => {
      stopping.abort();
      return renewing;
    });
  }

  it('come to rest alike', { timeout: 3 * AT_REST_MS }, async () => {
    const count = [
      given.deployments,
      given.replicaSets,
      given.services,
      given.endpoints,
      given.pods,
      given.families.flatMap(({ pods: own, strangers }) => [...own, ...strangers]),
      given.nodes,
      given.leaving,
    ];
    expect(count.reduce((sum, each) => sum + each.length, 0)).toBeGreaterThanOrEqual(150);
    await createAll(Node, given.nodes);
    await renewLeases();
    await both((cluster) => createPodsOfFamilies(cluster, given, namespace));
    await createAll(pods, given.pods);
    await createAll(services, given.services);
    await createAll(Endpoints, given.endpoints);
    // Endpoints show that each controller has seen the pods, before ReplicaSets adopt them.
    await both((cluster) =>
      eventually(async () => expect(stable(await cluster.list(Endpoints, namespace))).toContain('10.9.0.'), AT_REST_MS),
    );
    await expectEqual(async (cluster) => canonical(await objectsOf(cluster)));
    await createAll(replicaSets, given.replicaSets);
    await createAll(deployments, given.deployments);
    await both((cluster) => createFamilies(cluster, given, namespace));
    await expectEqual(async (cluster) => canonical(await objectsOf(cluster)));
  });

  it('delete the same pod when the pods of others share its node', { timeout: AT_REST_MS + 60_000 }, async () => {
    const names = given.families.map(({ replicaSet }) => String(replicaSet.metadata['name']));
    await both((cluster) =>
      Promise.all(names.map((name) => cluster.patch(replicaSets, { namespace, name }, { spec: { replicas: 2 } }))),
    );
    await expectEqual(async (cluster) => canonical(await objectsOf(cluster)));
    const { items } = await clusters[1].list(pods, namespace);
    const left = items.filter(({ metadata }) => !metadata.deletionTimestamp).map(({ metadata }) => metadata.name);
    for (const { pods: own } of given.families) {
      expect(own.map(({ metadata }) => left.includes(String(metadata['name'])))).toEqual([false, true, true]);
    }
  });

  it(
    `come to rest alike after each of ${ROUNDS} random changes of each Deployment`,
    { timeout: ROUNDS * AT_REST_MS },
    async () => {
      let bodies = given.deployments;
      for (let round = 0; round < ROUNDS; round += 1) {
        const changes = bodies.map((body) => changeOf(choice, body));
        bodies = bodies.map((body, at) => merged(body, changes[at]) as Body);
        await both((cluster) =>
          Promise.all(
            changes.map((change, at) => cluster.patch(deployments, { namespace, name: `deployment-${at}` }, change)),
          ),
        );
        await expectEqual(async (cluster) => canonical(await objectsOf(cluster)));
      }
    },
  );

  it(
    'leave a Namespace alike, and stay alike in one that something holds',
    { timeout: AT_REST_MS + 60_000 },
    async () => {
      await both((cluster) => leaveNamespaces(cluster, given));
      const prefix = `${namespace}-leaving-`;
      const isLeft = ({ metadata }: KubernetesObject): boolean => metadata.name.startsWith(prefix);
      const count = given.leaving.filter(({ held }) => held.length > 1).length;
      await both((cluster) =>
        eventually(
          async () => expect((await cluster.list(namespaces)).items.filter(isLeft)).toHaveLength(count),
          AT_REST_MS,
        ),
      );
      await expectEqual(async (cluster) => {
        const left = (await cluster.list(namespaces)).items.filter(isLeft);
        const held = await Promise.all(left.map(({ metadata }) => cluster.list(configMaps, metadata.name)));
        return canonical([
          ...left.map((each) => ({ ...each, kind: 'Namespace' })),
          ...held.flatMap(({ items }) => items.map((each) => ({ ...each, kind: 'ConfigMap' }))),
        ]);
      });
    },
  );

  it('delete Endpoints whose Service is gone', { timeout: AT_REST_MS + 60_000 }, async () => {
    await createAll(Endpoints, given.leftEndpoints[1]);
    await startControllersAgain();
    await expectEqual(async (cluster) => canonical(await objectsOf(cluster)));
    const left = await Promise.all(clusters.map(async (cluster) => (await cluster.list(Endpoints, namespace)).items));
    const names = left.map((items) =>
      items.map(({ metadata }) => metadata.name).filter((name) => name.startsWith('left-')),
    );
    // An election has no Service.
    expect(names).toEqual(clusters.map(() => ['left-later-leader', 'left-leader']));
  });

  /** All Nodes, the pods that no controller has made, and the Events about both. */
  async function nodesAndPods(cluster: Cluster, leaving?: ReadonlySet<string>): Promise<string[]> {
    const [ofNodes, ofPods, ...events] = await Promise.all([
      cluster.list(Node),
      cluster.list(pods, namespace),
      cluster.list(Event, namespace),
      cluster.list(Event, 'default'),
    ]);
    const objects = [
      ...ofNodes.items.map((node) => ({ ...node, kind: 'Node' })),
      ...ofPods.items.map((pod) => ({ ...pod, kind: 'Pod' })).filter((pod) => !isMade(pod)),
      ...events.flatMap(({ items }) => items.map((event) => ({ ...event, kind: 'Event' }))),
    ];
    return canonical(objects, leaving ? { leaving } : {});
  }

  it('have the same Nodes, and evict the same pods in the same words', { timeout: 4 * AT_REST_MS }, async () => {
    await both((cluster) =>
      eventually(async () => {
        const found = (await cluster.list(Node)).items.filter(isTaintedAsLost);
        expect(found.map(({ metadata }) => metadata.name)).toEqual(given.lost);
      }, AT_REST_MS),
    );
    await expectEqual((cluster) => nodesAndPods(cluster));
    // kube-controller-manager evicts pods that are being deleted, too (functions/node-lifecycle/README.md).
    const there = (await clusters[0].list(pods, namespace)).items;
    const leaving = new Set(there.filter((pod) => pod.metadata.deletionTimestamp).map(({ metadata }) => metadata.name));
    await both((cluster) =>
      Promise.all(given.nodes.slice(0, TAINTED).map(({ metadata }) => taint(cluster, String(metadata['name'])))),
    );
    await expectEqual((cluster) => nodesAndPods(cluster, leaving));
    const evicted = (await nodesAndPods(clusters[0], leaving)).filter((text) => text.includes('Marking for deletion'));
    expect(evicted.length).toBeGreaterThanOrEqual(10);
    // The evictions change endpoints, and ReplicaSets replace the pods.
    await expectEqual(async (cluster) => canonical(await objectsOf(cluster), { leaving }));
  });
});

function isTaintedAsLost({ spec }: Node): boolean {
  return (spec?.taints ?? []).some(
    ({ key, effect }) => effect === 'NoExecute' && key.startsWith('node.kubernetes.io/'),
  );
}

/** Adds a taint to those of the controllers. */
async function taint(cluster: Cluster, name: string): Promise<void> {
  await eventually(async () => {
    const node = await cluster.get(Node, { name });
    const taints = [...(node?.spec?.taints ?? []), { key: LEAVE, value: 'y', effect: 'NoExecute' }];
    const { resourceVersion } = node?.metadata ?? {};
    await cluster.patch(Node, { name }, { metadata: { resourceVersion }, spec: { taints } });
  });
}
