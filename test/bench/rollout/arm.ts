import { isWrite } from '../../harness/audit-log.ts';
import { type Deployment, deployment, deployments } from '../../harness/deployments.ts';
import { type Cluster, pods } from '../../harness/cluster.ts';
import { userOf } from '../../harness/identity.ts';
import { uniqueName, untilIdle } from '../../harness/levelhook.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { ChangeWatch } from '../../harness/change-watch.ts';
import { Started } from '../../harness/started.ts';
import { WORKLOAD_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';
import { type ArmName, pidsOf, untilQuiet, valuesOf } from '../plane-arm.ts';
import { cpuSeconds, peakMemory } from '../process-figures.ts';

export interface Load {
  readonly deployments: number;
  /** Of each. */
  readonly replicas: number;
  readonly nodes: number;
}

/** What one arm took for one rollout and its end. */
export interface ArmFigures {
  readonly availableSeconds: number;
  readonly goneSeconds: number;
  /** Requests of the arm's own identities, in both phases. */
  readonly requests: number;
  readonly writes: number;
  /** Of the writes, by resource. */
  readonly writesOf: Readonly<Record<string, number>>;
  /**
   * Peak resident memory in bytes, by process. kube-controller-manager is `built-in` in its own arm, and `other` in the
   * other one, where it runs the controllers that no function replaces.
   */
  readonly memory: Readonly<Record<string, number>>;
  /** Seconds since the start of each process. */
  readonly cpu: Readonly<Record<string, number>>;
}

/**
 * Runs the load on a fresh control plane, by the built-in controllers or by our functions.
 * @param program stops the processes of the arm if it is stopped first
 */
export async function runArm(name: ArmName, load: Load, program: Started): Promise<ArmFigures> {
  const started = new Started();
  program.add(() => started.stop());
  try {
    const workloads = await WorkloadPlane.start(started, {
      functions: name === 'levelhook' ? WORKLOAD_FUNCTIONS : [],
      nodes: load.nodes,
      // As it is deployed: without a log line for each trigger.
      gatewayVariables: { LEVELHOOK_LOG_TRIGGERS: 'false' },
    });
    if (name === 'levelhook') await workloads.startLine();
    const { cluster } = workloads;
    const namespace = uniqueName('rollout');
    await cluster.createNamespace(namespace);
    const users = usersOf(name);
    const asked = async () => (await workloads.audit.requests()).filter(({ user }) => users.has(user));
    const before = (await asked()).length;

    const rollout = await Rollout.watch(cluster, namespace);
    started.add(() => rollout.stop());
    const keys = Array.from({ length: load.deployments }, (_, at) => ({ namespace, name: `web-${at}` }));
    const createdFrom = machineMs();
    await Promise.all(keys.map((key) => cluster.create(deployments, deployment(key, load.replicas))));
    await rollout.until(({ available }) => available === load.deployments * load.replicas);
    const availableSeconds = (machineMs() - createdFrom) / 1000;

    const scaledFrom = machineMs();
    await Promise.all(keys.map((key) => cluster.patch(deployments, key, { spec: { replicas: 0 } })));
    await rollout.until((now) => now.pods === 0 && now.replicas === 0);
    const goneSeconds = (machineMs() - scaledFrom) / 1000;

    // The last status and the last events are still being written.
    if (name === 'levelhook') await untilIdle(workloads.gateway.url);
    await untilQuiet(async () => (await asked()).length);
    const requests = (await asked()).slice(before);
    const writes = requests.filter(isWrite);
    const writesOf: Record<string, number> = {};
    for (const { resource } of writes) writesOf[resource] = (writesOf[resource] ?? 0) + 1;
    const pids = pidsOf(name, workloads);
    return {
      availableSeconds,
      goneSeconds,
      requests: requests.length,
      writes: writes.length,
      writesOf,
      memory: valuesOf(pids, peakMemory),
      cpu: valuesOf(pids, cpuSeconds),
    };
  } finally {
    await started.stop();
  }
}

function usersOf(name: ArmName): ReadonlySet<string> {
  if (name === 'levelhook') return new Set(['gateway', ...WORKLOAD_FUNCTIONS].map(userOf));
  return new Set(WORKLOAD_FUNCTIONS.map((each) => `system:serviceaccount:kube-system:${each}-controller`));
}

interface Sums {
  /** Available replicas and replicas, as the Deployments' status has them. */
  readonly available: number;
  readonly replicas: number;
  /** Number of pods. */
  readonly pods: number;
}

/** The sums over a namespace as they change. */
class Rollout {
  readonly #deployments = new Map<string, Deployment>();
  readonly #pods = new Set<string>();
  readonly #watches: ChangeWatch[] = [];
  #changed = Promise.withResolvers<void>();

  static async watch(cluster: Cluster, namespace: string): Promise<Rollout> {
    const rollout = new Rollout();
    rollout.#watches.push(
      await ChangeWatch.start(cluster, deployments, namespace, (_type, object) => {
        rollout.#deployments.set(object.metadata.name, object);
        rollout.#wake();
      }),
      await ChangeWatch.start(cluster, pods, namespace, (type, { metadata }) => {
        if (type === 'DELETED') rollout.#pods.delete(metadata.name);
        else rollout.#pods.add(metadata.name);
        rollout.#wake();
      }),
    );
    return rollout;
  }

  async until(condition: (sums: Sums) => boolean): Promise<void> {
    const end = machineMs() + 600_000;
    while (!condition(this.#sums())) {
      for (const watch of this.#watches) watch.check();
      if (machineMs() > end) throw new Error(`not there after ten minutes: ${JSON.stringify(this.#sums())}`);
      await Promise.race([this.#changed.promise, new Promise((wake) => setTimeout(wake, 1000))]);
    }
  }

  async stop(): Promise<void> {
    for (const watch of this.#watches) await watch.stop();
  }

  #sums(): Sums {
    let available = 0;
    let replicas = 0;
    for (const { status } of this.#deployments.values()) {
      available += status?.availableReplicas ?? 0;
      replicas += status?.replicas ?? 0;
    }
    return { available, replicas, pods: this.#pods.size };
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
