import type { Change, DeploymentState, PodState, ReplicaSetState } from './history.ts';

/**
 * What was wrong at some moment of a history, in words; nothing, if nothing was.
 *
 * - The ReplicaSets of a Deployment never ask for more pods than its replicas and maxSurge.
 * - A ReplicaSet never has more active pods than it asks for.
 * - No two ReplicaSets of a Deployment have the same template.
 *
 * A controller acts on what it saw last, so each limit is the highest since the object was last settled: since
 * everything agreed with its spec, after which nothing older can be acted on. It is not the pods of all ReplicaSets
 * that count against maxSurge: the new one grows by what the old ones were told to give up, as
 * kube-controller-manager has it, before their pods are gone.
 */
export function judge(changes: readonly Change[]): string[] {
  const world = new World();
  return changes.flatMap((change) => world.apply(change));
}

/**
 * The last changes up to the first wrong one, as far as they are of the same owner or owned by it: how it came to that.
 */
export function evidence(changes: readonly Change[], count = 60): string[] {
  const world = new World();
  const at = changes.findIndex((change) => world.apply(change).length > 0);
  const wrong = changes[at];
  const ownerOf = ({ state }: Change): string | undefined => (state && 'owner' in state ? state.owner : undefined);
  const family = new Set([wrong?.uid, wrong && ownerOf(wrong)]);
  const related = changes.slice(0, at + 1).filter((each) => family.has(each.uid) || family.has(ownerOf(each)));
  return related.slice(-count).map(({ version, kind, name, state }) => {
    const { template: _, ...told } = { template: '', ...state };
    return `${version} ${kind} ${name} ${state ? JSON.stringify(told) : 'gone'}`;
  });
}

/** An object, and the most that it allowed since it was settled. */
interface Limited<T> {
  readonly name: string;
  state: T;
  limit: number;
}

class World {
  readonly #deployments = new Map<string, Limited<DeploymentState>>();
  readonly #replicaSets = new Map<string, Limited<ReplicaSetState>>();
  readonly #pods = new Map<string, PodState>();

  apply(change: Change): string[] {
    const { kind, uid, name, state } = change;
    const wrong: string[] = [];
    if (kind === 'deployment') {
      if (!state) this.#deployments.delete(uid);
      else this.#limit(this.#deployments, uid, name, state, state.replicas + state.surge);
    } else if (kind === 'replicaset') {
      if (!state) this.#replicaSets.delete(uid);
      else {
        this.#limit(this.#replicaSets, uid, name, state, state.replicas);
        wrong.push(...this.#tooManyAskedFor(state.owner), ...this.#duplicates(uid, name, state));
      }
    } else {
      if (state) this.#pods.set(uid, state);
      else this.#pods.delete(uid);
      if (state?.active) wrong.push(...this.#tooManyPods(state.owner));
    }
    this.#settle();
    return wrong.map((each) => `at ${change.version}, ${kind} ${name}: ${each}`);
  }

  #limit<T>(all: Map<string, Limited<T>>, uid: string, name: string, state: T, limit: number): void {
    const before = all.get(uid);
    all.set(uid, { name, state, limit: Math.max(limit, before?.limit ?? 0) });
  }

  #tooManyAskedFor(owner: string | undefined): string[] {
    const deployment = this.#deployments.get(owner ?? '');
    if (!deployment) return [];
    const asked = this.#askedFor(owner ?? '');
    if (asked <= deployment.limit) return [];
    return [`${asked} pods asked for, at most ${deployment.limit} allowed by ${deployment.name}`];
  }

  #tooManyPods(owner: string | undefined): string[] {
    const replicaSet = this.#replicaSets.get(owner ?? '');
    if (!replicaSet) return [];
    const active = this.#activeOf(owner ?? '');
    return active <= replicaSet.limit
      ? []
      : [`${active} pods of ${replicaSet.name}, which asked for ${replicaSet.limit}`];
  }

  #duplicates(uid: string, name: string, { owner, template, deleting }: ReplicaSetState): string[] {
    if (owner === undefined || deleting) return [];
    const same = [...this.#replicaSets].filter(
      ([other, { state }]) => other !== uid && state.owner === owner && state.template === template && !state.deleting,
    );
    return same.map(([, other]) => `${name} and ${other.name} have the same template`);
  }

  /** Lowers limits where nobody acts on an older spec any more. */
  #settle(): void {
    for (const [uid, each] of this.#replicaSets) {
      const { replicas, reported } = each.state;
      if (each.limit > replicas && reported === replicas && this.#activeOf(uid) === replicas) each.limit = replicas;
    }
    for (const [uid, each] of this.#deployments) {
      const { replicas, surge, observed } = each.state;
      const limit = replicas + surge;
      if (each.limit > limit && observed && this.#askedFor(uid) === replicas) each.limit = limit;
    }
  }

  #askedFor(deployment: string): number {
    const own = [...this.#replicaSets.values()].filter(({ state }) => state.owner === deployment);
    return own.reduce((sum, { state }) => sum + state.replicas, 0);
  }

  #activeOf(replicaSet: string): number {
    return [...this.#pods.values()].filter(({ owner, active }) => active && owner === replicaSet).length;
  }
}
