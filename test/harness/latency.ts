import { setTimeout as sleep } from 'node:timers/promises';
import { compareResourceVersions } from '../../src/core/index.ts';
import { type Cluster, configMaps } from './cluster.ts';
import { machineMs } from './machine-clock.ts';
import type { Observation } from './observer.ts';

/** Lists runs, as an `Observer` does. */
export interface LatencyObserver {
  seen(): readonly Pick<Observation, 'key' | 'resourceVersion' | 'startedAtMachineMs'>[];
}

export interface LatencyOptions {
  /** ConfigMaps that are written to in turn. */
  readonly objects: number;
  readonly perSecond: number;
  /** How long is written before anything counts. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** Called after the warm-up, before the first write that counts. Default: nothing. */
  readonly onWarm?: () => void;
}

export interface Latency {
  readonly writes: number;
  /** Writes whose version, or a later one, no run had read 30 s after the last write. */
  readonly missed: number;
  /** Milliseconds from the acknowledged write to the start of the reconcile that saw it. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

interface Write {
  readonly key: string;
  readonly resourceVersion: string;
  readonly acknowledgedAtMs: number;
}

/**
 * Writes to ConfigMaps at a steady rate, whatever the answers take, and measures from the moment that the answer of a
 * PATCH has arrived to the start of the first run that read that version or a later one. Where the function was quicker
 * than the answer to the writer, the time is below zero.
 */
export async function measureLatency(
  cluster: Cluster,
  namespace: string,
  observer: LatencyObserver,
  { objects, perSecond, warmUpSeconds, seconds, onWarm }: LatencyOptions,
): Promise<Latency> {
  const names = Array.from({ length: objects }, (_, at) => `cm-${at}`);
  await Promise.all(names.map((name) => cluster.create(configMaps, { metadata: { namespace, name } })));
  const writes: Promise<Write>[] = [];
  const startedAtMs = machineMs();
  const count = (warmUpSeconds + seconds) * perSecond;
  for (let at = 0; at < count; at += 1) {
    const wait = startedAtMs + (at * 1000) / perSecond - machineMs();
    if (wait > 0) await sleep(wait);
    if (at === warmUpSeconds * perSecond) onWarm?.();
    writes.push(write(cluster, namespace, names[at % objects] ?? '', at));
  }
  const measured = (await Promise.all(writes)).slice(warmUpSeconds * perSecond);
  const limitMs = machineMs() + 30_000;
  let latencies = latenciesOf(measured, observer);
  while (latencies.length < measured.length && machineMs() < limitMs) {
    await sleep(100);
    latencies = latenciesOf(measured, observer);
  }
  const sorted = latencies.toSorted((a, b) => a - b);
  return {
    writes: measured.length,
    missed: measured.length - latencies.length,
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
    max: percentile(sorted, 1),
  };
}

/** `latency write->reconcile at 100/s: p50 1.2 ms, p99 3.4 ms, max 5.6 ms (n=1000)` */
export function formatLatency({ p50, p99, max, writes, missed }: Latency, perSecond: number): string {
  const [a, b, c] = [p50, p99, max].map((ms) => ms.toFixed(1));
  const lost = missed > 0 ? `, ${missed} never seen` : '';
  return `latency write->reconcile at ${perSecond}/s: p50 ${a} ms, p99 ${b} ms, max ${c} ms (n=${writes}${lost})`;
}

async function write(cluster: Cluster, namespace: string, name: string, at: number): Promise<Write> {
  const { metadata } = await cluster.patch(configMaps, { namespace, name }, { data: { count: String(at) } });
  return { key: `${namespace}/${name}`, resourceVersion: metadata.resourceVersion, acknowledgedAtMs: machineMs() };
}

function latenciesOf(writes: readonly Write[], observer: LatencyObserver): number[] {
  const byKey = Map.groupBy(observer.seen(), ({ key }) => key);
  return writes.flatMap(({ key, resourceVersion, acknowledgedAtMs }) => {
    const seen = byKey
      .get(key)
      ?.find((run) => run.resourceVersion && compareResourceVersions(run.resourceVersion, resourceVersion) >= 0);
    return seen ? [seen.startedAtMachineMs - acknowledgedAtMs] : [];
  });
}

function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}
