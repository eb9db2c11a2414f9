import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isYoungGenerationSmall, limitYoungGeneration } from './young-generation.ts';

const CHECK_MS = 250;
/** Of a processor: less is no work. Pollers and timers of a gateway take 1 to 2 %. */
const QUIET_SHARE = 0.05;
/** More is work that needs the large young generation. */
const BUSY_SHARE = 0.1;
/** So long without work before memory is given back. */
const QUIET_MS = 3000;
/** Less than this is not worth a collection. */
const WORTH_BYTES = 16e6;
/** A heap of this size is collected in 0.3 s; a larger one is left as it is. */
const MOST_BYTES = 150e6;

type Collect = (options: { type: 'major'; flavor: 'last-resort' }) => void;

/**
 * Keeps the memory of this process small, for as long as it lives. It changes options of V8, so it is called by the
 * start of a program, and never by a library.
 *
 * - The young generation has 8 MB: see `limitYoungGeneration`.
 * - A process keeps what loading its modules and a burst of work have taken, because without work V8 collects nothing.
 *   So after three seconds without work everything is collected and returned to the system, which takes 70 to 300 ms:
 *   once after the start, and after that when the process has grown by 16 MB. That makes the young generation small,
 *   and it gets its 8 MB back within 250 ms of the next work.
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
      // Over all of this time, because processor time may advance in ticks of 10 ms.
      const isQuiet = shareBetween(quietFrom, now) < QUIET_SHARE;
      if (isQuiet && isWorthwhile(released)) {
        releaseMemory();
        released = process.memoryUsage.rss();
      }
      quietFrom = measure();
    }
    // What was done here is no work.
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

/** The processor time of this process in that time, as a share of one processor. */
function shareBetween(from: Moment, to: Moment): number {
  return (to.cpuMs - from.cpuMs) / (to.atMs - from.atMs);
}

function isWorthwhile(released: number): boolean {
  const hasGrown = process.memoryUsage.rss() > released + WORTH_BYTES;
  return hasGrown && getHeapStatistics().used_heap_size < MOST_BYTES;
}

/**
 * Collects all garbage and returns free pages to the system. Blocks this thread meanwhile.
 */
export function releaseMemory(): void {
  // A context has the function if it was made while the option was set. `gc` of the kind that V8 itself would run
  // before it is out of memory: an ordinary one keeps the pages.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as Collect;
  setFlagsFromString('--no-expose-gc');
  collect({ type: 'major', flavor: 'last-resort' });
}
