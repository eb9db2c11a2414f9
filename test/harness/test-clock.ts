import { type Clock, systemClock } from '../../src/core/index.ts';

/** The real time, which a test can move forward: what would come in minutes comes now. Sleeps are real. */
export class ShiftedClock implements Clock {
  #shiftMs = 0;

  now(): number {
    return systemClock.now() + this.#shiftMs;
  }

  wallNow(): number {
    return this.now();
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemClock.sleep(ms, signal);
  }

  advance(ms: number): void {
    this.#shiftMs += ms;
  }
}

/** No sleep waits: it moves the time by its length and ends at once. What was slept is kept. */
export class InstantClock implements Clock {
  readonly sleeps: number[] = [];
  #now = Date.UTC(2026, 0, 1);

  now(): number {
    return this.#now;
  }

  wallNow(): number {
    return this.#now;
  }

  async sleep(ms: number): Promise<void> {
    this.sleeps.push(ms);
    this.#now += ms;
    // Not a microtask: a loop of sleeps must not keep the event loop to itself.
    await new Promise((resolve) => setImmediate(resolve));
  }

  advance(ms: number): void {
    this.#now += ms;
  }
}

/** Time stands still until a test moves it. Sleepers wake in the order of their times, each at its own. */
export class VirtualClock implements Clock {
  #now = Date.UTC(2026, 0, 1);
  readonly #sleepers = new Set<{ readonly atMs: number; readonly wake: () => void }>();

  now(): number {
    return this.#now;
  }

  wallNow(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms <= 0 || signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener('abort', wake);
        resolve();
      };
      const sleeper = { atMs: this.#now + ms, wake };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', wake, { once: true });
    });
  }

  /** Moves the time and wakes no sleeper, as while a process is frozen. */
  jump(ms: number): void {
    this.#now += ms;
  }

  /** Moves to the time of the next sleeper and wakes it, or to `limitMs` if none sleeps that short. */
  step(limitMs: number): void {
    const next = Math.min(limitMs, ...[...this.#sleepers].map(({ atMs }) => atMs));
    this.#now = Math.max(this.#now, next);
    for (const { atMs, wake } of this.#sleepers) if (atMs <= this.#now) wake();
  }
}
