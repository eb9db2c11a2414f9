import { type Clock, TokenBucket } from '../../core/index.ts';

/**
 * A token bucket for each reader: so many requests a second, and twice as many at once. Of this gateway process alone.
 */
export class ReaderRateLimit {
  readonly #perSecond: number;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(perSecond: number, clock: Clock) {
    this.#perSecond = perSecond;
    this.#clock = clock;
  }

  /** Whether `reader` may ask now. Readers are controllers, so there are few. */
  take(reader: string): boolean {
    let bucket = this.#buckets.get(reader);
    if (!bucket) {
      const perSecond = this.#perSecond;
      bucket = new TokenBucket({ perSecond, burst: perSecond * 2 }, () => this.#clock.now());
      this.#buckets.set(reader, bucket);
    }
    return bucket.take();
  }
}
