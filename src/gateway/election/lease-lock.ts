import { ApiError, type Clock, orUndefined, resourcePath } from '../../core/index.ts';
import type { ApiClient, ApiRequest } from '../../ground/apiserver/api-client.ts';
import type { LeaseKey, LeaseTiming } from '../../ground/config/lease.ts';
import { LEASE, type Lease, type LeaseSpec, microTime } from './lease.ts';

export interface LeaseLockOptions {
  readonly client: Pick<ApiClient, 'json'>;
  /** `now` must be monotonic while the lock is used. */
  readonly clock: Clock;
  readonly lease: LeaseKey;
  readonly timing: LeaseTiming;
  readonly identity: string;
  /** Called when a renewal had to read the Lease. */
  readonly onSlowPath: () => void;
}

/**
 * - `renewed`: this process held the Lease before, without a gap, and still does.
 * - `acquired`: it holds the Lease from now on. Another process may have held it until now.
 * - `refused`: another process may hold it.
 */
export type Attempt = 'renewed' | 'acquired' | 'refused';

/** The record as this process knows it. */
interface Observation {
  readonly spec: LeaseSpec;
  /** The same as text, to see a change; undefined while there is no Lease. */
  readonly text: string | undefined;
  /** When this content was seen first, or when the request that wrote it was sent. */
  readonly atMs: number;
}

/**
 * One process's hold on a Lease by the rules of client-go (`tools/leaderelection/leaderelection.go` and
 * `resourcelock/leaselock.go`, v0.36): the same requests in the same order, and the same record. No time in the record
 * is compared with a clock. A process counts from the moment at which it saw the record change, by its own monotonic
 * clock, so the wall clocks of the processes may differ.
 *
 * It differs from client-go in these points, and each makes it safer:
 * - An own write counts from the moment before the request is sent, not from the answer.
 * - A Lease that has disappeared counts as changed: a process that has seen it waits for the Lease's duration before it
 *   creates a new one, because the holder may not know yet. The holder itself creates it at once.
 * - `release` writes only if the record that it has just read names this process.
 * - A PUT creates the Lease, so the right to create it can be limited to its name.
 */
export class LeaseLock {
  readonly #options: LeaseLockOptions;
  readonly #path: string;
  /** For the answer to one request: as client-go's `NewFromKubeconfig` sets it. */
  readonly #requestMs: number;
  /** The object that the next write replaces. */
  #lease: Lease | undefined;
  #observed: Observation = { spec: {}, text: undefined, atMs: -Infinity };
  /** Until then no other process can have taken the record that this process wrote last. */
  #heldUntilMs = -Infinity;

  constructor(options: LeaseLockOptions) {
    this.#options = options;
    this.#path = resourcePath(LEASE, { ...options.lease });
    this.#requestMs = Math.max(1000, options.timing.renewMs / 2);
  }

  /** The holder in the record that was seen last; empty when there is none. */
  get holder(): string {
    const { spec, text } = this.#observed;
    return text === undefined ? '' : (spec.holderIdentity ?? '');
  }

  /** When the record was seen to change, or when the own write that made it was sent. Milliseconds of the clock. */
  get observedAtMs(): number {
    return this.#observed.atMs;
  }

  /** From when on the Lease may be taken if its record does not change. Milliseconds of the clock. */
  get expiresAtMs(): number {
    const { spec, text, atMs } = this.#observed;
    const durationMs = (spec.leaseDurationSeconds ?? 0) * 1000;
    return atMs + (text === undefined ? Math.max(durationMs, this.#options.timing.leaseMs) : durationMs);
  }

  /**
   * client-go's `tryAcquireOrRenew`.
   * @throws when the result is not known: the apiserver's error, the transport's, or the reason of an aborted `signal`.
   */
  async tryAcquireOrRenew(signal: AbortSignal): Promise<Attempt> {
    const { clock, onSlowPath } = this.#options;
    const nowMs = clock.now();
    // The fast path assumes that the record is as it was seen last.
    if (this.#isHolder && this.#lease && this.expiresAtMs > nowMs) {
      try {
        await this.#hold(this.#lease, this.#observed.spec, signal);
        return 'renewed';
      } catch {
        signal.throwIfAborted();
      }
    }
    const found = await this.#read(signal);
    if (!found) {
      if (nowMs >= this.#heldUntilMs && this.expiresAtMs > nowMs) return 'refused';
      await this.#hold(undefined, { acquireTime: this.#wallTime(), leaseTransitions: 0 }, signal);
      return 'acquired';
    }
    const spec = found.spec ?? {};
    if (this.#isHolder) {
      onSlowPath();
      await this.#hold(found, spec, signal);
      return 'renewed';
    }
    if (this.holder !== '' && this.expiresAtMs > nowMs) return 'refused';
    const leaseTransitions = (spec.leaseTransitions ?? 0) + 1;
    await this.#hold(found, { acquireTime: this.#wallTime(), leaseTransitions }, signal);
    return 'acquired';
  }

  /**
   * client-go's `release`: another process may take the Lease at once. Does nothing if this process does not hold it.
   * @param successor the identity of the process that has the Lease from now on. It finds itself named, and renews; if
   *   it does not, others take the Lease when it expires. Default: none has it.
   * @throws as `tryAcquireOrRenew` does.
   */
  async release(signal: AbortSignal, successor = ''): Promise<void> {
    for (;;) {
      const found = await this.#read(signal);
      if (!found || !this.#isHolder) return;
      const now = this.#wallTime();
      const isGiven = successor !== '';
      const leaseTransitions = (found.spec?.leaseTransitions ?? 0) + (isGiven ? 1 : 0);
      const leaseDurationSeconds = isGiven ? this.#options.timing.leaseMs / 1000 : 1;
      try {
        const record = { holderIdentity: successor, leaseDurationSeconds, acquireTime: now, renewTime: now };
        return await this.#write(found, { ...record, leaseTransitions }, signal);
      } catch (error) {
        // A renewal that was given up may arrive between the two requests.
        if (!(error instanceof ApiError && error.code === 409)) throw error;
      }
    }
  }

  get #isHolder(): boolean {
    return this.holder === this.#options.identity;
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const found = await orUndefined(this.#request<Lease>({ path: this.#path }, signal));
    const text = found && JSON.stringify(found.spec ?? {});
    this.#lease = found;
    if (text === this.#observed.text) return found;
    // Without a Lease the duration of the last record is still known.
    const spec = found ? (found.spec ?? {}) : this.#observed.spec;
    this.#observed = { spec, text, atMs: this.#options.clock.now() };
    if (found && !this.#isHolder) this.#heldUntilMs = -Infinity;
    return found;
  }

  /** Takes or renews the Lease. */
  async #hold(base: Lease | undefined, { acquireTime, leaseTransitions = 0 }: LeaseSpec, signal: AbortSignal) {
    const { identity, timing } = this.#options;
    const leaseDurationSeconds = timing.leaseMs / 1000;
    const renewTime = this.#wallTime();
    const spec = { holderIdentity: identity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions };
    await this.#write(base, spec, signal);
  }

  /** Fails with a conflict if the Lease is no longer as `base`. */
  async #write(base: Lease | undefined, spec: LeaseSpec, signal: AbortSignal): Promise<void> {
    const { clock, lease, timing } = this.#options;
    const { apiVersion, kind } = LEASE;
    const body = base ? { ...base, spec } : { apiVersion, kind, metadata: { ...lease }, spec };
    const sentAtMs = clock.now();
    const written = await this.#request<Lease>({ method: 'PUT', path: this.#path, body }, signal);
    this.#lease = written;
    this.#observed = { spec, text: JSON.stringify(written.spec ?? {}), atMs: sentAtMs };
    this.#heldUntilMs = this.#isHolder ? sentAtMs + timing.leaseMs : -Infinity;
  }

  /** Ends in time, even if the client does not. A late answer is ignored, but the request may still take effect. */
  async #request<T>(request: ApiRequest, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    const { client, clock } = this.#options;
    const over = new AbortController();
    const limit = AbortSignal.any([signal, over.signal]);
    const late = clock.sleep(this.#requestMs, limit).then(() => {
      signal.throwIfAborted();
      throw new Error(`the apiserver did not answer within ${this.#requestMs / 1000} s`);
    });
    try {
      return await Promise.race([client.json<T>({ ...request, signal: limit }), late]);
    } finally {
      over.abort();
    }
  }

  #wallTime(): string {
    return microTime(this.#options.clock.wallNow());
  }
}
