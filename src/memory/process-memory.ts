import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isYoungGenerationSmall, limitYoungGeneration } from './young-generation.ts';

const CHECK_MS = 250;
/** Of a processor. Pollers and timers of a gateway without work take less. */
const BUSY_SHARE = 0.1;
/** So long without work before memory is given back: 3 s. */
const QUIET_CHECKS = 12;
/** Less than this is not worth a collection. */
const WORTH_BYTES = 16e6;
/** A heap of this size is collected in 0.3 s; a larger one is left as it is. */
const MOST_BYTES = 150e6;
/** Of what has survived the last collection: how much the old generation grows before V8 collects it again. */
const GROWTH_PERCENT = 80;

type Collect = (options: { type: 'major'; flavor: 'last-resort' }) => void;

/**
 * Keeps the memory of this process small, for as long as it lives. It changes options of V8, so it is called by the
 * start of a program, and never by a library.
 *
 * - The young generation has 8 MB: see `limitYoungGeneration`.
 * - The old generation is collected when it has grown by 80 %. By itself V8 lets a small one grow to four times its
 *   size.
 * - A process keeps what loading its modules and a burst of work have taken, because without work V8 collects nothing.
 *   So after three seconds without work everything is collected and returned to the system, which takes 70 to 300 ms:
 *   once after the start, and after that when the process has grown by 16 MB. That makes the young generation small,
 *   and it gets its 8 MB back within 250 ms of the next work.
 */
export function keepMemorySmall(): void {
  let canGrow = limitYoungGeneration();
  setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
  let used = process.cpuUsage();
  let atMs = performance.now();
  let quiet = 0;
  let released = 0;
  const check = (): void => {
    const nowMs = performance.now();
    const { user, system } = process.cpuUsage(used);
    const isBusy = (user + system) / 1000 > BUSY_SHARE * (nowMs - atMs);
    quiet = isBusy ? 0 : quiet + 1;
    if (isBusy && canGrow && isYoungGenerationSmall()) canGrow = limitYoungGeneration();
    if (quiet === QUIET_CHECKS) {
      quiet = 0;
      const hasGrown = process.memoryUsage.rss() > released + WORTH_BYTES;
      if (hasGrown && getHeapStatistics().used_heap_size < MOST_BYTES) {
        releaseMemory();
        released = process.memoryUsage.rss();
      }
    }
    used = process.cpuUsage();
    atMs = performance.now();
  };
  setInterval(check, CHECK_MS).unref();
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
