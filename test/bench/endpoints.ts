import { availableParallelism } from 'node:os';
import { isDeepStrictEqual } from 'node:util';
import type { EndpointState } from '../harness/endpoint-state.ts';
import type { ServiceLoad } from '../harness/service-churn.ts';
import { Started } from '../harness/started.ts';
import { Comparison, type Figures, type Row } from './comparison.ts';
import { type ArmFigures, runArm } from './endpoints/arm.ts';
import type { ArmName } from './plane-arm.ts';
import { formatLoad, measureMachine } from './machine-load.ts';
import { showResults } from './results.ts';
import { stopAtSignal } from './stop-at-signal.ts';

/**
 * 2,000 pods behind 100 Services of one namespace, and four rounds in which half of them change: EndpointSlices,
 * Endpoints and mirrors by kube-controller-manager's own controllers (with `--kube-api-qps=1000 --kube-api-burst=2000`)
 * and by gateway and functions in their place; in turn, each time on a fresh control plane, by the same script. Fails
 * when the end states differ. Pods change at a rate that both arms keep up with. With `BENCH_PER_SECOND=0` the script
 * goes as fast as it can, and competes with the arm for the processors. `npm run bench endpoints`; `BENCH_ROUNDS`,
 * `BENCH_SERVICES`, `BENCH_PODS`, `BENCH_NODES`, `BENCH_CHANGES` and `BENCH_PER_SECOND` make it another one.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const PER_SECOND = Number(process.env['BENCH_PER_SECOND'] ?? 100);
const LOAD: ServiceLoad = {
  services: Number(process.env['BENCH_SERVICES'] ?? 100),
  pods: Number(process.env['BENCH_PODS'] ?? 2000),
  nodes: Number(process.env['BENCH_NODES'] ?? 50),
  rounds: Number(process.env['BENCH_CHANGES'] ?? 4),
  ...(PER_SECOND > 0 ? { perSecond: PER_SECOND } : {}),
};
const ARMS: readonly ArmName[] = ['kube-controller-manager', 'levelhook'];
const PROCESSES = ['built-in', 'gateway', 'redis', 'endpointslice', 'endpoints', 'endpointslice-mirroring'];

const of = (name: string): readonly string[] => PROCESSES.map((process) => `${name}.${process}`);
const rows: readonly Row[] = [
  { label: 'until all endpoints are right, s', figures: ['seconds'], main: true, panel: 'Until all are right, s' },
  { label: 'of that after the last change of a pod, s', figures: ['last'], main: true },
  { label: 'CPU, s', figures: of('cpu'), sum: true, main: true, panel: 'CPU, all processes, s' },
  { label: 'by process: gateway, Redis, endpointslice, endpoints, mirroring', figures: of('cpu'), main: true },
  { label: 'CPU of kube-controller-manager for the other controllers, s', figures: ['cpu.other'] },
  { label: 'peak memory, MB', figures: of('peak'), sum: true, main: true },
  { label: 'writes', figures: ['writes'], main: true, panel: 'Writes' },
  { label: 'of them endpointslices', figures: ['writes.endpointslices'] },
  { label: 'of them endpoints', figures: ['writes.endpoints'] },
  { label: 'of them events', figures: ['writes.events'] },
  { label: 'slices', figures: ['slices'] },
];

const started = new Started();
stopAtSignal(started);
const found = new Comparison(ARMS, rows, { subject: 'levelhook', to: ['kube-controller-manager'] });
const states: EndpointState[] = [];
for (let round = 0; round < ROUNDS; round += 1) {
  for (const name of round % 2 === 0 ? ARMS : ARMS.toReversed()) {
    const machine = measureMachine();
    const arm = await runArm(name, LOAD, started);
    const load = machine();
    found.add(name, figuresOf(arm, load));
    states.push(arm.state);
    const [first = arm.state] = states;
    const differing = differences(first, arm.state);
    if (differing.length > 0) throw new Error(`${name}, round ${round + 1}: another end state: ${differing[0]}`);
    const seconds = `right after ${arm.seconds.toFixed(1)} s, ${arm.lastSeconds.toFixed(2)} s after the last change`;
    process.stderr.write(`round ${round + 1}, ${name}: ${seconds}, ${formatLoad(load)}\n`);
  }
}
const what =
  `${LOAD.pods} pods behind ${LOAD.services} Services in one namespace, ${LOAD.rounds} rounds of changes, ` +
  `${PER_SECOND > 0 ? `${PER_SECOND} pods a second` : 'as fast as the script can'}, medians of ` +
  `${ROUNDS} rounds, Node ${process.versions.node}, ${availableParallelism()} processors. The end states are equal.`;
await showResults('endpoints', "Services' endpoints by kube-controller-manager and by functions", what, found);

/** What two end states have differently, Service by Service. */
function differences(a: EndpointState, b: EndpointState): string[] {
  return (['slices', 'endpoints'] as const).flatMap((part) => {
    const names = new Set([...Object.keys(a[part]), ...Object.keys(b[part])]);
    return [...names]
      .filter((each) => !isDeepStrictEqual(a[part][each], b[part][each]))
      .map((each) => `${part} of ${each}: ${JSON.stringify(a[part][each])} and ${JSON.stringify(b[part][each])}`);
  });
}

function figuresOf(arm: ArmFigures, load: { stolen: number; foreign: number }): Figures {
  const figures: Record<string, number> = {
    seconds: arm.seconds,
    last: arm.lastSeconds,
    slices: arm.slices,
    writes: Object.values(arm.writesOf).reduce((sum, count) => sum + count, 0),
    'machine.stolen': load.stolen,
    'machine.foreign': load.foreign,
  };
  for (const [name, count] of Object.entries(arm.writesOf)) figures[`writes.${name}`] = count;
  for (const [name, seconds] of Object.entries(arm.cpu)) figures[`cpu.${name}`] = seconds;
  for (const [name, bytes] of Object.entries(arm.memory)) figures[`peak.${name}`] = bytes / 1e6;
  return figures;
}
