import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Figures } from '../comparison.ts';
import { measureMachine } from '../machine-load.ts';
import { cpuSeconds, peakMemory } from '../process-figures.ts';
import type { RunningArm } from './arms.ts';

const MB = 1e6;
const QUIET_EVERY_MS = 250;
/** The part of a processor that pollers and timers may use in a quiet arm. */
const QUIET_SHARE = 0.15;
const QUIET_LIMIT_MS = 10_000;

/**
 * Starts to measure the resources that an arm uses, and returns a function that ends it. The figures are CPU in seconds
 * and peak memory in MB, of each process (`cpu.NAME`, `peak.NAME`) and of all (`cpu`, `peak`); Redis' commands
 * (including those in scripts), scripts and reads of a socket (one for each pipeline); and `stolen` and `foreign` of
 * `MachineLoad`.
 */
export async function measureUsage(arm: RunningArm): Promise<() => Promise<Figures>> {
  const machine = measureMachine();
  const [cpuFrom, redisFrom] = [cpuOf(arm), await redisOf(arm)];
  return async () => {
    const [cpuTo, redisTo] = [cpuOf(arm), await redisOf(arm)];
    const figures: Record<string, number> = { ...machine(), cpu: 0, peak: 0 };
    const add = (name: string, value: number): void => {
      figures[name] = (figures[name] ?? 0) + value;
    };
    for (const [name, pid] of Object.entries(arm.pids)) {
      const [cpu, peak] = [(cpuTo[name] ?? 0) - (cpuFrom[name] ?? 0), peakMemory(pid) / MB];
      add(`cpu.${name}`, cpu);
      add('cpu', cpu);
      add(`peak.${name}`, peak);
      add('peak', peak);
    }
    for (const [name, count] of Object.entries(redisTo)) add(name, count - (redisFrom[name] ?? 0));
    return figures;
  };
}

/** Waits until an arm uses almost no CPU, so that the CPU of a part includes the work that is left at its end. */
export async function untilQuiet(arm: RunningArm): Promise<void> {
  const sum = (): number => cpuSinceStart(arm)['cpu'] ?? 0;
  const most = (QUIET_SHARE * QUIET_EVERY_MS) / 1000;
  let before = sum();
  for (let waited = 0, quiet = 0; waited < QUIET_LIMIT_MS && quiet < 2; waited += QUIET_EVERY_MS) {
    await sleep(QUIET_EVERY_MS);
    const now = sum();
    quiet = now - before <= most ? quiet + 1 : 0;
    before = now;
  }
}

/** CPU in seconds since the start of each process, by name, and of all. */
export function cpuSinceStart(arm: RunningArm): Figures {
  const cpu = cpuOf(arm);
  const all = Object.values(cpu).reduce((total, each) => total + each, 0);
  return { cpu: all, ...Object.fromEntries(Object.entries(cpu).map(([name, value]) => [`cpu.${name}`, value])) };
}

function cpuOf({ pids }: RunningArm): Record<string, number> {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, cpuSeconds(pid)]));
}

async function redisOf({ redisUrl }: RunningArm): Promise<Record<string, number>> {
  if (redisUrl === undefined) return {};
  const redis = new Redis(redisUrl);
  try {
    const [stats, calls] = [await redis.info('stats'), await redis.info('commandstats')];
    const read = (pattern: RegExp, text: string): number => Number(pattern.exec(text)?.[1] ?? 0);
    return {
      commands: read(/^total_commands_processed:(\d+)/m, stats),
      reads: read(/^total_reads_processed:(\d+)/m, stats),
      scripts: read(/^cmdstat_evalsha:calls=(\d+)/m, calls) + read(/^cmdstat_eval:calls=(\d+)/m, calls),
    };
  } finally {
    redis.disconnect();
  }
}
