import { setTimeout as sleep } from 'node:timers/promises';

/** A slower machine than this is no excuse for what comes late. */
export const MOST_SLOWDOWN = 3;

const CPU_US = 20_000;

/**
 * By how much everything takes longer at this moment because other programs take the processors, 1 at least: computes
 * for 20 ms of processor time in this process, and compares them with the time that has passed.
 */
export function measureSlowdown(): number {
  const startedAtMs = performance.now();
  const before = process.cpuUsage();
  let usedUs = 0;
  while (usedUs < CPU_US) {
    const { user, system } = process.cpuUsage(before);
    usedUs = user + system;
  }
  return Math.max(1, (1000 * (performance.now() - startedAtMs)) / usedUs);
}

const STILL_EVERY_MS = 50;

/** For how long this process had no turn while this work was done: the machine stood still, or others had it. */
export async function stillDuring(work: Promise<unknown>): Promise<number> {
  let [lastMs, stillMs] = [performance.now(), 0];
  const look = (): void => {
    const lateMs = performance.now() - lastMs - STILL_EVERY_MS;
    if (lateMs > 2 * STILL_EVERY_MS) stillMs += lateMs;
    lastMs = performance.now();
  };
  const timer = setInterval(look, STILL_EVERY_MS);
  try {
    await work;
  } finally {
    look();
    clearInterval(timer);
  }
  return stillMs;
}

/** How often `slowdownDuring` measures. */
const EVERY_MS = 250;

/**
 * By how much everything took longer at most while this work was done: see `measureSlowdown`. `MOST_SLOWDOWN` at most.
 */
export async function slowdownDuring(work: Promise<unknown>): Promise<number> {
  const end = new AbortController();
  const stop = (): void => end.abort();
  work.then(stop, stop);
  let most = measureSlowdown();
  while (!end.signal.aborted) {
    await sleep(EVERY_MS, undefined, { signal: end.signal }).catch(() => {});
    most = Math.max(most, measureSlowdown());
  }
  await work;
  return Math.min(MOST_SLOWDOWN, most);
}
