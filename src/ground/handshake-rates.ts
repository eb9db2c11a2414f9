import { type Clock, NewestMap, TokenBucket, type TokenRate } from '../core/index.ts';

/**
 * Of one source. A TLS handshake takes up to a millisecond of the main thread, so a source gets a third of the thread
 * at most. An apiserver keeps 25 idle connections (client-go). With more writes than that under way, about every second
 * review opens a connection: 150 writers opened 40 a second, and 93 at most. The rate leaves room for 600 writes a
 * second of an apiserver without a certificate. The burst leaves room for its writes under way, 200 by default, each
 * with several webhooks.
 */
export const HANDSHAKES: TokenRate = { perSecond: 300, burst: 800 };
/** Of all sources together that are not known: half of the thread. */
export const HANDSHAKES_IN_ALL: TokenRate = { perSecond: 500, burst: 1600 };
/**
 * Of one source while the others take all of that, so that strangers do not keep an apiserver out until it is known: it
 * has as many idle connections.
 */
export const RESERVED_HANDSHAKES: TokenRate = { perSecond: 1, burst: 25 };
/**
 * Of a known source: three quarters of the thread. Behind a NAT strangers have its address, too, and with a smaller
 * burst 4,200 silent connections of theirs would keep out those of the apiserver.
 */
export const KNOWN_HANDSHAKES: TokenRate = { perSecond: 750, burst: 5000 };
/** Sources whose buckets, and known sources whose names, are kept. */
const MOST_SOURCES = 4096;

/** The buckets of one source. */
interface Source {
  readonly own: TokenBucket;
  readonly reserved: TokenBucket;
}

/**
 * How often each source may begin a handshake of TLS: a token bucket for each name, and one for all, because a stranger
 * may have many addresses. A source that has shown a certificate of the authorities is known and has a bucket of its
 * own, so that the apiserver always has its own. Its certificate comes at the end of the handshake, after the expensive
 * part, so the bucket is for later connections from its address, which strangers may share (behind a NAT).
 */
export class HandshakeRates {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #inAll: TokenBucket;
  /** The source that connected last is the last. */
  readonly #sources = new NewestMap<string, Source>(MOST_SOURCES);
  readonly #known = new NewestMap<string, TokenBucket>(MOST_SOURCES);

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
    this.#inAll = this.#bucketOf(HANDSHAKES_IN_ALL);
  }

  /** @param name see `sourceName`. @returns whether the source may begin a handshake now. */
  take(name: string): boolean {
    const known = this.#known.get(name);
    if (known) return known.take();
    const source = this.#sources.get(name) ?? {
      own: this.#bucketOf(HANDSHAKES),
      reserved: this.#bucketOf(RESERVED_HANDSHAKES),
    };
    this.#sources.set(name, source);
    // In this order: a refused handshake takes no token of a bucket.
    return source.own.waitMs === 0 && (this.#inAll.take() || source.reserved.take()) && source.own.take();
  }

  isKnown(name: string): boolean {
    return this.#known.has(name);
  }

  /** The source has shown a certificate of the authorities. */
  know(name: string): void {
    this.#known.set(name, this.#known.get(name) ?? this.#bucketOf(KNOWN_HANDSHAKES));
    this.#sources.delete(name);
  }

  /** The authorities have changed: each source shows its certificate again. */
  forgetKnown(): void {
    this.#known.clear();
  }

  #bucketOf(rate: TokenRate): TokenBucket {
    return new TokenBucket(rate, () => this.#clock.now());
  }
}
