import { systemClock } from '../core/index.ts';

/** Registers a listener that is called once when the caller hangs up, and at once if the caller has hung up already. */
export type HangUp = (listener: () => void) => void;

/** Makes a `HangUp` of a signal that is aborted when the caller hangs up. */
export function hangUpOf(signal: AbortSignal): HangUp {
  return (listener) => {
    if (signal.aborted) listener();
    else signal.addEventListener('abort', listener, { once: true });
  };
}

export const HUNG_UP = 'the caller has hung up';

/**
 * The time in which the runs of one trigger may send requests: until its deadline, or until the caller hangs up. The
 * signal and the timer are created at their first use, because most runs need neither.
 */
export class RunScope {
  /** In the time of `systemClock.now`. */
  readonly deadlineMs: number;
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The reason for the end. */
  #overReason: string | undefined;
  #onOver: ((reason: string) => void) | undefined;

  constructor(deadlineMs: number, hangUp: HangUp) {
    this.deadlineMs = deadlineMs;
    hangUp(() => this.#end(HUNG_UP));
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#overReason === undefined) this.#startTimer();
      else this.#abort.abort(new Error(this.#overReason));
    }
    return this.#abort.signal;
  }

  /**
   * Registers the only listener, which is called with the reason when the time is over, and at once if it is over
   * already.
   */
  onOver(listener: (reason: string) => void): void {
    if (this.#overReason !== undefined) return listener(this.#overReason);
    this.#onOver = listener;
    this.#startTimer();
  }

  /** Called when all runs have ended. From then on nothing is aborted. */
  close(): void {
    this.#overReason ??= 'the run is over';
    this.#onOver = undefined;
    clearTimeout(this.#timer);
  }

  #startTimer(): void {
    const leftMs = Math.max(0, this.deadlineMs - systemClock.now());
    this.#timer ??= setTimeout(() => this.#end('the deadline has passed'), leftMs);
  }

  #end(reason: string): void {
    if (this.#overReason !== undefined) return;
    this.#overReason = reason;
    clearTimeout(this.#timer);
    this.#abort?.abort(new Error(reason));
    this.#onOver?.(reason);
  }
}
