import { type Clock, type Logger, messageOf, type Metrics } from '../../core/index.ts';
import { findLost, redisRunId } from '../cache/incarnation.ts';
import type { Informer } from '../cache/informer.ts';
import type { Redis } from '../cache/redis.ts';
import type { Controller } from '../controllers/controller.ts';
import { FLIGHT_MARGIN_MS } from '../workqueue/key-record.ts';

export interface RecoveryOptions {
  readonly redis: Redis;
  /** HASH that remembers the Redis process and the controllers which have dispatched through it. */
  readonly registryKey: string;
  readonly informers: () => readonly Informer[];
  readonly controllers: () => readonly Controller[];
  /**
   * Nothing can be in flight from before this gateway's start, whatever Redis says: true only for whoever started
   * Redis, cluster and gateway together.
   */
  readonly nothingInFlight: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/**
 * The one path by which everything lost is repaired. Each view and each queue carries an incarnation and the run_id of
 * the Redis process it was written on. Where one is missing, or written on another process, data may be gone: runs in
 * flight that nobody knows of, events applied and forgotten. So: wait until every such run is over, read the views again
 * as a diff, begin new incarnations; controllers whose incarnations changed get all their keys.
 *
 * Nothing is dispatched before the first check, nor from a lost connection to the check after it.
 */
export class Recovery {
  readonly #options: RecoveryOptions;
  /** Runs that started before this are not on record. */
  #unknownBefore = 0;
  #looked = false;
  #checking: Promise<void> | undefined;
  #connected = true;
  #connection = 0;
  #healthy = false;

  constructor(options: RecoveryOptions) {
    this.#options = options;
  }

  /** Whether the last check found, or left, everything in order. */
  get healthy(): boolean {
    return this.#healthy && this.#connected;
  }

  /** Checks every second and after each lost connection, until `signal` is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { redis, clock } = this.#options;
    const lost = (): void => {
      this.#connected = false;
      // Until the next check says otherwise: a new connection alone tells nothing about what the process behind it holds.
      this.#healthy = false;
      this.#connection += 1;
      this.#pause();
    };
    const back = (): void => {
      this.#connected = true;
    };
    redis.on('close', lost);
    redis.on('ready', back);
    while (!signal.aborted) {
      await this.check(signal);
      await clock.sleep(1000, signal);
    }
    redis.off('close', lost);
    redis.off('ready', back);
  }

  /** One check, and the repair if it finds anything; one at a time. Never rejects. */
  check(signal: AbortSignal): Promise<void> {
    this.#checking ??= this.#check(signal)
      .catch((error: unknown) => {
        this.#healthy = false;
        if (!signal.aborted)
          this.#options.logger.warn({ error: messageOf(error) }, 'check of Redis failed, trying again');
      })
      .finally(() => (this.#checking = undefined));
    return this.#checking;
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { controllers, informers, logger, metrics } = this.#options;
    const connection = this.#connection;
    const runId = await redisRunId(this.#options.redis);
    await this.#noteProcess(runId);
    const synced = informers().filter((informer) => informer.synced);
    const lostViews = new Set(
      await findLost(
        synced.map(({ view }) => view),
        runId,
      ),
    );
    const lostQueues = new Set(
      await findLost(
        controllers().map(({ queue }) => queue),
        runId,
      ),
    );
    if (lostViews.size + lostQueues.size > 0) {
      this.#pause();
      this.#healthy = false;
      const names = [...lostViews, ...lostQueues].map(({ name }) => name);
      logger.info({ parts: names }, 'reading the server again: these are new, or may have lost data');
      await this.#waitForFlights(lostQueues.size > 0 ? controllers() : [], signal);
      for (const informer of synced) {
        if (!lostViews.has(informer.view)) continue;
        // A view that this gateway has just listed for the first time is as new as it gets.
        const first = (await informer.view.state()).incarnation === undefined && this.#unknownBefore === 0;
        if (!first) await informer.relist(signal);
        await informer.view.renew(runId);
      }
      for (const { queue } of controllers()) if (lostQueues.has(queue)) await queue.renew(runId);
      metrics.count('levelhook_recoveries_total', { reason: lostViews.size > 0 ? 'view' : 'queue' });
    }
    for (const controller of controllers()) await controller.ensureInitial();
    for (const informer of informers()) informer.drainOutbox();
    await this.#register();
    // The connection broke meanwhile: what was found may be about another process. The next check decides.
    if (signal.aborted || !this.#connected || connection !== this.#connection) return;
    this.#healthy = true;
    metrics.set('levelhook_gateway_paused', {}, 0);
    for (const { queue } of controllers()) queue.resume();
  }

  /** Another Redis process than the registry's: whatever ran through the old one may be unknown to the new one. */
  async #noteProcess(runId: string): Promise<void> {
    const { redis, registryKey, clock, nothingInFlight } = this.#options;
    const known = await redis.hget(registryKey, 'runId');
    // Trap: a Redis that comes back empty while this gateway runs looks like one that was never used.
    const firstLook = !this.#looked && known === null;
    this.#looked = true;
    if (known === runId) return;
    if (!(firstLook && nothingInFlight)) this.#unknownBefore = clock.now();
    await redis.hset(registryKey, 'runId', runId);
  }

  /** Until every run that is not on record has reached its deadline. */
  async #waitForFlights(controllers: readonly Controller[], signal: AbortSignal): Promise<void> {
    const { clock, redis, registryKey } = this.#options;
    for (const controller of controllers) {
      // Its queue is gone though it has dispatched on this Redis before: only its part was lost, at some time until now.
      const dispatched = await redis.hexists(registryKey, `controller:${controller.name}`);
      const { incarnation } = await controller.queue.state();
      const since = dispatched && incarnation === undefined ? clock.now() : this.#unknownBefore;
      await clock.sleep(Math.max(0, since + controller.timeoutMs + FLIGHT_MARGIN_MS - clock.now()), signal);
    }
  }

  async #register(): Promise<void> {
    const { controllers, redis, registryKey } = this.#options;
    const names = controllers().map(({ name }) => [`controller:${name}`, '1']);
    if (names.length > 0) await redis.hset(registryKey, Object.fromEntries(names));
  }

  #pause(): void {
    this.#options.metrics.set('levelhook_gateway_paused', {}, 1);
    for (const { queue } of this.#options.controllers()) queue.pause();
  }
}
