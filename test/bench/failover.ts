import { setTimeout as sleep } from 'node:timers/promises';
import { availableParallelism } from 'node:os';
import { compareResourceVersions, resourcePath } from '../../src/core/index.ts';
import { isFullList } from '../harness/audit-log.ts';
import { type AuditedPlane, startAuditedPlane } from '../harness/audited-plane.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { uniqueName } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import type { Observation } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';
import { Comparison, type Figures } from './comparison.ts';
import { type FailoverArm, type FailoverArmName, failoverArms, LEASE_SECONDS } from './failover/arms.ts';
import { createObjects, deleteObjects } from './line/parts.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { cpuSeconds, privateMemory, residentMemory } from './process-figures.ts';
import { showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * Two replicas with a Lease of client-go's times, 10,000 objects, 20 changes a second: the leader is ended by SIGKILL,
 * and by SIGTERM, and the other replica takes over. `npm run bench failover`; `BENCH_OBJECTS` and `BENCH_ROUNDS` make
 * it smaller. Prints how long a change waited at most, what was asked of the apiserver, and what the replica that
 * follows costs.
 */
const OBJECTS = Number(process.env['BENCH_OBJECTS'] ?? 10_000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const CONCURRENCY = 50;
const EVERY_MS = 50;
/** Objects that change in turn. */
const CHANGED = 200;
const IDLE_MS = 1000 * Number(process.env['BENCH_SECONDS'] ?? 20);
/** Until a new process has compiled what it needs, and given memory back. */
const SETTLE_MS = Math.min(20_000, 5 * IDLE_MS);
const ARMS = Object.keys(failoverArms) as FailoverArmName[];

const found = new Comparison(
  ARMS,
  [
    {
      label: 'SIGKILL of the leader: longest wait of a change, s',
      figures: ['SIGKILL.waited'],
      panel: 'SIGKILL, s',
      main: true,
    },
    {
      label: 'SIGTERM of the leader: longest wait of a change, s',
      figures: ['SIGTERM.waited'],
      panel: 'SIGTERM, s',
      main: true,
    },
    { label: 'lists of all objects', figures: ['SIGKILL.lists', 'SIGTERM.lists'], sum: true, main: true },
    { label: 'changes that no run has seen', figures: ['SIGKILL.lost', 'SIGTERM.lost'], sum: true, main: true },
    { label: 'a replica that follows, without work: % of a processor', figures: ['follower.cpu'], main: true },
    { label: 'a replica that follows, without work: memory, MB', figures: ['follower.memory'], main: true },
    {
      label: 'of it private, MB: not the pages of files, such as the executable',
      figures: ['follower.private'],
      main: true,
    },
  ],
  { subject: 'levelhook', to: ['controller-runtime'] },
);

const started = new Started();
stopAtSignal(started);
try {
  const audited = await startAuditedPlane();
  started.add(() => audited.stop());
  const cluster = await Cluster.connect(audited.plane.kubeconfig);
  started.add(() => cluster.close());
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const name of round % 2 === 0 ? ARMS : ARMS.toReversed()) {
      const machine = measureMachine();
      const figures = await runArm(name, audited, cluster);
      const load = machine();
      found.add(name, { ...figures, 'machine.stolen': load.stolen, 'machine.foreign': load.foreign });
      process.stderr.write(`round ${round + 1}, ${name}: ${JSON.stringify(figures)}, ${formatLoad(load)}\n`);
    }
  }
} finally {
  await started.stop();
}
const what =
  `${OBJECTS.toLocaleString('en')} ConfigMaps, ${1000 / EVERY_MS} changes a second, a Lease of ${LEASE_SECONDS} s, ` +
  `medians of ${ROUNDS} rounds, Node ${process.versions.node}, ${availableParallelism()} processors.`;
await showResults('failover', 'Failover of two replicas', what, found);

async function runArm(name: FailoverArmName, audited: AuditedPlane, cluster: Cluster): Promise<Figures> {
  const own = new Started();
  started.add(() => own.stop());
  const namespace = uniqueName('failover');
  await cluster.createNamespace(namespace);
  const objects = { cluster, namespace, count: OBJECTS };
  await createObjects(objects);
  try {
    const arm = await failoverArms[name](own, {
      kubeconfig: audited.gatewayKubeconfig,
      namespace,
      concurrency: CONCURRENCY,
    });
    // The oldest replica leads.
    const replicas = [await arm.startReplica()];
    await untilHeld(cluster, namespace);
    replicas.push(await arm.startReplica());
    const figures: Record<string, number> = {};
    await measureFollower(replicas[1], figures);
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      const before = (await audited.requests()).length;
      const { waited, lost } = await failOver(arm, replicas, cluster, { namespace, signal });
      const requests = (await audited.requests()).slice(before);
      figures[`${signal}.waited`] = waited;
      figures[`${signal}.lost`] = lost;
      const lists = requests.filter((each) => each.resource === 'configmaps' && isFullList(each));
      figures[`${signal}.lists`] = lists.length;
      replicas.shift();
      replicas.push(await arm.startReplica());
    }
    return figures;
  } finally {
    await own.stop();
    await deleteObjects(objects);
  }
}

async function untilHeld(cluster: Cluster, namespace: string): Promise<void> {
  await eventually(async () => {
    const { items } = await cluster.client.json<{ items: { spec?: { holderIdentity?: string } }[] }>({
      path: `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`,
    });
    if (!items.some(({ spec }) => spec?.holderIdentity)) throw new Error('no replica leads');
  }, 120_000);
}

async function measureFollower(follower: TestProcess | undefined, figures: Record<string, number>): Promise<void> {
  if (!follower) return;
  await sleep(SETTLE_MS);
  const from = cpuSeconds(follower.pid);
  await sleep(IDLE_MS);
  figures['follower.cpu'] = (100 * (cpuSeconds(follower.pid) - from)) / (IDLE_MS / 1000);
  figures['follower.memory'] = residentMemory(follower.pid) / 1e6;
  figures['follower.private'] = privateMemory(follower.pid) / 1e6;
}

interface Change {
  readonly key: string;
  readonly resourceVersion: string;
  readonly acknowledgedAtMs: number;
}

/**
 * Changes objects at an even pace, ends the leader after two seconds, and goes on until the changes of the next second
 * are reconciled, and for three seconds more.
 */
async function failOver(
  arm: FailoverArm,
  replicas: readonly TestProcess[],
  cluster: Cluster,
  { namespace, signal }: { readonly namespace: string; readonly signal: NodeJS.Signals },
): Promise<{ waited: number; lost: number }> {
  const from = arm.reporters().map(({ lines }) => lines.length);
  const changes: Change[] = [];
  const stop = new AbortController();
  const changing = (async () => {
    for (let count = 1; !stop.signal.aborted; count += 1) {
      const name = `object-${count % CHANGED}`;
      const path = resourcePath(configMaps, { namespace, name });
      const { metadata } = await cluster.client.json<{ metadata: { resourceVersion: string } }>({
        method: 'PATCH',
        path,
        contentType: 'application/merge-patch+json',
        body: { data: { count: `${machineMs()}` } },
      });
      const { resourceVersion } = metadata;
      changes.push({ key: `${namespace}/${name}`, resourceVersion, acknowledgedAtMs: machineMs() });
      await sleep(EVERY_MS);
    }
  })();
  /** Of each of these changes, in milliseconds; not finite for those that no run has seen. */
  const waitsOf = (made: readonly Change[]): number[] => {
    const lines = arm.reporters().flatMap(({ lines: all }, at) => all.slice(from[at]));
    const runs = lines.filter(({ msg }) => msg === 'run') as unknown as readonly Observation[];
    const byKey = Map.groupBy(runs, ({ key }) => key);
    return made.map(({ key, resourceVersion, acknowledgedAtMs }) => {
      const seen = (byKey.get(key) ?? []).filter(
        (run) => run.resourceVersion !== null && compareResourceVersions(run.resourceVersion, resourceVersion) >= 0,
      );
      return Math.min(...seen.map(({ startedAtMachineMs }) => startedAtMachineMs)) - acknowledgedAtMs;
    });
  };
  await sleep(2000);
  void replicas[0]?.kill(signal);
  await sleep(1000);
  const without = [...changes];
  const limitMs = machineMs() + 2000 * LEASE_SECONDS;
  while (machineMs() < limitMs && !waitsOf(without).every(Number.isFinite)) await sleep(200);
  await sleep(3000);
  stop.abort();
  await changing;
  const seenByMs = machineMs() + 30_000;
  while (machineMs() < seenByMs && !waitsOf(changes).every(Number.isFinite)) await sleep(200);
  const waits = waitsOf(changes);
  const known = waits.filter(Number.isFinite);
  return { waited: Math.max(...known) / 1000, lost: waits.length - known.length };
}
