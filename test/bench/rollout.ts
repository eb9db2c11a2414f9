import { availableParallelism } from 'node:os';
import { Started } from '../harness/started.ts';
import { Comparison, type Figures } from './comparison.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { showResults } from './results.ts';
import type { ArmName } from './plane-arm.ts';
import { type ArmFigures, type Load, runArm } from './rollout/arm.ts';
import { rolloutRows } from './rollout/rows.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * 100 Deployments of 20 replicas created at once on 50 simulated nodes, until all pods are available, and then scaled
 * to zero, until none is left: by kube-controller-manager's own controllers (with `--kube-api-qps=1000
 * --kube-api-burst=2000`) and by gateway and functions in their place; in turn, each time on a fresh control plane, so
 * that both meet the same machine. `npm run bench rollout`; `BENCH_ROUNDS`, `BENCH_DEPLOYMENTS`, `BENCH_REPLICAS` and
 * `BENCH_NODES` make it another one, `-- --save` writes the results into the repository.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5);
const LOAD: Load = {
  deployments: Number(process.env['BENCH_DEPLOYMENTS'] ?? 100),
  replicas: Number(process.env['BENCH_REPLICAS'] ?? 20),
  nodes: Number(process.env['BENCH_NODES'] ?? 50),
};
const ARMS: readonly ArmName[] = ['kube-controller-manager', 'levelhook'];

const started = new Started();
stopAtSignal(started);
const found = new Comparison(ARMS, rolloutRows(), { subject: 'levelhook', to: ['kube-controller-manager'] });
for (let round = 0; round < ROUNDS; round += 1) {
  for (const name of round % 2 === 0 ? ARMS : ARMS.toReversed()) {
    const machine = measureMachine();
    const arm = await runArm(name, LOAD, started);
    const load = machine();
    found.add(name, figuresOf(arm, load));
    const seconds = `up after ${arm.availableSeconds.toFixed(1)} s, gone after ${arm.goneSeconds.toFixed(1)} s`;
    process.stderr.write(`round ${round + 1}, ${name}: ${seconds}, ${formatLoad(load)}\n`);
  }
}
const what =
  `${LOAD.deployments} Deployments of ${LOAD.replicas} on ${LOAD.nodes} simulated nodes, medians of ${ROUNDS} rounds, ` +
  `Node ${process.versions.node}, ${availableParallelism()} processors.`;
await showResults('rollout', 'A rollout by kube-controller-manager and by functions', what, found);

/** CPU and memory of kube-controller-manager count for its own arm; the other one has the rest of its controllers. */
function figuresOf(arm: ArmFigures, load: { stolen: number; foreign: number }): Figures {
  const figures: Record<string, number> = {
    available: arm.availableSeconds,
    gone: arm.goneSeconds,
    requests: arm.requests / (LOAD.deployments * LOAD.replicas),
    writes: arm.writes,
    'machine.stolen': load.stolen,
    'machine.foreign': load.foreign,
  };
  for (const [name, count] of Object.entries(arm.writesOf)) figures[`writes.${name}`] = count;
  for (const [name, seconds] of Object.entries(arm.cpu)) figures[`cpu.${name}`] = seconds;
  for (const [name, bytes] of Object.entries(arm.memory)) figures[`peak.${name}`] = bytes / 1e6;
  return figures;
}
