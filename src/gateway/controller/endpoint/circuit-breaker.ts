import { backoffMs, type BackoffRange, type Clock } from '../../../core/index.ts';

export interface CircuitBreakerOptions {
  readonly clock: Pick<Clock, 'now'>;
  readonly trip: Trip;
  /** How long it stays open before one call is let through: at first, and at most, doubling. */
  readonly openMs: BackoffRange;
  readonly onOpen: (forMs: number) => void;
  readonly onClosed: () => void;
}

/** Decides from the results of calls when a closed circuit opens. */
export interface Trip {
  /** @returns whether the circuit opens now. */
  record(failed: boolean, nowMs: number): boolean;
  reset(): void;
}

/** Opens after this number of failures in a row. */
export function consecutiveFailures(count: number): Trip {
  let failures = 0;
  return {
    record: (failed) => (failures = failed ? failures + 1 : 0) >= count,
    reset: () => void (failures = 0),
  };
}

/** Opens when, within `windowMs`, at least `least` calls have ended, and more than half of them have failed. */
export function mostlyFailures(windowMs: number, least: number): Trip {
  // One count for each tenth of the window: memory does not grow with the calls.
  const partMs = windowMs / 10;
  let parts: { readonly sinceMs: number; calls: number; failures: number }[] = [];
  return {
    record(failed, nowMs) {
      parts = parts.filter(({ sinceMs }) => nowMs - sinceMs < windowMs);
      let part = parts.at(-1);
      if (!part || nowMs - part.sinceMs >= partMs) parts.push((part = { sinceMs: nowMs, calls: 0, failures: 0 }));
      part.calls += 1;
      if (failed) part.failures += 1;
      const calls = parts.reduce((sum, each) => sum + each.calls, 0);
      const failures = parts.reduce((sum, each) => sum + each.failures, 0);
      return failed && calls >= least && failures > calls / 2;
    },
    reset: () => void (parts = []),
  };
}

/**
 * A circuit breaker on the steady clock. Libraries compare `Date.now()`, so their breakers stay open for hours when the
 * machine's clock is set back. It is `closed` until `trip` opens it, then `open` for a while, then `half-open` for one
 * call, which closes or opens it again.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  #state: 'closed' | 'open' | 'half-open' = 'closed';
  /** Counts openings and closings. The result of a call that began before the last of them is ignored. */
  #period = 0;
  /** Openings since it was last closed. */
  #openings = 0;
  #openUntilMs = 0;

  constructor(options: CircuitBreakerOptions) {
    this.#options = options;
  }

  get state(): 'closed' | 'open' | 'half-open' {
    return this.#state;
  }

  /** How long it stays open; 0 when a call may be made. */
  get openForMs(): number {
    return this.#state === 'open' ? Math.max(0, this.#openUntilMs - this.#options.clock.now()) : 0;
  }

  /** Makes a call. The breaker must be closed, or open with an `openForMs` of 0. */
  async call<T>(send: () => Promise<T>, isFailure: (result: T) => boolean): Promise<T> {
    if (this.#state === 'open') this.#state = 'half-open';
    const period = this.#period;
    let failed = true;
    try {
      const result = await send();
      failed = isFailure(result);
      return result;
    } finally {
      if (period === this.#period) this.#record(failed);
    }
  }

  #record(failed: boolean): void {
    const { clock, trip, onClosed } = this.#options;
    if (this.#state === 'half-open') {
      if (failed) return this.#open();
      this.#state = 'closed';
      this.#period += 1;
      this.#openings = 0;
      trip.reset();
      onClosed();
    } else if (trip.record(failed, clock.now())) {
      this.#open();
    }
  }

  #open(): void {
    const { clock, openMs, onOpen } = this.#options;
    this.#openings += 1;
    const forMs = backoffMs(openMs, this.#openings);
    this.#openUntilMs = clock.now() + forMs + 1;
    this.#state = 'open';
    this.#period += 1;
    onOpen(forMs);
  }
}
