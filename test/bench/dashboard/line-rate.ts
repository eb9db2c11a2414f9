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

/** What the line has done in a round. */
export interface LineRate {
  readonly changes: number;
  /** From the first write to the last run. */
  readonly perSecond: number;
}

/**
 * Changes each object by 32 writers, waits until a run has read each change, and begins again, for so many seconds.
 * @param fn the function's process, which writes a line for each run.
 */
export async function measureLineRate(objects: LineObjects, fn: TestProcess, seconds: number): Promise<LineRate> {
  const startedAtMs = machineMs();
  let endedAtMs = startedAtMs;
  let changes = 0;
  while (endedAtMs - startedAtMs < 1000 * seconds) {
    fn.lines.length = 0;
    endedAtMs = await changeAll(objects, fn);
    changes += objects.count;
  }
  return { changes, perSecond: (1000 * changes) / (endedAtMs - startedAtMs) };
}

/** @returns when the run began that has read the last change, on `machineMs`' clock. */
async function changeAll({ cluster, namespace, count }: LineObjects, fn: TestProcess): Promise<number> {
  const versions = new Map<string, string>();
  const data = { count: `${machineMs()}` };
  let next = 0;
  const write = async (): Promise<void> => {
    for (let at = next++; at < count; at = next++) {
      const name = `object-${at}`;
      const { metadata } = await cluster.patch(configMaps, { namespace, name }, { data });
      versions.set(`${namespace}/${name}`, metadata.resourceVersion);
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, write));
  let lastMs = 0;
  let looked = 0;
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
    if (versions.size > 0) await sleep(2);
  }
  return lastMs;
}
