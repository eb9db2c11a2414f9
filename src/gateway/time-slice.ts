import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

/** How long work may go on before everything else that waits for this thread has a turn. */
const SLICE_MS = 10;
/** A slice that took longer held an object that cannot be divided: to parse 1.5 MB of JSON takes some 60 ms. */
const LONG_MS = 12;
/** A process that was stopped for seconds has not worked for seconds. */
const LONGEST_REST_MS = 250;

/**
 * Divides long work of one thread: health checks, answers of functions and other views go on between its slices. After
 * a long slice its work rests for as long as it took, and the rests of a whole process follow one another. So large
 * objects, however many read them at once, take about half of the thread, and a wakeup, which needs a dozen turns, does
 * not wait for one of them at each turn. It is no bound: work that begins does not wait for the rest of another.
 */
export class TimeSlice {
  /** Resolves when the last of those that took long has rested. */
  static #rested: Promise<void> = Promise.resolve();
  #from = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#from > SLICE_MS;
  }

  /** Begins again after a wait for something else: that was no work. */
  restart(): void {
    this.#from = performance.now();
  }

  /** Lets everything else that is ready go first; after a long slice, everything that gets ready meanwhile, too. */
  async next(): Promise<void> {
    const tookMs = performance.now() - this.#from;
    if (tookMs > LONG_MS) await TimeSlice.#rest(Math.min(tookMs, LONGEST_REST_MS));
    else await nextTurn();
    this.#from = performance.now();
  }

  static async #rest(ms: number): Promise<void> {
    const before = TimeSlice.#rested;
    const { promise, resolve } = Promise.withResolvers<void>();
    TimeSlice.#rested = promise;
    await before;
    // The one that has rested before this one works until the next turn.
    await nextTurn();
    await sleep(ms);
    resolve();
  }
}
