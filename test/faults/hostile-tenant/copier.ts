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
import type { Cluster } from '../../harness/cluster.ts';
import { type Reply, RestrictedUser } from '../../harness/restricted-user.ts';
import { type Copy, type CopyAction, patchOf } from './grammar/copies.ts';

const KINDS: Readonly<Record<Copy['kind'], Resource>> = {
  Deployment,
  ReplicaSet,
  Pod,
  Service,
  Endpoints,
  EndpointSlice,
  Lease,
};
/** Where the nodes and the components have their Leases. */
const LEASES = ['kube-node-lease', 'kube-system'];
const VERBS = ['get', 'list', 'create', 'update', 'patch', 'delete', 'deletecollection'];
/** All that the tenant may do, in its namespace alone. */
const RULES = [
  { apiGroups: [''], resources: ['pods', 'pods/status', 'services', 'endpoints'], verbs: VERBS },
  { apiGroups: ['apps'], resources: ['deployments', 'replicasets'], verbs: VERBS },
  { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: VERBS },
  { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: VERBS },
];

/** A tenant that puts copies of another one's objects into its own namespace, and changes the copies. */
export class Copier {
  /** Actions that the apiserver accepted. */
  accepted = 0;
  readonly #cluster: Cluster;
  readonly #user: RestrictedUser;
  readonly #namespace: string;
  readonly #victim: string;
  #count = 0;

  private constructor(cluster: Cluster, user: RestrictedUser, namespace: string, victim: string) {
    this.#cluster = cluster;
    this.#user = user;
    this.#namespace = namespace;
    this.#victim = victim;
  }

  /** @param namespace its own, which is there. */
  static async create(
    { cluster, kubeconfig }: { cluster: Cluster; kubeconfig: string },
    namespace: string,
    victim: string,
  ): Promise<Copier> {
    const user = await RestrictedUser.create(cluster, kubeconfig, { namespace, name: 'tenant' }, RULES);
    return new Copier(cluster, user, namespace, victim);
  }

  close(): Promise<void> {
    return this.#user.close();
  }

  async act(action: CopyAction): Promise<void> {
    this.#count += 1;
    const reply = await (action.do === 'copy' ? this.#copy(action) : this.#change(action));
    // Nothing is there yet to be changed.
    if (!reply) return;
    if (reply.status >= 500) throw new Error(reply.text);
    if (reply.status < 300) this.accepted += 1;
  }

  /** Removes all copies with their finalizers. @throws while functions still create pods for copies that are left. */
  async clear(): Promise<void> {
    for (const kind of Object.values(KINDS)) {
      for (const { metadata } of await this.#list(kind, this.#namespace)) {
        if (!metadata.finalizers?.length) continue;
        const key = { namespace: this.#namespace, name: metadata.name };
        await this.#cluster.patch(kind, key, { metadata: { finalizers: null } });
      }
      await this.#user.removeAll(kind, this.#namespace);
    }
    const left = await Promise.all(Object.values(KINDS).map((kind) => this.#list(kind, this.#namespace)));
    if (left.flat().length > 0) throw new Error(`${left.flat().length} copies are left`);
  }

  async #copy(copy: Copy): Promise<Reply | undefined> {
    const places = copy.kind === 'Lease' ? LEASES : [this.#victim];
    const all = (await Promise.all(places.map((place) => this.#list(KINDS[copy.kind], place)))).flat();
    const original = all[copy.nth % all.length];
    if (!original) return undefined;
    const kind = copy.isPod ? Pod : KINDS[copy.kind];
    const key = { namespace: this.#namespace, name: copy.name ? original.metadata.name : `copy-${this.#count}` };
    const reply = await this.#user.put(kind, key, formatJson(bodyOf(copy, original, kind, key)));
    if (reply.status >= 300) return reply;
    if (kind === Pod && copy.isReady) {
      const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }];
      const status = { phase: 'Running', podIP: '10.66.0.1', podIPs: [{ ip: '10.66.0.1' }], conditions };
      await this.#user.setStatus(kind, key, status);
    }
    if (copy.deleted) await this.#user.remove(kind, key);
    return reply;
  }

  async #change(change: CopyAction & { do: 'change' }): Promise<Reply | undefined> {
    const lists = await Promise.all(
      [Deployment, ReplicaSet].map(async (kind) =>
        (await this.#list(kind, this.#namespace)).map(({ metadata }) => ({ kind, name: metadata.name })),
      ),
    );
    const found = lists.flat();
    const copy = found[change.nth % found.length];
    if (!copy) return undefined;
    const key = { namespace: this.#namespace, name: copy.name };
    return this.#user.merge(copy.kind, key, formatJson(patchOf(change, copy.kind.kind)));
  }

  async #list(kind: Resource, namespace: string): Promise<KubernetesObject[]> {
    return (await this.#cluster.list<KubernetesObject>(kind, namespace)).items;
  }
}

function bodyOf(
  copy: Copy,
  { metadata, ...original }: KubernetesObject & { status?: unknown },
  { apiVersion, kind }: Resource,
  key: { namespace: string; name: string },
): object {
  const { status: _, ...parts } = original;
  const { apiVersion: ownApiVersion } = KINDS[copy.kind];
  const self = { apiVersion: ownApiVersion, kind: copy.kind, name: metadata.name, uid: metadata.uid };
  const owners = {
    'of the object': metadata.ownerReferences ?? [],
    'the object': [{ ...self, controller: true }],
    'any of the object, not controlling': (metadata.ownerReferences ?? [self]).map((each) => ({
      ...each,
      controller: false,
    })),
    none: [],
  };
  const podSpec = { nodeName: 'none', tolerations: [{ operator: 'Exists' }], containers: [{ name: 'c', image: 'x' }] };
  const spec = (parts as { spec?: { selector?: object; template?: { metadata?: { labels?: object } } } }).spec;
  const labels = copy.isPod ? spec?.template?.metadata?.labels : undefined;
  return {
    ...(copy.isPod && copy.kind !== 'Pod' ? { spec: podSpec } : parts),
    // Addresses of a Service are its own.
    ...(kind === 'Service' ? { spec: { selector: spec?.selector, ports: [{ port: 80 }] } } : {}),
    apiVersion,
    kind,
    metadata: {
      ...key,
      labels: copy.labels ? metadata.labels : labels,
      annotations: {
        ...(copy.annotations ? metadata.annotations : {}),
        'controller.kubernetes.io/pod-deletion-cost': '2000000000',
      },
      ...(copy.uid ? { uid: metadata.uid } : {}),
      ...(copy.held ? { finalizers: ['example.com/held'] } : {}),
      ownerReferences: owners[copy.owner],
    },
  };
}
