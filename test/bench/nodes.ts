import { availableParallelism } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import { Comparison, type Row } from './comparison.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { nodesLeftTainted, podsEvictedThen, runSilence, type SilenceFigures, withoutTaintsLeft } from './nodes/arm.ts';
import type { ArmName } from './plane-arm.ts';
import { Started } from '../harness/started.ts';
import { showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * 50 nodes of one zone fall silent, then 50 of another, the last, and then all are back: with kube-controller-manager's
 * own controllers and with gateway and function in their place, in turn, each time on a fresh control plane. Both have
 * a grace period of 10 s and taint 5 nodes a second. Fails when the states after each part differ, apart from the
 * NoExecute taints that kube-controller-manager leaves when all zones are silent (ADR 0058) and the pods that it evicts
 * for them, and says how many these are. `npm run bench nodes`; `BENCH_ROUNDS` and `BENCH_NODES` (of a zone) make it
 * another one, `-- --save` writes the results into the repository.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const LOAD = {
  nodesPerZone: Number(process.env['BENCH_NODES'] ?? 50),
  podsPerNode: 2,
  tolerationSeconds: 3,
  graceSeconds: 10,
  evictionRate: 5,
};
const ARMS: readonly ArmName[] = ['kube-controller-manager', 'levelhook'];
const CPU = ['built-in', 'gateway', 'redis', 'node-lifecycle'];
const ROWS: readonly Row[] = [
  {
    label: 'one zone silent: until all its nodes are Unknown, s',
    figures: ['unknown'],
    main: true,
    panel: 'Until all are Unknown, s',
  },
  { label: 'until all are tainted with NoExecute, s', figures: ['tainted'], main: true },
  {
    label: 'until all their pods are evicted, s',
    figures: ['evicted'],
    main: true,
    panel: 'Until all pods are evicted, s',
  },
  { label: 'all zones silent: until all nodes are Unknown, s', figures: ['allUnknown'], main: true },
  { label: 'nodes that keep a NoExecute taint then', figures: ['left'], main: true },
  { label: 'pods evicted then', figures: ['evictedThen'], main: true },
  { label: 'until no NoExecute taint is left, s', figures: ['untainted'], main: true },
  { label: 'all back: until no taint is left, s', figures: ['healed'], main: true },
  { label: 'CPU, s', figures: CPU.map((each) => `cpu.${each}`), sum: true, main: true, panel: 'CPU, all processes, s' },
  { label: 'by process: gateway, Redis, node-lifecycle', figures: CPU.map((each) => `cpu.${each}`), main: true },
  { label: 'CPU of kube-controller-manager for the other controllers, s', figures: ['cpu.other'] },
  { label: 'peak memory, MB', figures: CPU.map((each) => `peak.${each}`), sum: true },
  { label: 'requests', figures: ['requests'] },
  { label: 'writes', figures: ['writes'], main: true, panel: 'Writes' },
  ...['nodes', 'nodes/status', 'pods', 'pods/status', 'events'].map((each) => ({
    label: `of them ${each}`,
    figures: [`writes.${each}`],
  })),
];

const started = new Started();
stopAtSignal(started);
const found = new Comparison(ARMS, ROWS, { subject: 'levelhook', to: ['kube-controller-manager'] });
for (let round = 0; round < ROUNDS; round += 1) {
  const states: ReturnType<typeof withoutTaintsLeft>[] = [];
  for (const name of round % 2 === 0 ? ARMS : ARMS.toReversed()) {
    const machine = measureMachine();
    const arm = await runSilence(name, LOAD, started);
    const load = machine();
    found.add(name, { ...figuresOf(arm), 'machine.stolen': load.stolen, 'machine.foreign': load.foreign });
    states.push(withoutTaintsLeft(arm.states, LOAD));
    if (name === 'levelhook' && nodesLeftTainted(arm.states) + podsEvictedThen(arm.states, LOAD) > 0)
      throw new Error(`the function left NoExecute taints, or evicted for them: ${JSON.stringify(arm.states)}`);
    process.stderr.write(`round ${round + 1}, ${name}: ${JSON.stringify(arm)}, ${formatLoad(load)}\n`);
  }
  const [first, second] = states;
  if (!isDeepStrictEqual(first, second)) throw new Error(`the states differ: ${JSON.stringify([first, second])}`);
}
const what =
  `Two zones of ${LOAD.nodesPerZone} nodes with ${LOAD.podsPerNode} pods each, a grace period of ` +
  `${LOAD.graceSeconds} s, medians of ${ROUNDS} rounds, Node ${process.versions.node}, ${availableParallelism()} ` +
  `processors. The states are equal, apart from the NoExecute taints that kube-controller-manager leaves when all zones ` +
  `are silent, and the pods that these evict (ADR 0058).`;
await showResults('nodes', 'Silent nodes by kube-controller-manager and by functions', what, found);

function figuresOf(arm: SilenceFigures): Record<string, number> {
  const figures: Record<string, number> = {
    unknown: arm.unknownSeconds,
    tainted: arm.taintedSeconds,
    evicted: arm.evictedSeconds,
    allUnknown: arm.allUnknownSeconds,
    left: nodesLeftTainted(arm.states),
    evictedThen: podsEvictedThen(arm.states, LOAD),
    untainted: arm.untaintedSeconds,
    healed: arm.healedSeconds,
    requests: arm.requests,
    writes: arm.writes,
  };
  for (const [name, count] of Object.entries(arm.writesOf)) figures[`writes.${name}`] = count;
  for (const [name, seconds] of Object.entries(arm.cpu)) figures[`cpu.${name}`] = seconds;
  for (const [name, bytes] of Object.entries(arm.memory)) figures[`peak.${name}`] = bytes / 1e6;
  return figures;
}
