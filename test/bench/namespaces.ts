import { availableParallelism } from 'node:os';
import { Started } from '../harness/started.ts';
import { Comparison } from './comparison.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { type Load, runArm } from './namespaces/arm.ts';
import type { ArmName } from './plane-arm.ts';
import { namespaceRows } from './namespaces/rows.ts';
import { showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * 300 Namespaces with 20 objects each, deleted at once, until the last one is gone: by kube-controller-manager's own
 * controller (with `--kube-api-qps=1000`, of which this controller takes twenty times) and by gateway and function in
 * its place; in turn, each time on a fresh control plane. `npm run bench namespaces`; `BENCH_ROUNDS` and
 * `BENCH_NAMESPACES` make it another one, `-- --save` writes the results into the repository.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const LOAD: Load = { namespaces: Number(process.env['BENCH_NAMESPACES'] ?? 300) };
const ARMS: readonly ArmName[] = ['kube-controller-manager', 'levelhook'];

const started = new Started();
stopAtSignal(started);
const found = new Comparison(ARMS, namespaceRows(), { subject: 'levelhook', to: ['kube-controller-manager'] });
for (let round = 0; round < ROUNDS; round += 1) {
  for (const name of round % 2 === 0 ? ARMS : ARMS.toReversed()) {
    const machine = measureMachine();
    const { figures, goneSeconds, requests, writes } = await runArm(name, LOAD, started);
    const load = machine();
    const all = { ...figures, gone: goneSeconds, requests: requests / LOAD.namespaces, writes };
    found.add(name, { ...all, 'machine.stolen': load.stolen, 'machine.foreign': load.foreign });
    const seconds = `gone after ${goneSeconds.toFixed(1)} s, ${writes} writes`;
    process.stderr.write(`round ${round + 1}, ${name}: ${seconds}, ${formatLoad(load)}\n`);
  }
}
const what =
  `${LOAD.namespaces} Namespaces with 20 objects each, medians of ${ROUNDS} rounds, Node ${process.versions.node}, ` +
  `${availableParallelism()} processors.`;
await showResults('namespaces', 'The end of Namespaces by kube-controller-manager and by a function', what, found);
