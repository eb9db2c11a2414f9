import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { measureLatency } from '../../harness/latency.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import type { Observation } from '../../harness/observer.ts';
import type { TestProcess } from '../../harness/process.ts';
import type { Figures } from '../comparison.ts';
import { residentMemory } from '../process-figures.ts';
import type { RunningArm } from './arms.ts';
import { cpuSinceStart, measureUsage, untilQuiet } from './usage.ts';

const WRITERS = 32;
const PAYLOAD = 'x'.repeat(1800);
const MB = 1e6;
const IDLE_MS = 5000;
const LONE_CHANGES = 50;
const LONE_EVERY_MS = 100;
/** ConfigMaps that the writes of the rate go to in turn. */
const RATE_OBJECTS = 200;

/** The namespace that one arm has in one round, with its objects of 2 KB. */
export interface Objects {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly count: number;
}

export async function createObjects(objects: Objects): Promise<void> {
  const { cluster, namespace } = objects;
  await inParallel(objects.count, (at) =>
    cluster.create(configMaps, { metadata: { namespace, name: nameOf(at) }, data: { payload: PAYLOAD } }),
  );
}

/** Deletes the objects, so that the next arm does not list them. The cluster has no controller of namespaces. */
export async function deleteObjects({ cluster, namespace }: Objects): Promise<void> {
  const { items } = await cluster.list(configMaps, namespace);
  const names = items.map(({ metadata }) => metadata.name);
  await inParallel(names.length, (at) => cluster.delete(configMaps, { namespace, name: names[at] ?? '' }));
}

/** Seconds from the process' start to the first key. */
export async function measureFirst(arm: RunningArm): Promise<Figures> {
  return { first: await secondsUntil(arm, 'seen first', arm.startedAtMs) };
}

/**
 * Measures the seconds from the start to the first key and to the last, and the resources for all keys. CPU in seconds
 * includes the start of the processes, CPU of a key does not. Call it as soon as the processes run.
 */
export async function measureBurst(arm: RunningArm, objects: number): Promise<Figures> {
  const usage = await measureUsage(arm);
  const first = await secondsUntil(arm, 'seen first', arm.startedAtMs);
  const all = await secondsUntil(arm, 'seen all', arm.startedAtMs);
  await untilQuiet(arm);
  const withoutStart = perKey(await usage(), objects);
  return { ...withoutStart, ...cpuSinceStart(arm), first, all };
}

/** The time from write to run at a steady rate, and the CPU of each change. */
export async function measureRate(
  arm: RunningArm,
  { cluster, namespace }: Objects,
  options: { perSecond: number; warmUpSeconds: number; seconds: number },
): Promise<Figures> {
  let usage: ReturnType<typeof measureUsage> | undefined;
  const latency = await measureLatency(cluster, namespace, observerOf(arm.reporter), {
    objects: RATE_OBJECTS,
    ...options,
    onWarm: () => {
      usage = measureUsage(arm);
    },
  });
  if (!usage) throw new Error('the rate has ended before it was warm');
  const used = await (await usage)();
  return { p50: latency.p50, p99: latency.p99, missed: latency.missed, ...perKey(used, latency.writes) };
}

/** Seconds from the first change until each object's change was written, and what that cost. */
export async function measureWrites(arm: RunningArm, { cluster, namespace, count }: Objects): Promise<Figures> {
  const usage = await measureUsage(arm);
  const changedFromMs = machineMs();
  await inParallel(count, (at) =>
    cluster.patch(configMaps, { namespace, name: nameOf(at) }, { data: { change: '1' } }),
  );
  const written = (machineMs() - changedFromMs) / 1000;
  const all = await secondsUntil(arm, 'stamped all', changedFromMs);
  await untilQuiet(arm);
  return { all, written, ...perKey(await usage(), count) };
}

/**
 * Measures the cost of a single change, with the write of its run and the second run that this write wakes. Changes
 * come one after another. The resources that the arm uses in the same time without a change are subtracted.
 */
export async function measureLone(arm: RunningArm, { cluster, namespace }: Objects): Promise<Figures> {
  await untilQuiet(arm);
  const idle = await measureUsage(arm);
  await sleep(LONE_CHANGES * LONE_EVERY_MS);
  const unused = await idle();
  const usage = await measureUsage(arm);
  for (let at = 0; at < LONE_CHANGES; at += 1) {
    const next = sleep(LONE_EVERY_MS);
    await cluster.patch(configMaps, { namespace, name: nameOf(at) }, { data: { change: '1' } });
    await next;
  }
  const used = await usage();
  const differences = Object.entries(used).map(([name, value]) => [name, value - (unused[name] ?? 0)] as const);
  const { stolen = 0, foreign = 0 } = used;
  return { ...perKey(Object.fromEntries(differences), LONE_CHANGES), stolen, foreign };
}

/** Resident memory of each process after five seconds without work. */
export async function measureIdle(arm: RunningArm): Promise<Figures> {
  await untilQuiet(arm);
  await sleep(IDLE_MS);
  return Object.fromEntries(Object.entries(arm.pids).map(([name, pid]) => [`idle.${name}`, residentMemory(pid) / MB]));
}

/** CPU in ms of each key beside that of all. */
function perKey(used: Figures, keys: number): Figures {
  const figures: Record<string, number> = { ...used };
  for (const [name, value] of Object.entries(used)) {
    if (/^cpu([.]|$)/.test(name)) figures[name.replace('cpu', 'cpuMs')] = (1000 * value) / keys;
    if (/^(commands|reads|scripts)$/.test(name)) figures[name] = value / keys;
  }
  return figures;
}

async function secondsUntil({ reporter, watcher }: RunningArm, msg: string, sinceMs: number): Promise<number> {
  const line = reporter.line((each) => each['msg'] === msg);
  const ended = watcher.exited.then((code) => {
    throw new Error(`the process that watches has ended with ${code}:\n${watcher.output.slice(-2000)}`);
  });
  return (Number((await Promise.race([line, ended]))['atMs']) - sinceMs) / 1000;
}

function observerOf(reporter: TestProcess) {
  return {
    seen: () => reporter.lines.filter(({ msg }) => msg === 'run') as unknown as readonly Observation[],
  };
}

function nameOf(at: number): string {
  return `object-${at}`;
}

async function inParallel(count: number, write: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) await write(at);
  };
  await Promise.all(Array.from({ length: WRITERS }, work));
}
