import { type AuditedRequest, isWrite } from '../../harness/audit-log.ts';
import { Fleet, type FleetState } from '../../harness/fleet.ts';
import { userOf } from '../../harness/identity.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { Started } from '../../harness/started.ts';
import { WorkloadPlane } from '../../harness/workload-plane.ts';
import { type ArmName, growthOf, pidsOf, valuesOf } from '../plane-arm.ts';
import { cpuSeconds, peakMemory } from '../process-figures.ts';

/** The same for both arms, as flags and as variables. */
export interface NodeRates {
  readonly graceSeconds: number;
  /** Nodes a second of each zone. */
  readonly evictionRate: number;
}

export interface SilenceLoad extends NodeRates {
  readonly nodesPerZone: number;
  readonly podsPerNode: number;
  readonly tolerationSeconds: number;
}

export interface SilenceFigures {
  /** Seconds from the silence of one zone on. */
  readonly unknownSeconds: number;
  readonly taintedSeconds: number;
  readonly evictedSeconds: number;
  /** Seconds from the silence of the other zone on; NaN when taints stay. */
  readonly allUnknownSeconds: number;
  readonly untaintedSeconds: number;
  /** Seconds from the report of all nodes on. */
  readonly healedSeconds: number;
  readonly requests: number;
  readonly writes: number;
  readonly writesOf: Readonly<Record<string, number>>;
  readonly cpu: Readonly<Record<string, number>>;
  readonly memory: Readonly<Record<string, number>>;
  /** After each of the three parts. */
  readonly states: readonly FleetState[];
}

const LOOK_MS = 100;
const LIMIT_MS = 180_000;
/** kube-controller-manager may leave taints that it sets while it removes the others: kubernetes/kubernetes#111385. */
const UNTAINTED_LIMIT_MS = 30_000;

/** A control plane without simulated nodes, on which one of the two keeps the nodes. */
export async function startPlane(name: ArmName, rates: NodeRates, started: Started): Promise<WorkloadPlane> {
  const { graceSeconds, evictionRate } = rates;
  const workloads = await WorkloadPlane.start(started, {
    functions: name === 'levelhook' ? ['node-lifecycle'] : [],
    nodes: 0,
    // As it is deployed: without a log line for each trigger.
    gatewayVariables: { LEVELHOOK_LOG_TRIGGERS: 'false' },
    functionVariables: {
      NODE_MONITOR_GRACE_SECONDS: String(graceSeconds),
      NODE_EVICTION_RATE: String(evictionRate),
    },
    controllerManagerArguments: [
      `--node-monitor-grace-period=${graceSeconds}s`,
      `--node-eviction-rate=${evictionRate}`,
    ],
  });
  return workloads;
}

/** One zone is silenced, then the other, then all nodes are back. */
export async function runSilence(name: ArmName, load: SilenceLoad, program: Started): Promise<SilenceFigures> {
  const started = new Started();
  program.add(() => started.stop());
  try {
    const workloads = await startPlane(name, load, started);
    const { cluster } = workloads;
    const { nodesPerZone, podsPerNode, tolerationSeconds } = load;
    const namespace = uniqueName('nodes');
    await cluster.createNamespace(namespace);
    const fleet = new Fleet(cluster, {
      zones: { a: nodesPerZone, b: nodesPerZone },
      podsPerNode,
      tolerationSeconds,
      namespace,
    });
    await fleet.create();
    const stop = new AbortController();
    const beating = fleet.beatUntil(stop.signal, 2000);
    started.add(async () => {
      stop.abort();
      await beating;
    });
    if (name === 'levelhook') await workloads.startLine();
    const reaches = reachesOf(fleet);
    const until = async (condition: (state: FleetState) => boolean): Promise<void> => {
      if (!(await reaches(condition, LIMIT_MS))) throw new Error(`not there: ${JSON.stringify(await fleet.state())}`);
    };
    await until(({ nodes }) => nodes['True'] === 2 * nodesPerZone);
    const asked = async (): Promise<AuditedRequest[]> =>
      (await workloads.audit.requests()).filter(({ user }) => usersOf(name).has(user));
    const before = (await asked()).length;
    const pids = pidsOf(name, workloads);
    const cpuBefore = valuesOf(pids, cpuSeconds);

    const states: FleetState[] = [];
    await fleet.silence('a');
    let from = machineMs();
    const since = (): number => (machineMs() - from) / 1000;
    await until(({ nodes }) => sumOf(nodes, /^Unknown/) === nodesPerZone);
    const unknownSeconds = since();
    await until(({ nodes }) => sumOf(nodes, /NoExecute/) === nodesPerZone);
    const taintedSeconds = since();
    await until(({ pods }) => sumOf(pods, /deleted/) === nodesPerZone * podsPerNode);
    const evictedSeconds = since();
    states.push(await fleet.state());

    await fleet.silence('b');
    from = machineMs();
    await until(({ nodes }) => sumOf(nodes, /^Unknown/) === 2 * nodesPerZone);
    const allUnknownSeconds = since();
    const isUntainted = await reaches(
      ({ nodes, pods }) =>
        sumOf(nodes, /NoExecute/) === 0 &&
        sumOf(nodes, /unreachable:NoSchedule/) === 2 * nodesPerZone &&
        sumOf(pods, /^True/) === 0,
      UNTAINTED_LIMIT_MS,
    );
    const untaintedSeconds = isUntainted ? since() : Number.NaN;
    states.push(await fleet.state());

    from = machineMs();
    await fleet.revive();
    await until(({ nodes }) => nodes['True'] === 2 * nodesPerZone);
    const healedSeconds = since();
    states.push(await fleet.state());

    // The last Events are still being written.
    await new Promise((wake) => setTimeout(wake, 3000));
    const requests = (await asked()).slice(before);
    const writes = requests.filter(isWrite);
    const writesOf: Record<string, number> = {};
    for (const { resource } of writes) writesOf[resource] = (writesOf[resource] ?? 0) + 1;
    const cpu = growthOf(valuesOf(pids, cpuSeconds), cpuBefore);
    return {
      unknownSeconds,
      taintedSeconds,
      evictedSeconds,
      allUnknownSeconds,
      untaintedSeconds,
      healedSeconds,
      requests: requests.length,
      writes: writes.length,
      writesOf,
      cpu,
      memory: valuesOf(pids, peakMemory),
      states,
    };
  } finally {
    await started.stop();
  }
}

const TAINTED = 'Unknown unreachable:NoExecute unreachable:NoSchedule';
const EVICTED = 'False deleted target';

/** How many nodes still have a NoExecute taint when all zones are silent: kubernetes/kubernetes#111385. */
export function nodesLeftTainted([, allSilent]: readonly FleetState[]): number {
  return allSilent?.nodes[TAINTED] ?? 0;
}

/**
 * How many pods of the zone that was silent last are evicted, by NoExecute taints that are still there or gone again.
 */
export function podsEvictedThen(states: readonly FleetState[], { nodesPerZone, podsPerNode }: SilenceLoad): number {
  return Math.max(...states.map(({ pods }) => pods[EVICTED] ?? 0)) - nodesPerZone * podsPerNode;
}

/** The states as they would be without those taints: the nodes have none, and the pods of that zone are not evicted. */
export function withoutTaintsLeft(states: readonly FleetState[], load: SilenceLoad): FleetState[] {
  const due = load.nodesPerZone * load.podsPerNode;
  return states.map(({ nodes, pods }, at) =>
    at === 0
      ? { nodes, pods }
      : {
          nodes: moved(nodes, nodes[TAINTED] ?? 0, TAINTED, 'Unknown unreachable:NoSchedule'),
          pods: moved(pods, Math.max(0, (pods[EVICTED] ?? 0) - due), EVICTED, 'False'),
        },
  );
}

function moved(counts: Readonly<Record<string, number>>, count: number, from: string, to: string): typeof counts {
  const changed = { ...counts, [from]: (counts[from] ?? 0) - count, [to]: (counts[to] ?? 0) + count };
  return Object.fromEntries(Object.entries(changed).filter(([, each]) => each !== 0));
}

/** Resolves with whether the fleet came to a state within the limit. */
function reachesOf(fleet: Fleet): (condition: (state: FleetState) => boolean, limitMs: number) => Promise<boolean> {
  return async (condition, limitMs) => {
    for (const end = machineMs() + limitMs; machineMs() < end;) {
      if (condition(await fleet.state())) return true;
      await new Promise((wake) => setTimeout(wake, LOOK_MS));
    }
    return false;
  };
}

function sumOf(counts: Readonly<Record<string, number>>, pattern: RegExp): number {
  return Object.entries(counts).reduce((sum, [text, count]) => sum + (pattern.test(text) ? count : 0), 0);
}

export function usersOf(name: ArmName): ReadonlySet<string> {
  if (name === 'levelhook') return new Set(['gateway', 'node-lifecycle'].map(userOf));
  return new Set(
    ['node-controller', 'taint-eviction-controller'].map((each) => `system:serviceaccount:kube-system:${each}`),
  );
}
