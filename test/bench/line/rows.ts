import { median } from '../median.ts';
import { figure, ratio } from '../table.ts';
import type { Figures } from './usage.ts';

/** The figures of one arm, a record for each round. */
export type Rounds = readonly Figures[];

/** A line of the table: one figure, or one of each process. */
export type Row = { readonly label: string; readonly figures: readonly string[]; readonly sum?: boolean };

/** Of two or three processes, in this order; an operator is a single one. */
const PROCESSES = ['gateway', 'function', 'redis', 'operator'];

const one = (label: string, name: string): Row => ({ label, figures: [name] });
const each = (label: string, name: string): Row => ({
  label,
  figures: PROCESSES.map((process) => `${name}.${process}`),
});
const redis = (label: string, part: string): Row => ({
  label,
  figures: ['scripts', 'commands', 'reads'].map((name) => `${part}.${name}`),
});

/** The table's lines, for rounds with this many objects. */
export function lineRows(objects: string): readonly Row[] {
  return [
    one('**Start** with 100 objects: first key after, s', 'start.first'),
    one('the same on a Redis that never served the cluster, s', 'start.freshRedis'),
    each('idle memory, MB: gateway, function, Redis', 'start.idle'),
    one(`**Burst**: each of ${objects} reconciled after, s`, 'burst.all'),
    one('first key after, s', 'burst.first'),
    one('CPU of a key without start-up, ms', 'burst.cpuMs'),
    each('of it gateway, function, Redis', 'burst.cpuMs'),
    one('CPU with start-up, s', 'burst.cpu'),
    each('of it gateway, function, Redis', 'burst.cpu'),
    each('peak memory, MB: gateway, function, Redis', 'burst.peak'),
    { ...one('gateway and Redis together, MB', ''), figures: ['burst.peak.gateway', 'burst.peak.redis'], sum: true },
    redis('for each key: Redis scripts, commands, reads', 'burst'),
    one('**100 changes a second**: from write to run, p50, ms', 'rate.p50'),
    one('p99, ms', 'rate.p99'),
    one('CPU of a change, ms', 'rate.cpuMs'),
    each('of it gateway, function, Redis', 'rate.cpuMs'),
    redis('for each change: Redis scripts, commands, reads', 'rate'),
    one(`**${objects} changes with a write each**: all written after, s`, 'write.all'),
    one('CPU, s', 'write.cpu'),
    each('of it gateway, function, Redis', 'write.cpu'),
    each('peak memory, MB: gateway, function, Redis', 'write.peak'),
    redis('for each change: Redis scripts, commands, reads', 'write'),
  ];
}

/** The medians of a row for an arm: one figure, or those of its processes. Empty when no round has any. */
export function medians({ figures, sum }: Row, rounds: Rounds): number[] {
  const has = figures.filter((name) => rounds.some((round) => round[name] !== undefined));
  const of = (read: (round: Figures) => number): number => median(rounds.map(read).filter(Number.isFinite));
  if (!sum) return has.map((name) => of((round) => round[name] ?? Number.NaN));
  if (has.length < figures.length) return [];
  return [of((round) => has.reduce((total, name) => total + (round[name] ?? Number.NaN), 0))];
}

/** Label, a cell for each arm, and ratios of the last arm to each of `to`; undefined when no arm has a figure. */
export function cellsOf(row: Row, arms: ReadonlyMap<string, Rounds>, to: readonly string[]): string[] | undefined {
  const found = new Map([...arms].map(([name, rounds]) => [name, medians(row, rounds)]));
  if ([...found.values()].every((values) => values.length === 0)) return undefined;
  const single = (name: string): number => {
    const values = found.get(name) ?? [];
    return values.length === 1 ? (values[0] ?? Number.NaN) : Number.NaN;
  };
  const ratios = to.map((name) =>
    row.figures.length === 1 || row.sum ? ratio(single('levelhook'), single(name)) : '',
  );
  return [row.label, ...[...found.values()].map((values) => values.map(figure).join(', ')), ...ratios];
}
