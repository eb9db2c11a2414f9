import { systemClock } from '../core/index.ts';

/** Calls the listener once, when the caller hangs up: at once if it has. */
export type HangUp = (listener: () => void) => void;

/** Of a signal that is aborted when the caller hangs up. */
export function hangUpOf(signal: AbortSignal): HangUp {
  return (listener) => {
    if (signal.aborted) listener();
    else signal.addEventListener('abort', listener, { once: true });
  };
}

/**
 * The time in which the runs of one trigger may send anything: until its deadline, or until the caller hangs up. The
 * signal and the timer are made when they are first asked for, since most runs need neither.
 */
export class RunScope {
  /** On the steady clock. */
  readonly deadlineMs: number;
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Why the time is over. */
  #over: string | undefined;
  #onOver: (() => void) | undefined;

  constructor(deadlineMs: number, hangUp: HangUp) {
    this.deadlineMs = deadlineMs;
    hangUp(() => this.#end('the caller has hung up'));
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.#over === undefined) this.#startTimer();
      else this.#abort.abort(new Error(this.#over));
    }
    return this.#abort.signal;
  }

  /** Calls the listener when the time is over: at once if it is. There is one listener at most. */
  onOver(listener: () => void): void {
    if (this.#over !== undefined) return listener();
    this.#onOver = listener;
    this.#startTimer();
  }

  /** All runs have ended: nothing is aborted any more. */
  close(): void {
    this.#over ??= 'the run is over';
    this.#onOver = undefined;
    clearTimeout(this.#timer);
  }

  #startTimer(): void {
    const leftMs = Math.max(0, this.deadlineMs - systemClock.now());
    this.#timer ??= setTimeout(() => this.#end('the deadline has passed'), leftMs);
  }

  #end(reason: string): void {
    if (this.#over !== undefined) return;
    this.#over = reason;
    clearTimeout(this.#timer);
    this.#abort?.abort(new Error(reason));
    this.#onOver?.();
  }
}
