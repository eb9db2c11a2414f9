/**
 * Time, passed in. Production uses `systemClock`, the gateway its `GatewayClock`; tests pass a clock of their own and
 * never sleep. Milliseconds since the epoch throughout.
 */
export interface Clock {
  /**
   * Steady: it never runs backwards, and setting the machine's clock does not move it. Durations, deadlines and due
   * times use it. Whole milliseconds.
   */
  now(): number;
  /**
   * What other machines take for the time, as `Date.now()`: for signatures, Events, conditions, and times that are
   * shown.
   */
  wallNow(): number;
  /** Resolves after `ms`, or at once when `signal` is aborted; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  // The wall clock of the process's start, moved on by the monotonic clock.
  now: () => Math.floor(performance.timeOrigin + performance.now()),
  wallNow: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener('abort', done, { once: true });
    }),
};
