import { globSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { controllerOf, resourcePath } from '../../../src/core/index.ts';
import {
  ClusterRole,
  Endpoints,
  EndpointSlice,
  Namespace,
  ResourceQuota,
  Service,
} from '../../../src/function/kinds/index.ts';
import type { AuditedRequest } from '../../harness/audit-log.ts';
import { type Cluster, configMaps, type ReplicaSet, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { deployment, deployments, podTemplate } from '../../harness/deployments.ts';
import { eventually } from '../../harness/eventually.ts';
import { ExtensionApiserver } from '../../harness/extension-apiserver.ts';
import { Fleet } from '../../harness/fleet.ts';
import { userOf } from '../../harness/identity.ts';
import { Started } from '../../harness/started.ts';
import { finalizerRights, type Right, unusedRights } from '../../harness/unused-rights.ts';
import { PLANE_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';

const ROOT = join(import.meta.dirname, '../../..');
const LIMIT_MS = 60_000;
const NAMESPACE = 'rights';
/** A quota of this namespace refuses every pod, Endpoints and EndpointSlice. */
const FULL = 'rights-full';
/** In this namespace a ReplicaSet without an owner has the name that the deployment function wants. */
const TAKEN = 'rights-taken';
/** Long enough that no node seems silent while the machine is busy. */
const VARIABLES = { NODE_MONITOR_GRACE_SECONDS: '20', NODE_EVICTION_RATE: '10' };
/** OwnerReferencesPermissionEnforcement says this to a user without the right on the owner's finalizers. */
const REFUSAL = 'cannot set blockOwnerDeletion';

/** By function, an owner for which the function creates an object whose owner reference blocks the owner's deletion. */
const OWNERS: Readonly<Record<string, { readonly owned: string; create(namespace: string): Promise<unknown> }>> = {
  replicaset: {
    owned: 'pods',
    create: (namespace) => cluster.create(replicaSets, replicaSet({ namespace, name: 'owner' }, 1)),
  },
  deployment: {
    owned: 'replicasets',
    create: (namespace) => cluster.create(deployments, deployment({ namespace, name: 'owner' }, 0)),
  },
  endpointslice: {
    owned: 'endpointslices',
    create: (namespace) => createService(namespace, 'owner', { selector: { app: 'owner' } }),
  },
  'endpointslice-mirroring': {
    owned: 'endpointslices',
    async create(namespace) {
      await createService(namespace, 'owner');
      await createEndpoints(namespace, 'owner', 1);
    },
  },
};

const started = new Started();
const stopped = new AbortController();
let beating: Promise<void> | undefined;
let workloads: WorkloadPlane;
let cluster: Cluster;
let extension: ExtensionApiserver;
let fleet: Fleet;

/**
 * Each test makes a function send a request for every right in its `rbac.yaml`: a right without a request fails the
 * test. The apiserver also asks for the rights on finalizers, which it does not by default.
 */
describe('the rights of the functions', { timeout: 4 * LIMIT_MS }, () => {
  beforeAll(async () => {
    workloads = await WorkloadPlane.start(started, {
      functions: PLANE_FUNCTIONS,
      // The test is the kubelet.
      nodes: 0,
      functionVariables: VARIABLES,
      apiserverArguments: ['--enable-admission-plugins=OwnerReferencesPermissionEnforcement'],
    });
    ({ cluster } = workloads);
    extension = await ExtensionApiserver.start(started, cluster);
    for (const name of [NAMESPACE, FULL, TAKEN]) await cluster.createNamespace(name);
    const hard = { pods: '0', 'count/endpoints': '0', 'count/endpointslices.discovery.k8s.io': '0' };
    await cluster.create(ResourceQuota, { metadata: { namespace: FULL, name: 'none' }, spec: { hard } });
    fleet = new Fleet(cluster, {
      zones: { silent: 1, steady: 1 },
      podsPerNode: 1,
      tolerationSeconds: 1,
      namespace: NAMESPACE,
    });
    await fleet.create();
    beating = fleet.beatUntil(stopped.signal, 1000);
    await eventually(async () => {
      const quota = await cluster.get(ResourceQuota, { namespace: FULL, name: 'none' });
      expect(quota?.status?.hard).toEqual(hard);
    }, LIMIT_MS);
    await workloads.startLine();
    // The functions try again with a backoff, and their Events repeat while the first tests run.
    await cluster.create(replicaSets, replicaSet({ namespace: FULL, name: 'refused' }, 1));
    await createService(FULL, 'refused', { selector: { app: 'refused' } });
  }, 300_000);

  afterAll(async () => {
    stopped.abort();
    await beating;
    await started.stop();
  });

  it('are tested for every function with an rbac.yaml', () => {
    const files = globSync('functions/*/rbac.yaml', { cwd: ROOT });
    expect(files.toSorted()).toEqual(PLANE_FUNCTIONS.map((name) => `functions/${name}/rbac.yaml`).toSorted());
  });

  it('replicaset: adopts, releases, creates and deletes pods', async () => {
    const orphan = { namespace: NAMESPACE, name: 'orphan' };
    const { template } = replicaSet({ namespace: NAMESPACE, name: 'adopter' }, 1).spec;
    await cluster.create(pods, { metadata: { ...orphan, ...template.metadata }, spec: template.spec });
    const adopter = await cluster.create(replicaSets, replicaSet({ namespace: NAMESPACE, name: 'adopter' }, 1));
    const ownerOfOrphan = async () => controllerOf(await existing(cluster.get(pods, orphan)))?.uid;
    const size = async () => (await cluster.get(replicaSets, keyOf(adopter)))?.status?.replicas;
    await eventually(async () => expect(await ownerOfOrphan()).toBe(adopter.metadata.uid), LIMIT_MS);
    await cluster.patch(pods, orphan, { metadata: { labels: { app: 'nobody' } } });
    await eventually(async () => expect(await ownerOfOrphan()).toBeUndefined(), LIMIT_MS);
    await eventually(async () => expect(await size()).toBe(1), LIMIT_MS);
    await cluster.patch(replicaSets, keyOf(adopter), { spec: { replicas: 0 } });
    await eventually(async () => expect(await size()).toBe(0), LIMIT_MS);
    await untilAllUsed('replicaset');
  });

  it('deployment: creates, adopts, resizes and deletes ReplicaSets, and finds a name taken', async () => {
    const web = { namespace: NAMESPACE, name: 'web' };
    await cluster.create(deployments, deployment(web, 1));
    const own = () =>
      eventually(async () => {
        const { items } = await cluster.list(replicaSets, NAMESPACE, 'app=web');
        return existing(Promise.resolve(items.find((each) => controllerOf(each)?.name === 'web')));
      }, LIMIT_MS);
    // The Event of the first growth from 1 to 2 counts the second one too.
    for (const replicas of [1, 2, 1, 2]) {
      await cluster.patch(deployments, web, { spec: { replicas } });
      await eventually(async () => expect((await own()).spec.replicas).toBe(replicas), LIMIT_MS);
    }

    const taken = { namespace: TAKEN, name: (await own()).metadata.name };
    await cluster.create(replicaSets, replicaSet(taken, 0));
    await cluster.create(deployments, deployment({ namespace: TAKEN, name: 'web' }, 1));
    await eventually(async () => {
      const found = await cluster.get(deployments, { namespace: TAKEN, name: 'web' });
      expect(found?.status).toMatchObject({ collisionCount: 1 });
    }, LIMIT_MS);

    const bare = { namespace: NAMESPACE, name: 'bare' };
    const { spec } = replicaSet(bare, 0);
    const template = podTemplate('bare', 'old');
    const metadata = { ...bare, labels: template.metadata.labels };
    await cluster.create(replicaSets, { metadata, spec: { ...spec, template } });
    await cluster.create(deployments, deployment(bare, 0, { revisionHistoryLimit: 0 }));
    // The Deployment keeps no old revision, and the orphan is one once it is adopted.
    await eventually(async () => expect(await cluster.get(replicaSets, bare)).toBeUndefined(), LIMIT_MS);
    await untilAllUsed('deployment');
  });

  it('endpointslice and endpoints: follow pods and their Service', async () => {
    const key = { namespace: NAMESPACE, name: 'served' };
    const slices = async () =>
      (await cluster.list(EndpointSlice, NAMESPACE, 'kubernetes.io/service-name=served')).items;
    await createServedPod('served-a', 8080, '10.0.0.1');
    await createServedPod('served-b', 9090, '10.0.0.2');
    await createService(NAMESPACE, 'served', { selector: { app: 'served' } });
    // The pods have different numbers for the port of this name, and each number needs a slice of its own.
    await eventually(async () => expect(await slices()).toHaveLength(2), LIMIT_MS);
    await eventually(async () => expect((await cluster.get(Endpoints, key))?.subsets).toHaveLength(2), LIMIT_MS);

    await cluster.patch(pods, { namespace: NAMESPACE, name: 'served-b' }, { metadata: { labels: { app: 'nobody' } } });
    await eventually(async () => expect(await slices()).toHaveLength(1), LIMIT_MS);
    await writePodStatus('served-a', '10.0.0.1', 'False');
    await eventually(async () => {
      const [slice] = await slices();
      expect(slice?.endpoints).toMatchObject([{ conditions: { ready: false } }]);
      expect((await cluster.get(Endpoints, key))?.subsets).toMatchObject([{ notReadyAddresses: [{}] }]);
    }, LIMIT_MS);

    // The apiserver deletes the Endpoints together with the Service. Endpoints that the function creates a moment later
    // are left for the function to delete.
    await cluster.delete(Service, key);
    await eventually(async () => expect(await cluster.get(Endpoints, key)).toBeUndefined(), LIMIT_MS);
    const labels = { 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' };
    await cluster.create(Endpoints, { metadata: { ...key, labels } });
    await eventually(async () => expect(await cluster.get(Endpoints, key)).toBeUndefined(), LIMIT_MS);
    await untilAllUsed('endpointslice');
    await untilAllUsed('endpoints');
  });

  it('endpointslice-mirroring: follows Endpoints that others write', async () => {
    const key = { namespace: NAMESPACE, name: 'mirrored' };
    const slices = async () =>
      (await cluster.list(EndpointSlice, NAMESPACE, 'kubernetes.io/service-name=mirrored')).items;
    await createService(NAMESPACE, 'mirrored');
    // One address more than is mirrored: an Event says so after every change.
    await createEndpoints(NAMESPACE, 'mirrored', 1001);
    await eventually(async () => expect((await slices())[0]?.endpoints).toHaveLength(1000), LIMIT_MS);
    await cluster.patch(Endpoints, key, { metadata: { labels: { changed: 'yes' } } });
    await eventually(async () => expect((await slices())[0]?.metadata.labels).toHaveProperty('changed'), LIMIT_MS);
    await cluster.patch(Endpoints, key, {
      metadata: { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } },
    });
    await eventually(async () => expect(await slices()).toEqual([]), LIMIT_MS);
    await untilAllUsed('endpointslice-mirroring');
  });

  it('namespace: deletes a Namespace with objects of all kinds', async () => {
    const name = 'rights-deleted';
    await cluster.createNamespace(name);
    await cluster.create(configMaps, { metadata: { namespace: name, name: 'map' } });
    // A Thing cannot be deleted as a collection, unlike kube-apiserver's own kinds.
    extension.create(name, 'thing');
    await cluster.deleteNamespace(name);
    await eventually(async () => expect(await cluster.get(Namespace, { name })).toBeUndefined(), LIMIT_MS);
    expect(extension.list(name)).toEqual([]);
    await untilAllUsed('namespace');
  });

  it('node-lifecycle: taints a node that falls silent twice, and evicts its pod', async () => {
    const lost = 'Unknown unreachable:NoExecute unreachable:NoSchedule';
    const untilNodes = (nodes: Readonly<Record<string, number>>) =>
      eventually(async () => expect((await fleet.state()).nodes).toEqual(nodes), LIMIT_MS);
    await fleet.silence('silent');
    await untilNodes({ True: 1, [lost]: 1 });
    await eventually(async () => {
      expect((await fleet.state()).pods).toHaveProperty('False deleted target');
    }, LIMIT_MS);
    await fleet.revive();
    await untilNodes({ True: 2 });
    await fleet.silence('silent');
    await untilNodes({ True: 1, [lost]: 1 });
    await untilAllUsed('node-lifecycle');
  });

  it('suffice: the apiserver has refused no request for the lack of one', async () => {
    const own = (await workloads.audit.requests()).filter(({ user }) => user.startsWith(userOf('')));
    expect(own.filter(({ authorized, message }) => !authorized || message.includes(REFUSAL))).toEqual([]);
  });

  describe('on the finalizers of owners', () => {
    it('are tested for every function that has any', async () => {
      const having: string[] = [];
      for (const name of PLANE_FUNCTIONS) if ((await finalizerRights(name)).length > 0) having.push(name);
      expect(having.toSorted()).toEqual(Object.keys(OWNERS).toSorted());
    });

    it.each(Object.keys(OWNERS))('are needed by %s to create what the owners own', async (name) => {
      const owner = OWNERS[name];
      const [right, ...others] = await finalizerRights(name);
      if (!owner || !right) throw new Error(`there is no right of ${name}`);
      expect(others, 'rights that were not tested').toEqual([]);
      const namespace = `rights-of-${name}`;
      const latest = async (): Promise<AuditedRequest | undefined> =>
        (await workloads.audit.requests()).findLast(
          (each) =>
            each.user === userOf(name) &&
            each.namespace === namespace &&
            each.verb === 'create' &&
            each.resource === owner.owned,
        );
      await cluster.createNamespace(namespace);
      const giveBack = await takeAway(name, right);
      await owner.create(namespace);
      await eventually(async () => {
        const request = await latest();
        expect(request?.code).toBe(403);
        expect(request?.message).toContain(REFUSAL);
      }, LIMIT_MS);
      await giveBack();
      await eventually(async () => expect((await latest())?.code).toBe(201), LIMIT_MS);
    });
  });
});

/** Until the function has used every right of its `rbac.yaml`. */
async function untilAllUsed(name: string): Promise<void> {
  await eventually(
    async () => {
      const unused = await unusedRights(await workloads.audit.requests(), name);
      expect(unused, `unused rights of ${name}`).toEqual([]);
    },
    LIMIT_MS,
    500,
  );
}

/** Takes a right from the function's ClusterRole until the returned function is called. The apiserver knows then. */
async function takeAway(name: string, { verb, group, resource: of }: Right): Promise<() => Promise<void>> {
  const key = { name: `levelhook-${name}` };
  const { rules = [] } = await existing(cluster.get(ClusterRole, key));
  const left = rules.flatMap((rule) => {
    const resources = rule.resources?.filter((each) => each !== of) ?? [];
    return resources.length > 0 ? [{ ...rule, resources }] : [];
  });
  const [plural, subresource] = of.split('/');
  const untilAllowed = (allowed: boolean) =>
    eventually(async () => {
      const { status } = await cluster.client.json<{ status: { allowed: boolean } }>({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        body: {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: { user: userOf(name), resourceAttributes: { verb, group, resource: plural, subresource } },
        },
      });
      expect(status.allowed).toBe(allowed);
    });
  await cluster.patch(ClusterRole, key, { rules: left });
  await untilAllowed(false);
  return async () => {
    await cluster.patch(ClusterRole, key, { rules });
    await untilAllowed(true);
  };
}

async function existing<T>(asked: Promise<T | undefined>): Promise<T> {
  const found = await asked;
  if (found === undefined) throw new Error('it does not exist');
  return found;
}

function keyOf({ metadata: { namespace = '', name } }: ReplicaSet): { namespace: string; name: string } {
  return { namespace, name };
}

async function createService(namespace: string, name: string, spec: object = {}): Promise<void> {
  const ports = [{ name: 'http', port: 80, targetPort: 'http' }];
  await cluster.create(Service, { metadata: { namespace, name }, spec: { ports, ...spec } });
}

/** As a person writes them, with so many addresses. */
async function createEndpoints(namespace: string, name: string, count: number): Promise<void> {
  const addresses = Array.from({ length: count }, (_, at) => ({ ip: `10.1.${at >> 8}.${at & 255}` }));
  const subsets = [{ addresses, ports: [{ name: 'http', port: 8080 }] }];
  await cluster.create(Endpoints, { metadata: { namespace, name }, subsets });
}

/** A ready pod whose port `http` has this number. */
async function createServedPod(name: string, containerPort: number, ip: string): Promise<void> {
  const metadata = { namespace: NAMESPACE, name, labels: { app: 'served' } };
  const containers = [{ name: 'main', image: 'none', ports: [{ name: 'http', containerPort }] }];
  await cluster.create(pods, { metadata, spec: { nodeName: 'steady-0', containers } });
  await writePodStatus(name, ip, 'True');
}

/** As a kubelet does. */
async function writePodStatus(name: string, ip: string, ready: 'True' | 'False'): Promise<void> {
  const conditions = [
    { type: 'Ready', status: ready, lastTransitionTime: `${new Date().toISOString().slice(0, 19)}Z` },
  ];
  await cluster.client.json({
    method: 'PATCH',
    path: resourcePath(pods, { namespace: NAMESPACE, name, subresource: 'status' }),
    body: { status: { phase: 'Running', podIP: ip, podIPs: [{ ip }], conditions } },
    contentType: 'application/merge-patch+json',
  });
}
