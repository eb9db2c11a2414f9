import { backoffMs, type Clock } from '../../../core/index.ts';

/**
 * The wait between attempts of a reflector: 0.8 s doubling to 30 s, each with up to as much again at random, and back
 * to the start after two minutes without one. client-go's values (tools/cache/reflector.go, `NewReflectorWithOptions`).
 */
export class Backoff {
  readonly #clock: Clock;
  readonly #random: () => number;
  #failures = 0;
  #lastAt = 0;

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** The next wait, in milliseconds. */
  next(): number {
    const now = this.#clock.now();
    if (now - this.#lastAt > RESET_MS) this.#failures = 0;
    this.#lastAt = now;
    this.#failures += 1;
    return backoffMs(WAIT_MS, this.#failures) * (1 + this.#random());
  }
}

const WAIT_MS = [800, 30_000] as const;
const RESET_MS = 120_000;
