/**
 * Time, passed in. Production uses `systemClock`; tests pass a clock of their own and never sleep.
 * Milliseconds since the epoch throughout, as `Date.now()` gives them.
 */
export interface Clock {
  now(): number;
  /** Resolves after `ms`, or at once when `signal` is aborted; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
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
