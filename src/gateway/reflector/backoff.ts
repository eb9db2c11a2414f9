import type { Clock } from '../../core/index.ts';

/**
 * The wait between attempts of a reflector: 0.8 s doubling to 30 s, each with up to as much again at random, and back
 * to the start after two minutes without one. client-go's values (tools/cache/reflector.go, `NewReflectorWithOptions`).
 */
export class Backoff {
  readonly #clock: Clock;
  readonly #random: () => number;
  #next = INITIAL_MS;
  #lastAt = 0;

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** The next wait, in milliseconds. */
  next(): number {
    const now = this.#clock.now();
    if (now - this.#lastAt > RESET_MS) this.#next = INITIAL_MS;
    this.#lastAt = now;
    const wait = this.#next * (1 + this.#random());
    this.#next = Math.min(this.#next * 2, MAX_MS);
    return wait;
  }
}

const INITIAL_MS = 800;
const MAX_MS = 30_000;
const RESET_MS = 120_000;
