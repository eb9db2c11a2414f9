import {
  type Clock,
  type RequestSource,
  SharedRoom,
  systemClock,
  tenantOf,
  TokenBucket,
  type TokenRate,
} from '../../core/index.ts';

export interface FlowControlOptions {
  /** Of all requests together. The controllers of a namespace have half of it together. */
  readonly total: TokenRate;
  /** Of each controller. The gateway's own requests have no limit but the total. */
  readonly perFlow: TokenRate;
  readonly clock?: Clock;
}

/**
 * Client-side flow control towards one apiserver, as client-go's rate limiter, but for many controllers that share a
 * process. Each request waits for a token of its controller, of its tenant and of the total. When the total is used up,
 * the waiting tenants take turns, one request each, and so do the controllers of a tenant. So a controller with many
 * requests delays only itself, and a tenant that declares many controllers delays only its own. Requests of one
 * controller are sent in their order, and its urgent ones before the others.
 */
export class FlowControl {
  readonly #options: FlowControlOptions;
  readonly #clock: Clock;
  readonly #now = (): number => this.#clock.now();
  readonly #total: TokenBucket;
  /** By controller. */
  readonly #flows = new Map<string, Flow>();
  readonly #tenants = new Map<string, TenantFlows>();
  /** Those with requests that wait; whose turn it is comes first. */
  readonly #waiting = new Set<TenantFlows>();
  #timer = new AbortController();
  /** Requests that are under way, by tenant. */
  readonly #places = new SharedRoom(AT_ONCE);
  /** How many of them each controller has. */
  readonly #ofController = new Map<string, number>();
  /**
   * Requests that wait for others to end, by controller; whose turn it is comes first. A request that ends looks at
   * each controller, and not at the thousands of requests that one may have waiting.
   */
  readonly #queued = new Map<string, Set<() => void>>();

  constructor(options: FlowControlOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#total = new TokenBucket(options.total, this.#now);
  }

  /**
   * Resolves when a request may be sent, with the milliseconds that it has waited.
   * @param name the controller on whose behalf it is. Default: the gateway's own.
   * @param isUrgent whether it goes ahead of the controller's other requests. Default false.
   * @throws the signal's reason when it is aborted before; then no token was taken.
   */
  async wait(name = GATEWAY, signal?: AbortSignal, isUrgent = false): Promise<number> {
    signal?.throwIfAborted();
    const askedAtMs = this.#clock.now();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const flow = this.#flow(name);
    const waiting = isUrgent ? flow.urgent : flow.requests;
    const onAbort = (): void => {
      waiting.delete(grant);
      if (isIdle(flow)) flow.tenant.waiting.delete(flow);
      if (flow.tenant.waiting.size === 0) this.#waiting.delete(flow.tenant);
      reject(signal?.reason as Error);
    };
    const grant = (): void => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    };
    waiting.add(grant);
    flow.tenant.waiting.add(flow);
    this.#waiting.add(flow.tenant);
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#grantAll();
    await promise;
    return this.#clock.now() - askedAtMs;
  }

  /**
   * Resolves with the function that ends this request when there is a place for it: 64 requests of all controllers may
   * be under way, 8 of one controller, and of one tenant half of what the others leave (see `SharedRoom`). Each request
   * under way has a connection, and its TLS handshake costs more than the request: a thousand controllers that start
   * together had 3,000. The gateway's own requests do not wait.
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
      for (const [of, waiting] of this.#queued) {
        if (this.#places.taken >= AT_ONCE) return;
        const [next] = waiting;
        if (!next || !this.#hasPlace(of)) continue;
        this.#dequeue(of, next);
        // Behind the others.
        if (this.#queued.delete(of)) this.#queued.set(of, waiting);
        this.#count(of, 1);
        next();
      }
    };
  }

  #hasPlace(name: string): boolean {
    return (this.#ofController.get(name) ?? 0) < AT_ONCE_EACH && this.#places.hasFor(placesOf(name));
  }

  #count(name: string, by: 1 | -1): void {
    if (by > 0) this.#places.take(placesOf(name));
    else this.#places.giveBack(placesOf(name));
    const count = (this.#ofController.get(name) ?? 0) + by;
    if (count > 0) this.#ofController.set(name, count);
    else this.#ofController.delete(name);
  }

  /** Waits for the place of a request that has ended. */
  async #untilNext(name: string, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => {
      if (this.#dequeue(name, resolve)) reject(signal?.reason as Error);
    };
    const waiting = this.#queued.get(name);
    if (waiting) waiting.add(resolve);
    else this.#queued.set(name, new Set([resolve]));
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** @returns whether it was waiting. */
  #dequeue(name: string, next: () => void): boolean {
    const waiting = this.#queued.get(name);
    const wasWaiting = waiting?.delete(next) ?? false;
    if (waiting?.size === 0) this.#queued.delete(name);
    return wasWaiting;
  }

  #flow(name: string): Flow {
    const known = this.#flows.get(name);
    if (known) return known;
    this.#forgetFull();
    const bucket = name === GATEWAY ? undefined : new TokenBucket(this.#options.perFlow, this.#now);
    const flow: Flow = { bucket, urgent: new Set(), requests: new Set(), tenant: this.#tenant(tenantOf(name), name) };
    this.#flows.set(name, flow);
    return flow;
  }

  /** A configured function, which only the operator can add, has no limit as a tenant. */
  #tenant(tenant: string, name: string): TenantFlows {
    const known = this.#tenants.get(tenant);
    if (known) return known;
    const { burst, perSecond } = this.#options.total;
    const half = { perSecond: perSecond / 2, burst: Math.ceil(burst / 2) };
    const made: TenantFlows = {
      bucket: tenant === name ? undefined : new TokenBucket(half, this.#now),
      waiting: new Set(),
    };
    this.#tenants.set(tenant, made);
    return made;
  }

  /** A full bucket says nothing: that of a controller or a tenant that is no more is forgotten. */
  #forgetFull(): void {
    const inUse = new Set<TenantFlows>();
    for (const [name, flow] of this.#flows) {
      const { bucket, tenant } = flow;
      if (isIdle(flow) && bucket?.isFull !== false) this.#flows.delete(name);
      else inUse.add(tenant);
    }
    for (const [name, tenant] of this.#tenants) {
      if (!inUse.has(tenant) && tenant.bucket?.isFull !== false) this.#tenants.delete(name);
    }
  }

  /** All that may go now; then again when the next one may. */
  #grantAll(): void {
    this.#timer.abort();
    for (;;) {
      const { next, waitMs } = this.#next();
      if (!next) {
        if (waitMs < Infinity) void this.#grantAfter(waitMs);
        return;
      }
      const { tenant } = next;
      this.#total.take();
      tenant.bucket?.take();
      next.bucket?.take();
      const waiting = next.urgent.size > 0 ? next.urgent : next.requests;
      const [grant] = waiting;
      if (grant) waiting.delete(grant);
      // Both go behind the others.
      tenant.waiting.delete(next);
      if (!isIdle(next)) tenant.waiting.add(next);
      this.#waiting.delete(tenant);
      if (tenant.waiting.size > 0) this.#waiting.add(tenant);
      grant?.();
    }
  }

  /** The controller whose turn it is, or how long until there is one. */
  #next(): { readonly next?: Flow; readonly waitMs: number } {
    let soonestMs = Infinity;
    const totalMs = this.#total.waitMs;
    for (const tenant of this.#waiting) {
      const tenantMs = Math.max(totalMs, tenant.bucket?.waitMs ?? 0);
      if (tenantMs > 0) {
        soonestMs = Math.min(soonestMs, tenantMs);
        continue;
      }
      for (const flow of tenant.waiting) {
        const waitMs = flow.bucket?.waitMs ?? 0;
        if (waitMs === 0) return { next: flow, waitMs };
        soonestMs = Math.min(soonestMs, waitMs);
      }
    }
    return { waitMs: soonestMs };
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

/** Of one controller. */
interface Flow {
  readonly bucket: TokenBucket | undefined;
  /** The requests that wait, in order of arrival. The urgent ones go first. */
  readonly urgent: Set<() => void>;
  readonly requests: Set<() => void>;
  readonly tenant: TenantFlows;
}

/** Of one tenant. */
interface TenantFlows {
  readonly bucket: TokenBucket | undefined;
  /** Those with requests that wait; whose turn it is comes first. */
  readonly waiting: Set<Flow>;
}

const placesOf = (controller: string): RequestSource => ({ name: tenantOf(controller), isKnown: false });

/** Whether no request waits. */
function isIdle({ requests, urgent }: Flow): boolean {
  return requests.size === 0 && urgent.size === 0;
}
