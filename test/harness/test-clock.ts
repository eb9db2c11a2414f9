import { type Clock, systemClock } from '../../src/core/index.ts';

/** The real time, which a test can move forward: what would come in minutes comes now. Sleeps are real. */
export class ShiftedClock implements Clock {
  #shiftMs = 0;

  now(): number {
    return Date.now() + this.#shiftMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemClock.sleep(ms, signal);
  }

  advance(ms: number): void {
    this.#shiftMs += ms;
  }
}

/** Nobody waits: a sleep moves the time by its length and ends at once. What was slept is kept. */
export class InstantClock implements Clock {
  readonly sleeps: number[] = [];
  #now = Date.UTC(2026, 0, 1);

  now(): number {
    return this.#now;
  }

  async sleep(ms: number): Promise<void> {
    this.sleeps.push(ms);
    this.#now += ms;
    // Not a microtask: whoever sleeps in a loop must not keep the event loop to himself.
    await new Promise((resolve) => setImmediate(resolve));
  }

  advance(ms: number): void {
    this.#now += ms;
  }
}
