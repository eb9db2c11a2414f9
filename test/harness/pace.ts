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
