import { ApiError, type KubernetesObject, resource } from '../../../src/core/index.ts';
import { type Cluster, pods, replicaSets } from '../../harness/cluster.ts';
import { deployment, deployments, podTemplate } from '../../harness/deployments.ts';
import type { Random } from '../../harness/seeded-random.ts';

const DEPLOYMENTS = 8;
const MOST_REPLICAS = 12;
const REVISIONS = 4;
/** As kube-controller-manager's taint eviction acts on it at once. */
const TAINT = { key: 'levelhook.test/failed', effect: 'NoExecute' };

/** Something that is done at random. */
export interface Action {
  readonly name: string;
  /** How often, beside the others. */
  readonly likely: number;
  readonly act: () => Promise<void>;
}

interface Node extends KubernetesObject {
  spec: { taints?: { key: string; effect: string }[] };
}

const nodes = resource<Node>('v1', 'Node', { namespaced: false });

/** Strategies by the number of a Deployment. */
const STRATEGIES = [
  { type: 'RollingUpdate', rollingUpdate: { maxSurge: '25%', maxUnavailable: '25%' } },
  { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
  { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 2 } },
  { type: 'Recreate' },
];

export interface RandomActionsOptions {
  readonly namespace: string;
  readonly random: Random;
  /** Simulated nodes that run pods. */
  readonly nodes: number;
  /** What else may be done. */
  readonly others: readonly Action[];
}

/** What users and machines do to Deployments, at random, one thing at a time. Another seed does something else. */
export class RandomActions {
  /** How often each was done. */
  readonly counts: Record<string, number> = {};
  readonly #cluster: Cluster;
  readonly #namespace: string;
  readonly #random: Random;
  readonly #nodes: number;
  readonly #tainted = new Set<string>();
  /** Each as often as it is likely. */
  readonly #choices: readonly Action[];

  constructor(cluster: Cluster, { namespace, random, nodes, others }: RandomActionsOptions) {
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.#random = random;
    this.#nodes = nodes;
    const all: readonly Action[] = [
      { likely: 6, name: 'scale', act: () => this.#patch({ replicas: this.#random.below(MOST_REPLICAS + 1) }) },
      { likely: 6, name: 'rollout', act: () => this.#rollOut() },
      { likely: 3, name: 'delete pods', act: () => this.#deletePods() },
      { likely: 2, name: 'end pods', act: () => this.#endPods() },
      { likely: 1, name: 'delete a Deployment', act: () => this.#deleteDeployment() },
      { likely: 1, name: 'delete a ReplicaSet', act: () => this.#deleteReplicaSet() },
      { likely: 1, name: 'fail a node', act: () => this.#failNode() },
      { likely: 1, name: 'mend a node', act: () => this.#mendNode() },
      ...others,
    ];
    this.#choices = all.flatMap((action) => Array.from({ length: action.likely }, () => action));
  }

  async createAll(): Promise<void> {
    for (let at = 0; at < DEPLOYMENTS; at += 1) await this.#create(at);
  }

  /** Does one thing. What is gone by then, or was changed at the same time, is left alone. */
  async act(): Promise<void> {
    const choice = this.#oneOf(this.#choices);
    if (!choice) return;
    const { name, act } = choice;
    this.counts[name] = (this.counts[name] ?? 0) + 1;
    try {
      await act();
    } catch (error) {
      if (!(error instanceof ApiError && [403, 404, 409, 422].includes(error.code))) throw error;
    }
  }

  /** All nodes, and all Deployments. */
  async mend(): Promise<void> {
    for (const name of this.#tainted) await this.#untaint(name);
    for (let at = 0; at < DEPLOYMENTS; at += 1) {
      if (!(await this.#cluster.get(deployments, this.#key(at)))) await this.#create(at);
    }
  }

  #key(at: number): { namespace: string; name: string } {
    return { namespace: this.#namespace, name: `web-${at}` };
  }

  async #create(at: number): Promise<void> {
    const strategy = STRATEGIES[at % STRATEGIES.length];
    const spec = { strategy, progressDeadlineSeconds: 60, revisionHistoryLimit: 2 };
    const replicas = this.#random.below(MOST_REPLICAS + 1);
    await this.#cluster.create(deployments, deployment(this.#key(at), replicas, spec));
  }

  async #patch(spec: object, at = this.#random.below(DEPLOYMENTS)): Promise<void> {
    await this.#cluster.patch(deployments, this.#key(at), { spec });
  }

  /** A template of a few: a new one, or one of before. */
  async #rollOut(): Promise<void> {
    const at = this.#random.below(DEPLOYMENTS);
    await this.#patch({ template: podTemplate(this.#key(at).name, String(this.#random.below(REVISIONS))) }, at);
  }

  /**
   * Its ReplicaSets and pods are left to the garbage collector, and another one of its name may come before they are
   * gone.
   */
  async #deleteDeployment(): Promise<void> {
    const at = this.#random.below(DEPLOYMENTS);
    if (!(await this.#cluster.get(deployments, this.#key(at)))) return this.#create(at);
    await this.#cluster.delete(deployments, this.#key(at));
  }

  async #deleteReplicaSet(): Promise<void> {
    const { items } = await this.#cluster.list(replicaSets, this.#namespace);
    const victim = this.#oneOf(items);
    if (victim) await this.#cluster.delete(replicaSets, { namespace: this.#namespace, name: victim.metadata.name });
  }

  async #deletePods(): Promise<void> {
    for (const { metadata } of await this.#somePods()) {
      await this.#cluster.delete(pods, { namespace: this.#namespace, name: metadata.name });
    }
  }

  /**
   * As a kubelet that is short of memory does: they stay as Failed, and count no more. Only pods that run: what kwok is
   * about to make Running would be Failed for a moment alone.
   */
  async #endPods(): Promise<void> {
    const running = (await this.#somePods()).filter(({ status }) => status?.phase === 'Running');
    for (const { metadata } of running) {
      await this.#cluster.client.json({
        method: 'PATCH',
        path: `/api/v1/namespaces/${this.#namespace}/pods/${metadata.name}/status`,
        body: {
          metadata: { resourceVersion: metadata.resourceVersion },
          status: { phase: 'Failed', reason: 'Evicted' },
        },
        contentType: 'application/merge-patch+json',
      });
    }
  }

  /** All of its pods are evicted, and none may be scheduled there. Two thirds of the nodes are always left. */
  async #failNode(): Promise<void> {
    const name = `sim-${this.#random.below(this.#nodes)}`;
    if (this.#tainted.size >= this.#nodes / 3 || this.#tainted.has(name)) return;
    const node = await this.#cluster.get(nodes, { name });
    this.#tainted.add(name);
    await this.#cluster.patch(nodes, { name }, { spec: { taints: [...(node?.spec.taints ?? []), TAINT] } });
  }

  async #mendNode(): Promise<void> {
    const name = this.#oneOf([...this.#tainted]);
    if (name !== undefined) await this.#untaint(name);
  }

  async #untaint(name: string): Promise<void> {
    const node = await this.#cluster.get(nodes, { name });
    const taints = (node?.spec.taints ?? []).filter(({ key }) => key !== TAINT.key);
    await this.#cluster.patch(nodes, { name }, { spec: { taints } });
    this.#tainted.delete(name);
  }

  async #somePods() {
    const { items } = await this.#cluster.list(pods, this.#namespace);
    return Array.from({ length: 1 + this.#random.below(4) }, () => this.#oneOf(items)).filter(
      (pod) => pod !== undefined,
    );
  }

  #oneOf<T>(items: readonly T[]): T | undefined {
    return items[this.#random.below(items.length)];
  }
}
