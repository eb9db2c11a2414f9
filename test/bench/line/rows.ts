import type { Row } from '../comparison.ts';

/** Of two or three processes, in this order; an operator is a single one. */
const PROCESSES = ['gateway', 'function', 'redis', 'operator'];

const one = (label: string, name: string, more: Partial<Row> = {}): Row => ({ label, figures: [name], ...more });
const each = (label: string, name: string, more: Partial<Row> = {}): Row => ({
  label,
  figures: PROCESSES.map((process) => `${name}.${process}`),
  ...more,
});
const redis = (label: string, part: string): Row => ({
  label,
  figures: ['scripts', 'commands', 'reads'].map((name) => `${part}.${name}`),
});

/** The table's lines, for rounds with this many objects. */
export function lineRows(objects: string): readonly Row[] {
  const main = true;
  return [
    one('**Start** with 100 objects: first key after, s', 'start.first', { main, panel: 'Start to first key, s' }),
    each('idle memory, MB: gateway, function, Redis', 'start.idle', { main }),
    one('**A lone change** with a write, two runs: CPU, ms', 'lone.cpuMs'),
    redis('for each change: Redis scripts, commands, reads', 'lone'),
    one(`**Burst**: each of ${objects} reconciled after, s`, 'burst.all', {
      main,
      panel: `Start to ${objects} reconciled, s`,
    }),
    one('first key after, s', 'burst.first'),
    one('CPU of a key without start-up, ms', 'burst.cpuMs', { main, panel: 'CPU of a key in the burst, ms' }),
    each('by process: gateway, function, Redis', 'burst.cpuMs'),
    one('CPU with start-up, s', 'burst.cpu'),
    each('by process: gateway, function, Redis', 'burst.cpu'),
    each('peak memory, MB: gateway, function, Redis', 'burst.peak'),
    {
      label: 'peak memory of gateway and Redis together, MB',
      figures: ['burst.peak.gateway', 'burst.peak.redis'],
      sum: true,
      main,
    },
    redis('for each key: Redis scripts, commands, reads', 'burst'),
    one('**100 changes a second**: from write to run, p50, ms', 'rate.p50', {
      main,
      panel: '100 changes a second: write to run, p50, ms',
    }),
    one('p99, ms', 'rate.p99', { main, panel: '100 changes a second: write to run, p99, ms' }),
    one('CPU of a change, ms', 'rate.cpuMs', { main, panel: 'CPU of a change at 100 a second, ms' }),
    each('by process: gateway, function, Redis', 'rate.cpuMs'),
    redis('for each change: Redis scripts, commands, reads', 'rate'),
    one(`**${objects} changes with a write each**: all written after, s`, 'write.all', {
      main,
      panel: `${objects} changes with a write each, s`,
    }),
    one('the changes alone took, s', 'write.written'),
    one('CPU, s', 'write.cpu', { main }),
    each('by process: gateway, function, Redis', 'write.cpu'),
    redis('for each change: Redis scripts, commands, reads', 'write'),
    each('peak memory of the whole run, MB: gateway, function, Redis', 'write.peak', { main }),
    one('peak memory of the whole run, all, MB', 'write.peak', { panel: 'Peak memory, all processes, MB' }),
  ];
}
