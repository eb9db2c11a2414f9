import type { Clock } from '../../core/index.ts';

/**
 * A token bucket for each reader: so many requests a second, and twice as many at once. Of this gateway process alone.
 */
export class ReaderRateLimit {
  readonly #perSecond: number;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(perSecond: number, clock: Clock) {
    this.#perSecond = perSecond;
    this.#clock = clock;
  }

  /** Whether `reader` may ask now. Readers are controllers, so there are few. */
  take(reader: string): boolean {
    const now = this.#clock.now();
    const burst = this.#perSecond * 2;
    const bucket = this.#buckets.get(reader) ?? { tokens: burst, atMs: now };
    const tokens = Math.min(burst, bucket.tokens + (Math.max(0, now - bucket.atMs) / 1000) * this.#perSecond);
    this.#buckets.set(reader, { tokens: tokens >= 1 ? tokens - 1 : tokens, atMs: now });
    return tokens >= 1;
  }
}
