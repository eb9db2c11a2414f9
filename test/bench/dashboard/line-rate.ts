import { setTimeout as sleep } from 'node:timers/promises';
import { compareResourceVersions } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import type { TestProcess } from '../../harness/process.ts';

const WRITERS = 32;
const LIMIT_MS = 60_000;

/** Objects that the controller of `bench line` reconciles. */
export interface LineObjects {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly count: number;
}

/**
 * Changes each object once, by 32 writers, and waits until a run has read each change.
 * @param fn the function's process, which writes a line for each run.
 * @returns changes a second, from the first write to the last run.
 */
export async function measureLineRate(
  { cluster, namespace, count }: LineObjects,
  fn: TestProcess,
  round: number,
): Promise<number> {
  const from = fn.lines.length;
  const versions = new Map<string, string>();
  const startedAtMs = machineMs();
  let next = 0;
  const write = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) {
      const name = `object-${at}`;
      const { metadata } = await cluster.patch(configMaps, { namespace, name }, { data: { count: `${round}` } });
      versions.set(`${namespace}/${name}`, metadata.resourceVersion);
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
  let lastMs = startedAtMs;
  let looked = from;
  for (const endMs = machineMs() + LIMIT_MS; versions.size > 0;) {
    for (; looked < fn.lines.length; looked += 1) {
      const { msg, key, resourceVersion, startedAtMachineMs } = fn.lines[looked] ?? {};
      const wanted = versions.get(String(key));
      if (msg !== 'run' || wanted === undefined) continue;
      if (compareResourceVersions(String(resourceVersion), wanted) < 0) continue;
      versions.delete(String(key));
      lastMs = Math.max(lastMs, Number(startedAtMachineMs));
    }
    if (machineMs() > endMs) throw new Error(`no run has read the changes of ${versions.size} objects`);
    if (versions.size > 0) await sleep(5);
  }
  return (1000 * count) / (lastMs - startedAtMs);
}
