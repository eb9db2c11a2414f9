import { uniqueName } from '../harness/levelhook.ts';
import { Fleet } from '../harness/fleet.ts';
import { Started } from '../harness/started.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { startPlane } from './nodes/arm.ts';
import { type ArmName, pidsOf, valuesOf } from './plane-arm.ts';
import { cpuSeconds, residentMemory } from './process-figures.ts';
import { stopAtSignal } from './stop-at-signal.ts';
import { markdownTable } from './table.ts';

/**
 * 5,000 nodes renew their Leases every 10 s, with the default grace period of 50 s: what that costs
 * kube-controller-manager, and gateway and function in the place of its node controllers, and how many runs there are.
 * `npm run bench heartbeats`; `BENCH_NODES` and `BENCH_SECONDS` make it another one.
 */
const NODES = Number(process.env['BENCH_NODES'] ?? 5000);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 60);
const PERIOD_MS = 10_000;
const RATES = { graceSeconds: 50, evictionRate: 0.1 };

const program = new Started();
stopAtSignal(program);
const rows: string[][] = [];
for (const name of ['kube-controller-manager', 'levelhook'] as const satisfies readonly ArmName[]) {
  const started = new Started();
  program.add(() => started.stop());
  try {
    const workloads = await startPlane(name, RATES, started);
    const namespace = uniqueName('nodes');
    await workloads.cluster.createNamespace(namespace);
    const fleet = new Fleet(workloads.cluster, { zones: { a: NODES / 2, b: NODES / 2 }, namespace });
    await fleet.create();
    const stop = new AbortController();
    const beating = fleet.beatUntil(stop.signal, PERIOD_MS);
    started.add(async () => {
      stop.abort();
      await beating;
    });
    if (name === 'levelhook') await workloads.startLine();
    // The first runs of all nodes are over, and those that they have asked for are spread.
    await new Promise((wake) => setTimeout(wake, 60_000));
    const machine = measureMachine();
    const pids = pidsOf(name, workloads);
    const [cpu, runs, beats] = [valuesOf(pids, cpuSeconds), await runsOf(name, workloads), fleet.beats];
    const from = performance.now();
    await new Promise((wake) => setTimeout(wake, SECONDS * 1000));
    const seconds = (performance.now() - from) / 1000;
    const rate = (now: number, before: number): string => ((now - before) / seconds).toFixed(2);
    const after = valuesOf(pids, cpuSeconds);
    for (const [process, used] of Object.entries(after)) {
      rows.push([`${name}: CPU of ${process}, s a second`, rate(used, cpu[process] ?? 0)]);
    }
    for (const [process, bytes] of Object.entries(valuesOf(pids, residentMemory))) {
      rows.push([`${name}: memory of ${process}, MB`, (bytes / 1e6).toFixed(0)]);
    }
    rows.push([`${name}: heartbeats a second`, rate(fleet.beats, beats)]);
    if (name === 'levelhook') rows.push([`${name}: runs a second`, rate(await runsOf(name, workloads), runs)]);
    const { nodes } = await fleet.state();
    rows.push([`${name}: nodes at the end`, JSON.stringify(nodes)], [`${name}: machine`, formatLoad(machine())]);
  } finally {
    await started.stop();
  }
}
process.stdout.write(`${markdownTable(['', `${NODES} nodes`], rows)}\n`);
await program.stop();

/** Runs of all three controllers so far. */
async function runsOf(name: ArmName, { gateway }: { gateway: { url: string } }): Promise<number> {
  if (name !== 'levelhook') return 0;
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  const counts = text.matchAll(/^controller_runtime_reconcile_total\{[^}]*\} (\S+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}
