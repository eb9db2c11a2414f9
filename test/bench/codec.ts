import { formatJson, parseJson } from '../../src/core/index.ts';
import { configMapOf } from './config-maps.ts';
import { median } from './median.ts';

/**
 * Compares the codec of Kubernetes' JSON with JavaScript's own, on a line of a watch, as the gateway parses it, and on
 * a list of 100 objects, as a function does. Both run in turn in one process, so that the ratio holds on a machine
 * whose speed changes.
 */
const ROUNDS = 400;

interface Arm {
  readonly name: string;
  readonly ours: () => unknown;
  readonly theirs: () => unknown;
  /** Calls in one round. */
  readonly times: number;
}

const object = { apiVersion: 'v1', kind: 'ConfigMap', ...configMapOf(7, 1007) };
const line = JSON.stringify({ type: 'MODIFIED', object });
const list = { kind: 'ConfigMapList', items: Array.from({ length: 100 }, (_, at) => configMapOf(at, at)) };
const listed = JSON.stringify(list);

const arms: readonly Arm[] = [
  { name: 'parse a line', ours: () => parseJson(line), theirs: () => JSON.parse(line) as unknown, times: 500 },
  { name: 'parse a list', ours: () => parseJson(listed), theirs: () => JSON.parse(listed) as unknown, times: 5 },
  { name: 'write a list', ours: () => formatJson(list), theirs: () => JSON.stringify(list), times: 5 },
];

function microseconds({ times }: Arm, call: () => unknown): number {
  const from = performance.now();
  for (let at = 0; at < times; at += 1) call();
  return ((performance.now() - from) * 1000) / times;
}

for (const arm of arms) {
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    ours.push(microseconds(arm, arm.ours));
    theirs.push(microseconds(arm, arm.theirs));
  }
  const ratio = median(ours.map((each, at) => each / (theirs[at] ?? NaN)));
  process.stdout.write(
    `${arm.name.padEnd(16)}${median(ours).toFixed(1).padStart(9)} µs, JSON alone ${median(theirs).toFixed(1)} µs: ratio ${ratio.toFixed(3)}\n`,
  );
}
