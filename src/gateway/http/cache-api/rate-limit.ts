import { type Clock, tenantOf, TokenBucket } from '../../../core/index.ts';

/**
 * A token bucket for each tenant limits the requests a second of all its readers; twice as many may come at once. Each
 * gateway process counts for itself.
 */
export class ReaderRateLimit {
  readonly #perSecond: number;
  readonly #clock: Clock;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(perSecond: number, clock: Clock) {
    this.#perSecond = perSecond;
    this.#clock = clock;
  }

  /** Whether `reader` may ask now: a controller, or a person with a token. There are few tenants. */
  take(reader: string): boolean {
    const tenant = tenantOf(reader);
    let bucket = this.#buckets.get(tenant);
    if (!bucket) {
      const perSecond = this.#perSecond;
      bucket = new TokenBucket({ perSecond, burst: perSecond * 2 }, () => this.#clock.now());
      this.#buckets.set(tenant, bucket);
    }
    return bucket.take();
  }
}
