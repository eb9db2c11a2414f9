import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { boundedText, formatObjectKey, messageOf, resourcePath, type Runtime } from '../../core/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { ChangeWatch } from '../../ground/apiserver/change-watch.ts';
import { checkLeaseTiming, JITTER_FACTOR, type LeaseKey, type LeaseTiming } from '../../ground/config/lease.ts';
import { LEASE } from './lease.ts';
import { type Attempt, LeaseLock } from './lease-lock.ts';

export interface LeaderElectionOptions {
  /** Its `clock.now()` must be monotonic, and must not be set while the election runs. */
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  /** Without flow control: a renewal must not wait for other requests. */
  readonly client: Pick<ApiClient, 'json' | 'stream'>;
  readonly lease: LeaseKey;
  readonly timing: LeaseTiming;
  /** From 0 to 1, for the jitter of followers. Default: `Math.random`. */
  readonly random?: () => number;
}

export interface LeaderCallbacks {
  /**
   * The work of the leader: called at the start of each leadership, never twice at once. `signal` is aborted when the
   * leadership ends, and the promise must then settle soon: until then this process does not stand for election again,
   * and at a stop the Lease is not released. If it settles earlier, the leader gives up: the Lease goes
   * to the process whose identity the promise resolves with, or is released if there is none, and this process stands
   * again after a retry period.
   */
  onLead(signal: AbortSignal): Promise<string | undefined>;
  /** Another process leads, as the Lease shows. Not called again while the same process leads. Must not throw. */
  onFollow?(leader: string): void;
  /**
   * Whether this process could do the work of a leader now. Asked before each attempt to take the Lease; while it is
   * false this process leaves the Lease to others, even a Lease that still names this process. Must not throw. Default:
   * it could.
   */
  mayStand?(): Promise<boolean>;
}

/** Of an error, in `/readyz`. */
const MAX_REASON = 300;
/** For the requests of a release. */
const RELEASE_MS = 3000;

/**
 * Elects one leader among the processes that name the same Lease, by client-go's rules: see `LeaseLock` for the record.
 *
 * - A leader renews the Lease every retry period. If it has not renewed it for `renewMs`, counted from the moment at
 *   which it sent the last successful renewal, it stops leading. Others can take the Lease after `leaseMs` at the
 *   earliest. It stops at once if the Lease was another's, released or deleted, even for a moment.
 * - A follower tries every 1 to 2.2 retry periods, when the Lease expires, and when a watch of the Lease shows an
 *   event. So it takes a released Lease after one round trip, and that of a dead leader `leaseMs` after it has seen the
 *   last renewal. client-go has no watch, and needs up to 2.2 retry periods more.
 * - An attempt that fails (a conflict, no right, no answer) changes nothing, and is repeated after the retry period.
 *
 * After a loss this process goes on as a follower and stands for election again. A client-go process exits instead,
 * because a part of it may still act as leader. Here each leadership writes its own writer ID into the views, and Redis
 * refuses writes under an earlier one, so late work of a former leadership changes nothing.
 */
export class LeaderElection {
  /** The `holderIdentity` of this process: random, with the host's name for people. */
  readonly identity = `${hostname()}_${randomUUID()}`;
  readonly #options: LeaderElectionOptions;
  /** The Lease, as `namespace/name`: also the `name` of client-go's metrics. */
  readonly name: string;
  readonly #lock: LeaseLock;
  readonly #watch: ChangeWatch;
  readonly #random: () => number;
  #leadingUntilMs = -Infinity;
  #leader = '';
  /** Whether this process looks at the Lease at present: while it may not stand, it does not. */
  #mayStand = false;
  /** Of the last attempt; undefined when it has succeeded. */
  #lastError: string | undefined;

  /** @throws UserError when the times contradict each other. */
  constructor(options: LeaderElectionOptions) {
    const { client, lease, runtime, timing } = options;
    checkLeaseTiming(timing, (time) => time);
    this.#options = options;
    this.name = formatObjectKey(lease);
    this.#random = options.random ?? Math.random;
    const { clock, metrics } = runtime;
    const onSlowPath = (): void => metrics.count('leader_election_slowpath_total', { name: this.name });
    this.#lock = new LeaseLock({ client, clock, lease, timing, identity: this.identity, onSlowPath });
    this.#watch = new ChangeWatch({
      runtime,
      client,
      path: resourcePath(LEASE, { namespace: lease.namespace }),
      query: { fieldSelector: `metadata.name=${lease.name}` },
      retryMs: timing.retryMs,
      hint: 'the Lease cannot be watched: a released Lease is taken at the next attempt, and not at once',
    });
  }

  /**
   * Whether this process leads now, by the clock: no timer has to run before. After a freeze it is false at once, while
   * the signal of `onLead` may need a turn of the event loop. It never becomes true again within one leadership.
   */
  isLeading(): boolean {
    return this.#options.runtime.clock.now() < this.#leadingUntilMs;
  }

  /**
   * Why no leader has been seen since this process started, such as a missing right; undefined once a leader has been
   * seen. An apiserver that stops answering later makes no gateway unready: it still serves the cache.
   */
  notReady(): string | undefined {
    if (this.leader !== '' || this.isLeading()) return undefined;
    return `no gateway has been seen to lead by the Lease ${this.name}${this.#lastReason}`;
  }

  /**
   * Why no gateway leads although a leader has been seen: the Lease has expired by this process's clock, and this
   * process could not take it, such as while the apiserver is away. Undefined while a gateway leads, and while this
   * process may not stand.
   */
  get warning(): string | undefined {
    const nowMs = this.#options.runtime.clock.now();
    const { expiresAtMs, observedAtMs } = this.#lock;
    if (!this.#mayStand || this.leader === '' || this.isLeading() || nowMs < expiresAtMs) return undefined;
    const seconds = Math.round((nowMs - observedAtMs) / 1000);
    return `no gateway has renewed the Lease ${this.name} for ${seconds} s${this.#lastReason}`;
  }

  get #lastReason(): string {
    return this.#lastError === undefined ? '' : ` (${boundedText(this.#lastError, MAX_REASON)})`;
  }

  /** The identity of the leader that was seen last; empty when there is none. */
  get leader(): string {
    return this.#lock.holder;
  }

  /**
   * Stands for election until `stop` is aborted. Then it ends the leadership, waits for `onLead`, and releases the
   * Lease, unless `onLead` takes longer than the leadership could have lasted. Never rejects. Call it once.
   */
  async run(callbacks: LeaderCallbacks, stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      if (await this.#acquire(callbacks, stop)) await this.#lead(callbacks, stop);
    }
  }

  /** Follows until this process leads (true) or `stop` is aborted (false). */
  async #acquire(callbacks: LeaderCallbacks, stop: AbortSignal): Promise<boolean> {
    const { clock } = this.#options.runtime;
    let changed = new AbortController();
    const over = new AbortController();
    // It ends by itself: an attempt or a leadership does not wait for it.
    void this.#watch.run(() => changed.abort(), AbortSignal.any([stop, over.signal]));
    try {
      for (;;) {
        // Before the attempt: a change during it is followed by another attempt.
        changed = new AbortController();
        this.#mayStand = (await callbacks.mayStand?.()) ?? true;
        const attempt = this.#mayStand ? await this.#attempt(stop) : undefined;
        if (stop.aborted) {
          // An attempt that was cut off, too, may have taken the Lease.
          if (attempt !== 'refused') await this.#release();
          return false;
        }
        if (attempt === 'acquired' || attempt === 'renewed') {
          this.#leadingUntilMs = this.#lock.observedAtMs + this.#options.timing.renewMs;
          // Unless the answer came too late.
          if (this.isLeading()) return true;
          continue;
        }
        if (this.leader !== this.#leader && this.leader !== '') {
          this.#leader = this.leader;
          this.#log('following', { leader: this.leader });
          callbacks.onFollow?.(this.leader);
        }
        await clock.sleep(this.#followerSleepMs(attempt), AbortSignal.any([stop, changed.signal]));
        // Nothing is under way that could have taken the Lease, so a stop of a follower waits for no apiserver.
        if (stop.aborted && attempt === 'refused') return false;
      }
    } finally {
      over.abort();
    }
  }

  #followerSleepMs(attempt: Attempt | undefined): number {
    const jitteredMs = this.#options.timing.retryMs * (1 + this.#random() * JITTER_FACTOR);
    const expiresInMs = this.#lock.expiresAtMs - this.#options.runtime.clock.now();
    // A timer may be early by a part of a millisecond.
    return attempt === 'refused' && expiresInMs > 0 ? Math.min(jitteredMs, expiresInMs + 1) : jitteredMs;
  }

  async #lead(callbacks: LeaderCallbacks, stop: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    this.#leader = this.identity;
    this.#setMetric(1);
    this.#log('leading', {});
    const leadership = new AbortController();
    const workEnded = new AbortController();
    let successor: string | undefined;
    const work = (async () => {
      successor = await callbacks.onLead(leadership.signal);
    })()
      .catch((error: unknown) => {
        logger.error({ lease: this.name, error: messageOf(error) }, 'the work of the leader failed');
      })
      .finally(() => workEnded.abort());

    const reason = await this.#renewUntilLost(AbortSignal.any([stop, workEnded.signal]));
    const untilMs = this.#leadingUntilMs;
    const gaveUp = workEnded.signal.aborted && !stop.aborted && reason === undefined;
    this.#leadingUntilMs = -Infinity;
    leadership.abort();
    this.#setMetric(0);
    this.#log('no longer leading', { reason: reason ?? (gaveUp ? 'the work of the leader ended' : 'stopping') });

    await Promise.race([work, aborted(stop)]);
    const leftMs = Math.max(0, untilMs - clock.now());
    if (stop.aborted) await Promise.race([work, clock.sleep(leftMs, workEnded.signal)]);
    if (workEnded.signal.aborted && (stop.aborted || gaveUp)) await this.#release(gaveUp ? successor : undefined);
    if (gaveUp) await clock.sleep(this.#followerSleepMs(undefined), stop);
  }

  /** @returns why the Lease was lost; undefined when `ended` was aborted before. */
  async #renewUntilLost(ended: AbortSignal): Promise<string | undefined> {
    const { runtime, timing } = this.#options;
    const { clock } = runtime;
    for (;;) {
      const leftMs = (): number => Math.max(0, this.#leadingUntilMs - clock.now());
      await clock.sleep(Math.min(timing.retryMs, leftMs()), ended);
      if (ended.aborted) return undefined;
      if (!this.isLeading()) break;
      const limit = new AbortController();
      const over = new AbortController();
      void clock.sleep(leftMs(), over.signal).then(() => limit.abort(new Error('the time to renew is over')));
      const attempt = await this.#attempt(AbortSignal.any([ended, limit.signal]));
      over.abort();
      if (ended.aborted) return undefined;
      if (attempt === 'acquired') return 'the Lease was released or deleted';
      if (attempt === 'refused') return `${this.leader} has the Lease`;
      // An answer after the time to renew comes too late: this process has stopped leading.
      if (!this.isLeading()) break;
      if (attempt === 'renewed') this.#leadingUntilMs = this.#lock.observedAtMs + timing.renewMs;
    }
    return `the Lease could not be renewed for ${timing.renewMs / 1000} s`;
  }

  /** @returns undefined when the result is not known. */
  async #attempt(signal: AbortSignal): Promise<Attempt | undefined> {
    // Not only when it changes: the series may have been deleted with a controller of that name.
    this.#setMetric(this.isLeading() ? 1 : 0);
    try {
      const attempt = await this.#lock.tryAcquireOrRenew(signal);
      this.#lastError = undefined;
      return attempt;
    } catch (error) {
      if (signal.aborted) return undefined;
      if (this.#lastError === undefined) {
        this.#options.runtime.logger.warn(
          { lease: this.name, error: messageOf(error) },
          'the Lease could not be read or written, trying again',
        );
      }
      this.#lastError = messageOf(error);
      return undefined;
    }
  }

  async #release(successor?: string): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    const limit = new AbortController();
    const over = new AbortController();
    void clock
      .sleep(RELEASE_MS, over.signal)
      .then(() => limit.abort(new Error('the apiserver did not answer in time')));
    try {
      await this.#lock.release(limit.signal, successor);
    } catch (error) {
      logger.warn({ lease: this.name, error: messageOf(error) }, 'the Lease could not be released: it will expire');
    } finally {
      over.abort();
    }
  }

  #setMetric(value: 0 | 1): void {
    this.#options.runtime.metrics.set('leader_election_master_status', { name: this.name }, value);
  }

  #log(message: string, fields: Readonly<Record<string, string>>): void {
    this.#options.runtime.logger.info({ lease: this.name, identity: this.identity, ...fields }, message);
  }
}

/** Resolves when the signal is aborted. */
function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
