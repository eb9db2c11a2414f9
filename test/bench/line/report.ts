import { machineMs } from '../../harness/machine-clock.ts';

/** The annotation in which each arm's reconciler repeats `data.change`. */
export const STAMP = 'bench.levelhook.dev/change';

/** What a reconciler reads of a ConfigMap. */
export interface Read {
  readonly metadata: {
    readonly namespace?: string;
    readonly name: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
}

/** What all reconcilers of this benchmark have in common, from the environment. */
export const namespace = variable('BENCH_NAMESPACE');
export const concurrency = Number(variable('BENCH_CONCURRENCY'));

const objects = Number(variable('BENCH_OBJECTS'));
const seen = new Set<string>();
const stamped = new Set<string>();

/**
 * The change that a run has to stamp, if there is one. Every reconciler of this benchmark calls it with the object that
 * it has read, and `reportStamped` after its write. They write to standard output: `seen first` and `seen all` when
 * the first and the last of `BENCH_OBJECTS` objects was reconciled, `stamped first` and `stamped all` when it was
 * written, and a line for each run of an object that has `data.count`.
 */
export function reportRun({ metadata, data }: Read, startedAtMachineMs: number): string | undefined {
  if (data?.['count'] !== undefined) {
    const key = `${metadata.namespace}/${metadata.name}`;
    write({ msg: 'run', key, resourceVersion: metadata.resourceVersion, startedAtMachineMs });
  }
  count(seen, metadata.name, 'seen');
  const change = data?.['change'];
  return change === metadata.annotations?.[STAMP] ? undefined : change;
}

export function reportStamped(name: string): void {
  count(stamped, name, 'stamped');
}

/** The merge patch that stamps a change. */
export function stampPatch(change: string): object {
  return { metadata: { annotations: { [STAMP]: change } } };
}

function count(names: Set<string>, name: string, what: string): void {
  if (names.has(name)) return;
  names.add(name);
  if (names.size === 1) write({ msg: `${what} first`, atMs: machineMs() });
  if (names.size === objects) write({ msg: `${what} all`, atMs: machineMs() });
}

function write(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

function variable(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}
