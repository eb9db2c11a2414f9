import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type KubernetesObject, type Resource, resource } from '../../src/core/index.ts';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { Cluster, configMaps, pods, replicaSets } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { newSeed, randomOf } from '../harness/random.ts';
import { Started } from '../harness/started.ts';
import { PLANE_FUNCTIONS, WorkloadPlane } from '../harness/workload-plane.ts';
import { canonical, differences, stable } from './canonical.ts';
import { type Body, changeOf, Choice, type Given, givenOf, merged } from './objects.ts';

const SEED = newSeed();
const ROUNDS = Number(process.env['DIFFERENTIAL_ROUNDS'] ?? 16);
const NODES = 3;
const namespace = 'differential';
const deployments = resource('apps/v1', 'Deployment');
const services = resource('v1', 'Service');
const endpoints = resource('v1', 'Endpoints', { plural: 'endpoints' });
const slices = resource('discovery.k8s.io/v1', 'EndpointSlice');
const nodes = resource('v1', 'Node', { namespaced: false });
const namespaces = resource('v1', 'Namespace', { namespaced: false });
const KINDS: readonly Resource[] = [deployments, replicaSets, pods, services, endpoints, slices];
const AT_REST_MS = 240_000;
/** On a busy machine kwok may be late with the heartbeats of its nodes, whose pods would then be evicted. */
const SILENCE_SECONDS = 3600;

/**
 * The same objects at two control planes: kube-controller-manager alone, and with our functions in place of its
 * controllers. All objects must come to the same, but for the differences that `canonical.ts` leaves out.
 */
describe(`objects of kube-controller-manager and of our functions (TEST_SEED=${SEED})`, () => {
  const started = new Started();
  const choice = new Choice(randomOf(SEED));
  const given: Given = givenOf(choice, namespace);
  let clusters: readonly [Cluster, Cluster];

  beforeAll(async () => {
    const theirs: ControlPlane = await startControlPlane({
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
    await ours.startLine();
    clusters = [cluster, ours.cluster];
  }, 300_000);

  afterAll(() => started.stop());

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
    both((cluster) => Promise.all(bodies.map((body) => cluster.create(of, body))));

  it('come to rest alike', { timeout: AT_REST_MS + 120_000 }, async () => {
    const count = [
      given.deployments,
      given.replicaSets,
      given.services,
      given.endpoints,
      given.pods,
      given.nodes,
      given.leaving,
    ];
    expect(count.reduce((sum, each) => sum + each.length, 0)).toBeGreaterThanOrEqual(150);
    await both((cluster) => cluster.createNamespace(namespace));
    await createAll(nodes, given.nodes);
    await createAll(pods, given.pods);
    await createAll(replicaSets, given.replicaSets);
    await createAll(deployments, given.deployments);
    await createAll(services, given.services);
    await createAll(endpoints, given.endpoints);
    await expectEqual(async (cluster) => canonical(await objectsOf(cluster)));
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
      await both(async (cluster) => {
        for (const { namespace: name, held } of given.leaving) {
          await cluster.createNamespace(name);
          for (const body of held) {
            await cluster.create(configMaps, { ...body, metadata: { ...body.metadata, namespace: name } });
          }
          await cluster.deleteNamespace(name);
        }
      });
      const prefix = `${namespace}-leaving-`;
      const isLeft = ({ metadata }: KubernetesObject): boolean => metadata.name.startsWith(prefix);
      const count = given.leaving.filter(({ held }) => held.length > 1).length;
      await both((cluster) =>
        eventually(
          async () => expect((await cluster.list(namespaces)).items.filter(isLeft)).toHaveLength(count),
          AT_REST_MS,
        ),
      );
      await expectEqual(async (cluster) => canonical((await cluster.list(namespaces)).items.filter(isLeft)));
    },
  );

  it('have the same taints and conditions of Nodes', { timeout: AT_REST_MS + 60_000 }, async () => {
    const taint = (key: string) => ({ spec: { taints: [{ key, value: 'y', effect: 'NoExecute' }] } });
    await both((cluster) =>
      Promise.all([0, 1].map((at) => cluster.patch(nodes, { name: `hand-${at}` }, taint('leave')))),
    );
    await expectEqual(async (cluster) => {
      const found = (await cluster.list(nodes)).items;
      const there = (await cluster.list(pods, namespace)).items.filter(({ metadata }) =>
        metadata.name.startsWith('pod-'),
      );
      return [
        ...found.map(({ metadata, ...node }) =>
          stable({ kind: 'Node', name: metadata.name, labels: metadata.labels, ...nodeFacts(node) }),
        ),
        ...there.map(({ metadata }) => stable({ kind: 'Pod', name: metadata.name })).toSorted(),
      ];
    });
  });
});

/** Whether its controller has not seen the object as it is now. */
function isUnseen(object: KubernetesObject): boolean {
  const { status } = object as { readonly status?: { readonly observedGeneration?: number } };
  const isWatched = object.kind === 'Deployment' || object.kind === 'ReplicaSet';
  return isWatched && status?.observedGeneration !== object.metadata.generation;
}

function nodeFacts(node: object): object {
  const { spec = {}, status = {} } = node as {
    spec?: { taints?: readonly { key: string; value?: string; effect: string }[] };
    status?: { conditions?: readonly { type: string; status: string; reason?: string }[] };
  };
  return {
    taints: spec.taints?.map(({ key, value, effect }) => ({ key, value, effect })),
    conditions: status.conditions?.map(({ type, status: is, reason }) => ({ type, is, reason })),
  };
}
