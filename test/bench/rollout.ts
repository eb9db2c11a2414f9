import { type ArmName, type Figures, type Load, runArm } from './rollout/arm.ts';
import { median } from './median.ts';

/**
 * 100 Deployments of 20 replicas created at once on 50 simulated nodes, until all pods are available, and then scaled
 * to zero, until none is left: by kube-controller-manager's own controllers (with `--kube-api-qps=1000
 * --kube-api-burst=2000`) and by gateway and functions in their place; in turns, each time on a fresh control plane, so
 * that both meet the same machine. `npm run bench rollout`; `BENCH_ROUNDS`, `BENCH_DEPLOYMENTS`, `BENCH_REPLICAS` and
 * `BENCH_NODES` make it another one.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const LOAD: Load = {
  deployments: Number(process.env['BENCH_DEPLOYMENTS'] ?? 100),
  replicas: Number(process.env['BENCH_REPLICAS'] ?? 20),
  nodes: Number(process.env['BENCH_NODES'] ?? 50),
};
const PODS = LOAD.deployments * LOAD.replicas;
const ARMS: readonly ArmName[] = ['kube-controller-manager', 'levelhook'];
const MIB = 2 ** 20;

const figures: Record<ArmName, Figures[]> = { 'kube-controller-manager': [], levelhook: [] };
for (let round = 0; round < ROUNDS; round += 1) {
  for (const arm of ARMS) {
    const each = await runArm(arm, LOAD);
    figures[arm].push(each);
    console.log(`${arm}: ${each.availableSeconds.toFixed(1)} s, ${each.goneSeconds.toFixed(1)} s`);
  }
}

console.log(
  `\n${LOAD.deployments} Deployments of ${LOAD.replicas} on ${LOAD.nodes} nodes, median of ${ROUNDS} rounds`.padEnd(
    68,
  ) + `${'built in'.padStart(10)}${'levelhook'.padStart(12)}${'ratio'.padStart(8)}`,
);
row('seconds until all are available (aim: 1.5)', (each) => each.availableSeconds, 1);
row('seconds until none is left (aim: 1.5)', (each) => each.goneSeconds, 1);
row('requests to the apiserver per pod', (each) => each.requests / PODS, 2);
row('write requests (aim: 1)', (each) => each.writes);
for (const resource of namesOf(({ writesOf }) => writesOf)) {
  row(`  ${resource}`, ({ writesOf }) => writesOf[resource] ?? 0);
}
for (const name of namesOf(({ memory }) => memory)) {
  row(`${name}: peak memory, MiB`, ({ memory }) => (memory[name] ?? Number.NaN) / MIB);
  row(`${name}: CPU, seconds`, ({ cpu }) => cpu[name] ?? Number.NaN, 1);
}

function row(what: string, value: (each: Figures) => number, digits = 0): void {
  const [builtIn = Number.NaN, ours = Number.NaN] = ARMS.map((arm) => median(figures[arm].map(value)));
  const cell = (number: number, width: number, places: number): string =>
    (Number.isFinite(number) ? number.toFixed(places) : '').padStart(width);
  console.log(`${what.padEnd(67)}${cell(builtIn, 10, digits)}${cell(ours, 12, digits)}${cell(ours / builtIn, 8, 2)}`);
}

function namesOf(record: (each: Figures) => Readonly<Record<string, number>>): string[] {
  return [...new Set(ARMS.flatMap((arm) => figures[arm].flatMap((each) => Object.keys(record(each)))))];
}
