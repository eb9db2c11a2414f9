import { type Clock, NewestMap, TokenBucket, type TokenRate } from '../core/index.ts';

/**
 * Of one source. A TLS handshake takes up to a millisecond of the main thread, so a source gets a third of the thread
 * at most. An apiserver keeps 25 idle connections (client-go). With more writes than that under way, about every second
 * review opens a connection: 150 writers opened 40 a second, and 93 at most. The rate leaves room for 600 writes a
 * second of an apiserver without a certificate. The burst leaves room for its writes under way, 200 by default, each
 * with several webhooks.
 */
export const HANDSHAKES: TokenRate = { perSecond: 300, burst: 800 };
/** Sources whose buckets, and known sources whose names, are kept. */
const MOST_SOURCES = 4096;

/**
 * How often each source may begin a handshake of TLS: a token bucket for each name. A source that has shown a
 * certificate of the authorities is exempt, so that the apiserver always has its own. Its certificate comes at the end
 * of the handshake, after the expensive part, so the exemption holds for later connections from its address.
 */
export class HandshakeRates {
  readonly #clock: Pick<Clock, 'now'>;
  /** The source that connected last is the last. */
  readonly #buckets = new NewestMap<string, TokenBucket>(MOST_SOURCES);
  readonly #known = new NewestMap<string, true>(MOST_SOURCES);

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** @param name see `sourceName`. @returns whether the source may begin a handshake now. */
  take(name: string): boolean {
    if (this.#known.has(name)) return true;
    const bucket = this.#buckets.get(name) ?? new TokenBucket(HANDSHAKES, () => this.#clock.now());
    this.#buckets.set(name, bucket);
    return bucket.take();
  }

  /** The source has shown a certificate of the authorities. */
  exempt(name: string): void {
    this.#known.set(name, true);
    this.#buckets.delete(name);
  }

  /** The authorities have changed: each source shows its certificate again. */
  endExemptions(): void {
    this.#known.clear();
  }
}
