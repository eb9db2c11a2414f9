import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isYoungGenerationSmall, limitYoungGeneration } from './young-generation.ts';

const CHECK_MS = 250;
/** Share of one processor. Below it a process is idle: pollers and timers of a gateway take 1 to 2 %. */
const QUIET_SHARE = 0.05;
/** Above this share, the work needs the large young generation. */
const BUSY_SHARE = 0.1;
/** Memory is given back after this time without work. */
const QUIET_MS = 3000;
/** Freeing less than this is not worth a collection. */
const WORTH_BYTES = 16e6;
/** A heap of this size is collected in 0.3 s; a larger heap is not collected. */
const MOST_BYTES = 150e6;

type Collect = (options: { type: 'major'; flavor: 'last-resort' }) => void;

/**
 * Keeps the memory of this process small, for as long as it lives. It changes options of V8, so only the start of a
 * program calls it, never a library.
 *
 * - The young generation has 8 MB: see `limitYoungGeneration`.
 * - V8 collects nothing without work, so a process keeps the memory of loading its modules and of a burst of work.
 *   After three seconds without work, this collects everything and returns it to the system, which takes 70 to 300 ms:
 *   once after the start, and later whenever the process has grown by 16 MB. This makes the young generation small, and
 *   it gets its 8 MB back within 250 ms of the next work.
 */
export function keepMemorySmall(): void {
  let canGrow = limitYoungGeneration();
  let last = measure();
  let quietFrom = last;
  let released = 0;
  const check = (): void => {
    const now = measure();
    if (shareBetween(last, now) > BUSY_SHARE) {
      if (canGrow && isYoungGenerationSmall()) canGrow = limitYoungGeneration();
      quietFrom = now;
    } else if (now.atMs - quietFrom.atMs >= QUIET_MS) {
      // Measured over the whole time, because processor time may advance in ticks of 10 ms.
      const isQuiet = shareBetween(quietFrom, now) < QUIET_SHARE;
      if (isQuiet && isWorthwhile(released)) {
        releaseMemory();
        released = process.memoryUsage.rss();
      }
      quietFrom = measure();
    }
    // The collection itself must not count as work.
    last = measure();
  };
  setInterval(check, CHECK_MS).unref();
}

interface Moment {
  readonly cpuMs: number;
  readonly atMs: number;
}

function measure(): Moment {
  const { user, system } = process.cpuUsage();
  return { cpuMs: (user + system) / 1000, atMs: performance.now() };
}

/** The processor time of this process between two moments, as a share of one processor. */
function shareBetween(from: Moment, to: Moment): number {
  return (to.cpuMs - from.cpuMs) / (to.atMs - from.atMs);
}

function isWorthwhile(released: number): boolean {
  const hasGrown = process.memoryUsage.rss() > released + WORTH_BYTES;
  return hasGrown && getHeapStatistics().used_heap_size < MOST_BYTES;
}

/** Collects all garbage and returns free pages to the system. Blocks this thread until it is done. */
export function releaseMemory(): void {
  // A new context has `gc` only if it was made while the option was set. The collection must be the kind that V8 runs
  // before it is out of memory, because an ordinary one keeps the pages.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', flavor: 'last-resort' });
}
