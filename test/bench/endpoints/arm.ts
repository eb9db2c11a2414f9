import { isWrite } from '../../harness/audit-log.ts';
import { EndpointObserver, type EndpointState } from '../../harness/endpoint-state.ts';
import { userOf } from '../../harness/identity.ts';
import { untilIdle } from '../../harness/levelhook.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { CONTROLLERS_OF_NODES, ServiceChurn, type ServiceLoad } from '../../harness/service-churn.ts';
import { Started } from '../../harness/started.ts';
import { ENDPOINT_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';
import { cpuSeconds, peakMemory } from '../process-figures.ts';

export type ArmName = 'kube-controller-manager' | 'levelhook';

/** What one arm took for the script. */
export interface ArmFigures {
  /** From the first pod until all endpoints are right. */
  readonly seconds: number;
  /** Of that the time after the last write of the script. */
  readonly lastSeconds: number;
  /** Writes of the arm's own identities to the apiserver, by resource. */
  readonly writesOf: Readonly<Record<string, number>>;
  /** Seconds since the end of the start, by process. */
  readonly cpu: Readonly<Record<string, number>>;
  /** Peak resident memory in bytes, by process. */
  readonly memory: Readonly<Record<string, number>>;
  readonly slices: number;
  readonly state: EndpointState;
}

/** Names of kube-controller-manager's ServiceAccounts. */
const BUILT_IN = ['endpointslice-controller', 'endpoint-controller', 'endpointslicemirroring-controller'];
/** Requests are counted after this time without one. */
const QUIET_MS = 2000;
const LIMIT_MS = 300_000;

/**
 * Runs the script on a fresh control plane, by the built-in controllers or by our functions.
 * @param program stops the processes of the arm if it is stopped first
 */
export async function runArm(name: ArmName, load: ServiceLoad, program: Started): Promise<ArmFigures> {
  const started = new Started();
  program.add(() => started.stop());
  try {
    const workloads = await WorkloadPlane.start(started, {
      functions: name === 'levelhook' ? ENDPOINT_FUNCTIONS : [],
      withoutControllers: CONTROLLERS_OF_NODES,
      nodes: 0,
      // As it is deployed: without a log line for each trigger.
      gatewayVariables: { LEVELHOOK_LOG_TRIGGERS: 'false' },
    });
    if (name === 'levelhook') await workloads.startLine();
    const { cluster, audit } = workloads;
    // One name in all arms: it is part of the end state.
    const namespace = 'churn';
    const churn = new ServiceChurn(cluster, namespace, load);
    await churn.prepare();
    const observer = await EndpointObserver.start(cluster, namespace);
    started.add(() => observer.stop());
    const users = new Set(
      name === 'levelhook'
        ? ['gateway', ...ENDPOINT_FUNCTIONS].map(userOf)
        : BUILT_IN.map((each) => `system:serviceaccount:kube-system:${each}`),
    );
    const written = async () => (await audit.requests()).filter((each) => users.has(each.user) && isWrite(each));
    await quiet(async () => (await written()).length);
    const before = (await written()).length;
    const pids = pidsOf(name, workloads);
    const cpuBefore = valuesOf(pids, cpuSeconds);

    const from = machineMs();
    await churn.run();
    const last = machineMs();
    await observer.untilRight(LIMIT_MS);
    const end = machineMs();

    if (name === 'levelhook') await untilIdle(workloads.gateway.url);
    await quiet(async () => (await written()).length);
    // What came later may have changed it once more.
    await observer.untilRight(LIMIT_MS);
    const writesOf: Record<string, number> = {};
    for (const { resource } of (await written()).slice(before)) writesOf[resource] = (writesOf[resource] ?? 0) + 1;
    const cpu = valuesOf(pids, (pid) => cpuSeconds(pid));
    for (const [process, seconds] of Object.entries(cpuBefore)) cpu[process] = (cpu[process] ?? 0) - seconds;
    return {
      seconds: (end - from) / 1000,
      lastSeconds: (end - last) / 1000,
      writesOf,
      cpu,
      memory: valuesOf(pids, peakMemory),
      slices: observer.sliceCount,
      state: observer.state(),
    };
  } finally {
    await started.stop();
  }
}

function pidsOf(name: ArmName, { plane, redis, gateway, functions }: WorkloadPlane): Record<string, number> {
  const controllerManager = plane.pid('kube-controller-manager') ?? 0;
  if (name !== 'levelhook') return { 'built-in': controllerManager };
  const served = [...functions].map(([each, { process }]) => [each, process.pid] as const);
  return {
    other: controllerManager,
    gateway: gateway.process.pid,
    redis: redis.pid ?? 0,
    ...Object.fromEntries(served),
  };
}

function valuesOf(pids: Readonly<Record<string, number>>, value: (pid: number) => number): Record<string, number> {
  return Object.fromEntries(Object.entries(pids).map(([process, pid]) => [process, value(pid)]));
}

async function quiet(count: () => Promise<number>): Promise<void> {
  for (let last = -1, now = await count(); now !== last; now = await count()) {
    last = now;
    await new Promise((wake) => setTimeout(wake, QUIET_MS));
  }
}
