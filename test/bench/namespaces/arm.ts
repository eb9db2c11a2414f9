import { setTimeout as sleep } from 'node:timers/promises';
import { type Resource, resource } from '../../../src/core/index.ts';
import * as kinds from '../../../src/function/kinds/index.ts';
import { isWrite } from '../../harness/audit-log.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { userOf } from '../../harness/identity.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { Started } from '../../harness/started.ts';
import { WorkloadPlane } from '../../harness/workload-plane.ts';
import { type ArmName, growthOf, pidsOf, valuesOf } from '../plane-arm.ts';
import { cpuSeconds } from '../process-figures.ts';

export interface Load {
  readonly namespaces: number;
}

/** What one arm took from the first delete until no Namespace was left. */
export interface ArmFigures {
  readonly goneSeconds: number;
  /** Requests of the arm's own identities. */
  readonly requests: number;
  readonly writes: number;
  /** `writes.VERB`, and CPU seconds as `cpu.PROCESS`. */
  readonly figures: Readonly<Record<string, number>>;
}

/** Creates and deletes of the benchmark under way at a time. */
const AT_A_TIME = 32;
const POLL_MS = 200;

/** What is in each Namespace, by name: 20 objects of eight kinds. Pods of no node go without grace. */
function contentOf(namespace: string): { of: Resource; body: Record<string, unknown> }[] {
  const copies = (of: Resource, count: number, body: Record<string, unknown> = {}) =>
    Array.from({ length: count }, (_, at) => ({ of, body: { metadata: { namespace, name: `x-${at}` }, ...body } }));
  const role = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'x-0' };
  const pod = { containers: [{ name: 'main', image: 'pause' }], automountServiceAccountToken: false };
  return [
    ...copies(kinds.ConfigMap, 6, { data: { a: 'b' } }),
    ...copies(kinds.Secret, 4, { stringData: { a: 'b' } }),
    ...copies(kinds.Service, 2, { spec: { clusterIP: 'None', ports: [{ port: 80 }] } }),
    ...copies(kinds.ServiceAccount, 2),
    ...copies(kinds.Role, 1, { rules: [] }),
    ...copies(kinds.RoleBinding, 1, { roleRef: role }),
    ...copies(kinds.NetworkPolicy, 2, { spec: { podSelector: {} } }),
    ...copies(kinds.Pod, 2, { spec: pod }),
  ];
}

/**
 * Runs the load on a fresh control plane, by the built-in controller or by our function.
 * @param program stops the processes of the arm if it is stopped first
 */
export async function runArm(name: ArmName, load: Load, program: Started): Promise<ArmFigures> {
  const started = new Started();
  program.add(() => started.stop());
  try {
    const workloads = await WorkloadPlane.start(started, {
      functions: name === 'levelhook' ? ['namespace'] : [],
      nodes: 0,
      // As it is deployed: without a log line for each trigger.
      gatewayVariables: { LEVELHOOK_LOG_TRIGGERS: 'false' },
    });
    if (name === 'levelhook') await workloads.startLine();
    const { cluster } = workloads;
    const names = Array.from({ length: load.namespaces }, (_, at) => `bench-${at}`);
    await inTurn(names, (each) => cluster.createNamespace(each));
    // The pods need the ServiceAccount that kube-controller-manager makes.
    await eventually(async () => {
      const { items } = await cluster.list(kinds.ServiceAccount);
      if (items.filter(({ metadata }) => metadata.name === 'default').length < names.length) throw new Error('not yet');
    }, 120_000);
    await inTurn(names.flatMap(contentOf), ({ of, body }) =>
      cluster.create(of, body as Parameters<Cluster['create']>[1]),
    );
    await sleep(3000);

    const pids = { apiserver: workloads.plane.pid('kube-apiserver') ?? 0, ...pidsOf(name, workloads) };
    const before = valuesOf(pids, cpuSeconds);
    const from = machineMs();
    await inTurn(names, (each) => cluster.deleteNamespace(each));
    await untilGone(cluster);
    const goneSeconds = (machineMs() - from) / 1000;
    const cpu = Object.entries(growthOf(valuesOf(pids, cpuSeconds), before)).map(([each, seconds]) => [
      `cpu.${each}`,
      seconds,
    ]);

    await checkNothingIsLeft(cluster);
    await sleep(1000);
    const user = name === 'levelhook' ? userOf('namespace') : 'system:serviceaccount:kube-system:namespace-controller';
    const users = new Set([user, userOf('gateway')]);
    const requests = (await workloads.audit.requests()).filter((each) => users.has(each.user));
    const writes = requests.filter((each) => isWrite(each) && each.resource !== 'leases');
    const ofVerbs = Object.entries(Object.groupBy(writes, ({ verb }) => verb));
    const figures = Object.fromEntries(ofVerbs.map(([verb, some]) => [`writes.${verb}`, some?.length ?? 0]));
    Object.assign(figures, Object.fromEntries(cpu));
    return { goneSeconds, requests: requests.length, writes: writes.length, figures };
  } finally {
    await started.stop();
  }
}

async function inTurn<T>(items: readonly T[], act: (item: T) => Promise<unknown>): Promise<void> {
  const queue = items.values();
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      for (const item of queue) await act(item);
    }),
  );
}

async function untilGone(cluster: Cluster): Promise<void> {
  const end = machineMs() + 600_000;
  for (;;) {
    const { items } = await cluster.list(kinds.Namespace);
    const left = items.filter(({ metadata }) => metadata.name.startsWith('bench-')).length;
    if (left === 0) return;
    if (machineMs() > end) throw new Error(`${left} Namespaces are there after ten minutes`);
    await sleep(POLL_MS);
  }
}

/** The end state of both arms: of no kind is there an object in a Namespace of the load. */
async function checkNothingIsLeft(cluster: Cluster): Promise<void> {
  const namespaced = Object.values(kinds).filter((each) => each.namespaced && each.kind !== 'Event');
  for (const { apiVersion, kind, plural } of namespaced) {
    const list = await cluster.list(resource(apiVersion, kind, { plural })).catch(() => undefined);
    const left = (list?.items ?? []).filter(({ metadata }) => metadata.namespace?.startsWith('bench-'));
    if (left.length > 0) throw new Error(`${left.length} objects of kind ${kind} are left`);
  }
}
