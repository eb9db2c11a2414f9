/**
 * Time, passed in. Production uses `systemClock`, the gateway its `GatewayClock`; tests pass a clock of their own and
 * never sleep. Milliseconds since the epoch throughout.
 */
export interface Clock {
  /**
   * Steady: it never runs backwards, and setting the machine's clock does not move it. Use it for durations, deadlines
   * and due times. Whole milliseconds.
   */
  now(): number;
  /**
   * The time that other machines agree on, as `Date.now()`. Use it for signatures, Events, conditions and displayed
   * times.
   */
  wallNow(): number;
  /** Resolves after `ms`, or at once when `signal` is aborted; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  // The wall clock at the start of the process, advanced by the monotonic clock.
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
