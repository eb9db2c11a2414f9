import { type Clock, systemClock, TokenBucket, type TokenRate } from '../../core/index.ts';

export interface FlowControlOptions {
  /** Of all requests together. */
  readonly total: TokenRate;
  /** Of each flow. The gateway's own requests belong to no flow and have no limit but the total. */
  readonly perFlow: TokenRate;
  readonly clock?: Clock;
}

/**
 * Client-side flow control towards one apiserver, as client-go's rate limiter, but for many controllers that share a
 * process. Each request waits for a token of its flow and a token of the total. When the total is used up, the waiting
 * flows take turns, one request each, so a controller with many requests delays only itself. Requests of one flow are
 * sent in their order.
 */
export class FlowControl {
  readonly #options: FlowControlOptions;
  readonly #clock: Clock;
  readonly #now = (): number => this.#clock.now();
  readonly #total: TokenBucket;
  readonly #flows = new Map<string, Flow>();
  /** Those with requests that wait; whose turn it is comes first. */
  readonly #waiting = new Set<Flow>();
  #timer = new AbortController();
  #running = 0;
  /** How many of them each controller has. */
  readonly #ofController = new Map<string, number>();
  /** Requests that wait for others to end, in the order in which they came, with their controllers. */
  readonly #queued = new Map<() => void, string>();

  constructor(options: FlowControlOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#total = new TokenBucket(options.total, this.#now);
  }

  /**
   * Resolves when a request may be sent, with the milliseconds that it has waited.
   * @param name the controller on whose behalf it is. Default: the gateway's own.
   * @throws the signal's reason when it is aborted before; then no token was taken.
   */
  async wait(name = GATEWAY, signal?: AbortSignal): Promise<number> {
    signal?.throwIfAborted();
    const askedAtMs = this.#clock.now();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const flow = this.#flow(name);
    const onAbort = (): void => {
      flow.requests.delete(grant);
      if (flow.requests.size === 0) this.#waiting.delete(flow);
      reject(signal?.reason as Error);
    };
    const grant = (): void => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    };
    flow.requests.add(grant);
    this.#waiting.add(flow);
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#grantAll();
    await promise;
    return this.#clock.now() - askedAtMs;
  }

  /**
   * Resolves when less than 64 requests of all controllers are under way, and less than 8 of this one, with the
   * function that ends this one. Each request under way has a connection, and its TLS handshake costs more than the
   * request: a thousand controllers that start together had 3,000. The gateway's own requests do not wait.
   * @throws the signal's reason when it is aborted before.
   */
  async begin(name = GATEWAY, signal?: AbortSignal): Promise<() => void> {
    if (name === GATEWAY) return () => {};
    signal?.throwIfAborted();
    if (this.#hasPlace(name)) this.#count(name, 1);
    else await this.#untilNext(name, signal);
    let hasEnded = false;
    return () => {
      if (hasEnded) return;
      hasEnded = true;
      this.#count(name, -1);
      // One whose controller has all of its places lets the others pass.
      for (const [next, of] of this.#queued) {
        if (this.#running >= AT_ONCE) return;
        if (!this.#hasPlace(of)) continue;
        this.#queued.delete(next);
        this.#count(of, 1);
        next();
      }
    };
  }

  #hasPlace(name: string): boolean {
    return this.#running < AT_ONCE && (this.#ofController.get(name) ?? 0) < AT_ONCE_EACH;
  }

  #count(name: string, by: 1 | -1): void {
    this.#running += by;
    const count = (this.#ofController.get(name) ?? 0) + by;
    if (count > 0) this.#ofController.set(name, count);
    else this.#ofController.delete(name);
  }

  /** Waits for the place of a request that has ended. */
  async #untilNext(name: string, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => {
      if (this.#queued.delete(resolve)) reject(signal?.reason as Error);
    };
    this.#queued.set(resolve, name);
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  #flow(name: string): Flow {
    const known = this.#flows.get(name);
    if (known) return known;
    // A full bucket says nothing: that of a controller that is no more is forgotten.
    for (const [other, { bucket, requests }] of this.#flows) {
      if (requests.size === 0 && bucket?.isFull !== false) this.#flows.delete(other);
    }
    const bucket = name === GATEWAY ? undefined : new TokenBucket(this.#options.perFlow, this.#now);
    const flow: Flow = { bucket, requests: new Set() };
    this.#flows.set(name, flow);
    return flow;
  }

  /** All that may go now; then again when the next one may. */
  #grantAll(): void {
    this.#timer.abort();
    for (;;) {
      const totalMs = this.#total.waitMs;
      let soonestMs = Infinity;
      let next: Flow | undefined;
      for (const flow of this.#waiting) {
        const waitMs = Math.max(totalMs, flow.bucket?.waitMs ?? 0);
        soonestMs = Math.min(soonestMs, waitMs);
        if (waitMs > 0) continue;
        next = flow;
        break;
      }
      if (!next) {
        if (soonestMs < Infinity) void this.#grantAfter(soonestMs);
        return;
      }
      this.#total.take();
      next.bucket?.take();
      const [grant] = next.requests;
      if (grant) next.requests.delete(grant);
      this.#waiting.delete(next);
      if (next.requests.size > 0) this.#waiting.add(next);
      grant?.();
    }
  }

  async #grantAfter(ms: number): Promise<void> {
    const timer = new AbortController();
    this.#timer = timer;
    await this.#clock.sleep(Math.ceil(ms), timer.signal);
    if (!timer.signal.aborted) this.#grantAll();
  }
}

/** Requests of all controllers that are under way. */
const AT_ONCE = 64;
/** Of one controller: a kind that is served slowly must not take the places of all others. */
const AT_ONCE_EACH = 8;
/** No controller's name: those are DNS labels. */
const GATEWAY = '';

interface Flow {
  readonly bucket: TokenBucket | undefined;
  /** What waits, in the order in which it came. */
  readonly requests: Set<() => void>;
}
