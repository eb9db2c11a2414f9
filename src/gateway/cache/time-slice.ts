import { setImmediate as nextTurn } from 'node:timers/promises';

/** How long work may go on before everything else that waits for this thread has a turn. */
const SLICE_MS = 10;

/** Divides long work of one thread: health checks, answers of functions and other views go on between its slices. */
export class TimeSlice {
  #from = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#from > SLICE_MS;
  }

  /** Lets everything else that is ready go first. */
  async next(): Promise<void> {
    await nextTurn();
    this.#from = performance.now();
  }
}
