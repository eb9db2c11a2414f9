import { isWrite } from '../../harness/audit-log.ts';
import { EndpointObserver, type EndpointState } from '../../harness/endpoint-state.ts';
import { userOf } from '../../harness/identity.ts';
import { untilIdle } from '../../harness/levelhook.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { CONTROLLERS_OF_NODES, ServiceChurn, type ServiceLoad } from '../../harness/service-churn.ts';
import { Started } from '../../harness/started.ts';
import { ENDPOINT_FUNCTIONS, WorkloadPlane } from '../../harness/workload-plane.ts';
import { type ArmName, growthOf, pidsOf, untilQuiet, valuesOf } from '../plane-arm.ts';
import { cpuSeconds, peakMemory } from '../process-figures.ts';

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
    await untilQuiet(async () => (await written()).length);
    const before = (await written()).length;
    const pids = pidsOf(name, workloads);
    const cpuBefore = valuesOf(pids, cpuSeconds);

    const from = machineMs();
    await churn.run();
    const last = machineMs();
    await observer.untilRight(LIMIT_MS);
    const end = machineMs();

    if (name === 'levelhook') await untilIdle(workloads.gateway.url);
    await untilQuiet(async () => (await written()).length);
    // What came later may have changed it once more.
    await observer.untilRight(LIMIT_MS);
    const writesOf: Record<string, number> = {};
    for (const { resource } of (await written()).slice(before)) writesOf[resource] = (writesOf[resource] ?? 0) + 1;
    return {
      seconds: (end - from) / 1000,
      lastSeconds: (end - last) / 1000,
      writesOf,
      cpu: growthOf(valuesOf(pids, cpuSeconds), cpuBefore),
      memory: valuesOf(pids, peakMemory),
      slices: observer.sliceCount,
      state: observer.state(),
    };
  } finally {
    await started.stop();
  }
}
