import { controllerOf, type KubernetesObject } from '../../../src/core/index.ts';
import { type Cluster, type Pod, pods, type ReplicaSet, replicaSets } from '../../harness/cluster.ts';
import { type Deployment, deployments } from '../../harness/deployments.ts';
import { ChangeWatch } from '../../harness/change-watch.ts';

/** What the judge needs of a Deployment. */
export interface DeploymentState {
  readonly replicas: number;
  /** More than `replicas` at a time, already rounded. */
  readonly surge: number;
  /** The controllers have acted on this very spec. */
  readonly observed: boolean;
}

export interface ReplicaSetState {
  readonly owner: string | undefined;
  readonly replicas: number;
  /** Of the pods, as its status has them; undefined while the status is of another spec. */
  readonly reported: number | undefined;
  /** Its template without what the controller adds to it. */
  readonly template: string;
  readonly deleting: boolean;
}

export interface PodState {
  readonly owner: string | undefined;
  /** Neither ended nor being deleted. */
  readonly active: boolean;
}

/** An object's state from a resource version on; without one, it is gone. */
export type Change = {
  readonly version: bigint;
  readonly uid: string;
  readonly name: string;
} & (
  | { readonly kind: 'deployment'; readonly state?: DeploymentState }
  | { readonly kind: 'replicaset'; readonly state?: ReplicaSetState }
  | { readonly kind: 'pod'; readonly state?: PodState }
);

/**
 * All that the apiserver told of a namespace's Deployments, ReplicaSets and pods, each in its own watch. In one order
 * it comes by the resource version: with a single etcd that is the order of all writes.
 */
export class RolloutHistory {
  readonly #changes: Change[] = [];
  readonly #watches: ChangeWatch[] = [];

  static async record(cluster: Cluster, namespace: string): Promise<RolloutHistory> {
    const history = new RolloutHistory();
    const add = (change: Change): number => history.#changes.push(change);
    history.#watches.push(
      await ChangeWatch.start(cluster, deployments, namespace, (type, object) =>
        add({
          kind: 'deployment',
          ...namesOf(object),
          ...(type === 'DELETED' ? {} : { state: deploymentState(object) }),
        }),
      ),
      await ChangeWatch.start(cluster, replicaSets, namespace, (type, object) =>
        add({
          kind: 'replicaset',
          ...namesOf(object),
          ...(type === 'DELETED' ? {} : { state: replicaSetState(object) }),
        }),
      ),
      await ChangeWatch.start(cluster, pods, namespace, (type, object) =>
        add({ kind: 'pod', ...namesOf(object), ...(type === 'DELETED' ? {} : { state: podState(object) }) }),
      ),
    );
    return history;
  }

  /** In the order in which it happened. */
  get changes(): readonly Change[] {
    return this.#changes.toSorted((a, b) => (a.version < b.version ? -1 : Number(a.version > b.version)));
  }

  /** @throws when the apiserver ended a watch, so that something was not told. */
  async stop(): Promise<void> {
    for (const watch of this.#watches.splice(0)) await watch.stop();
  }
}

function namesOf({ metadata }: KubernetesObject): { version: bigint; uid: string; name: string } {
  return { version: BigInt(metadata.resourceVersion), uid: metadata.uid, name: metadata.name };
}

function deploymentState({ metadata, spec, status }: Deployment): DeploymentState {
  const { maxSurge = 0 } = spec.strategy.rollingUpdate ?? {};
  const surge = typeof maxSurge === 'number' ? maxSurge : Math.ceil((spec.replicas * Number.parseInt(maxSurge)) / 100);
  return { replicas: spec.replicas, surge, observed: status?.observedGeneration === metadata.generation };
}

function replicaSetState(rs: ReplicaSet): ReplicaSetState {
  const { metadata, spec, status } = rs;
  const template = structuredClone(spec.template);
  delete template.metadata.labels['pod-template-hash'];
  return {
    owner: controllerOf(rs)?.uid,
    replicas: spec.replicas,
    reported: status?.observedGeneration === metadata.generation ? (status?.replicas ?? 0) : undefined,
    // The apiserver writes the fields of a kind in one order, and labels sorted.
    template: JSON.stringify(template),
    deleting: metadata.deletionTimestamp !== undefined,
  };
}

function podState(pod: Pod): PodState {
  const ended = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';
  return { owner: controllerOf(pod)?.uid, active: !ended && pod.metadata.deletionTimestamp === undefined };
}
