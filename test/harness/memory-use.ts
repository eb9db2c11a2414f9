import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Bytes of this process, without garbage. The collector frees buffers in the background, so the least of some
 * measurements counts.
 */
export async function memoryUse(): Promise<number> {
  const collect = garbageCollector();
  let least = Infinity;
  for (let at = 0; at < 5; at += 1) {
    collect();
    await sleep(20);
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    least = Math.min(least, heapUsed + arrayBuffers);
  }
  return least;
}

/** Collects all garbage of this process at each call. */
export function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}
