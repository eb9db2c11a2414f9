import { type Checkpoint, type Clock, type Logger, messageOf, type Metrics } from '../../core/index.ts';
import { findLost, redisRunId } from '../cache/incarnation.ts';
import type { Informer } from '../cache/informer.ts';
import type { Redis } from '../cache/redis.ts';
import type { Controller } from '../controllers/controller.ts';
import { FLIGHT_MARGIN_MS } from '../workqueue/queue-options.ts';
import { CONTROLLER_FIELD, removedAtMs } from './registry-fields.ts';

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
  readonly checkpoint: Checkpoint;
}

/**
 * The one path by which everything lost is repaired. Each view and each queue carries an incarnation and the run_id of
 * the Redis process it was written on. Where one is missing, or written on another process, data may be gone: runs in
 * flight that nobody knows of, events applied and forgotten. So: wait until every such run is over, read the views again
 * as a diff, begin new incarnations; controllers whose incarnations changed get all their keys.
 *
 * Nothing is dispatched before a controller's first check, nor from a lost connection to the check after it. Where only parts are
 * lost, the controllers that do not depend on them run on.
 */
export class Recovery {
  readonly #options: RecoveryOptions;
  /** Runs that started before this are not on record. */
  #unknownBefore = 0;
  #looked = false;
  /** A Redis process that was noticed and is not yet in the registry: what it may have lost is being repaired. */
  #noticed: string | undefined;
  /** Informers whose view has been found or left in order by this gateway: what is missing there later was lost. */
  readonly #settled = new WeakSet<Informer>();
  /** Controllers that have been found in order and let run. */
  readonly #ran = new WeakSet<Controller>();
  #checking: Promise<void> = Promise.resolve();
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

  /**
   * One check, and the repair if it finds anything. Never rejects. One at a time: a call during another gets a check of
   * its own afterwards, since the one under way knows nothing of what the caller has just added.
   */
  check(signal: AbortSignal): Promise<void> {
    this.#checking = this.#checkAfter(this.#checking, signal);
    return this.#checking;
  }

  async #checkAfter(previous: Promise<void>, signal: AbortSignal): Promise<void> {
    await previous;
    if (signal.aborted) return;
    try {
      await this.#check(signal);
    } catch (error) {
      this.#healthy = false;
      this.#options.logger.warn({ error: messageOf(error) }, 'check of Redis failed, trying again');
    }
  }

  async #check(signal: AbortSignal): Promise<void> {
    const { checkpoint, logger, metrics } = this.#options;
    // As they are now: one that is added meanwhile has not been looked at, and must not be resumed.
    const controllers = [...this.#options.controllers()];
    const informers = [...this.#options.informers()];
    const connection = this.#connection;
    const runId = await redisRunId(this.#options.redis);
    await this.#noteProcess(runId);
    const synced = informers.filter((informer) => informer.synced);
    const lostViews = new Set(
      await findLost(
        synced.map(({ view }) => view),
        runId,
      ),
    );
    const lostQueues = new Set(
      await findLost(
        controllers.map(({ queue }) => queue),
        runId,
      ),
    );
    if (lostViews.size + lostQueues.size > 0) {
      const affected = controllers.filter(
        (each) => lostQueues.has(each.queue) || each.informers().some(({ view }) => lostViews.has(view)),
      );
      for (const { queue } of affected) queue.pause();
      // One that has just been added, and whose views nobody else has, concerns no other.
      if (affected.some((each) => this.#ran.has(each))) this.#markTroubled();
      const names = [...lostViews, ...lostQueues].map(({ name }) => name);
      logger.info({ parts: names }, 'reading the server again: these are new, or may have lost data');
      const unrecorded = controllers.filter(({ queue }) => lostQueues.has(queue));
      await this.#waitForFlights(unrecorded, signal);
      await this.#holdGoingOn(unrecorded);
      for (const informer of synced) {
        if (!lostViews.has(informer.view)) continue;
        await checkpoint('recovery:before-relist');
        if (!(await this.#justFilled(informer))) await informer.relist(signal);
        await checkpoint('recovery:before-renew');
        await informer.view.renew(runId);
      }
      for (const { queue } of controllers) if (lostQueues.has(queue)) await queue.renew(runId);
      metrics.count('levelhook_recoveries_total', { reason: lostViews.size > 0 ? 'view' : 'queue' });
    }
    for (const informer of synced) this.#settled.add(informer);
    for (const controller of controllers) {
      await controller.ensureInitial();
      await controller.ensureResync();
    }
    for (const informer of informers) informer.drainOutbox();
    await this.#register(runId, controllers);
    // The connection broke meanwhile: what was found may be about another process. The next check decides.
    if (signal.aborted || !this.#connected || connection !== this.#connection) return;
    this.#healthy = true;
    metrics.set('levelhook_gateway_paused', {}, 0);
    for (const controller of controllers) {
      this.#ran.add(controller);
      controller.queue.resume();
    }
  }

  #markTroubled(): void {
    this.#healthy = false;
    this.#options.metrics.set('levelhook_gateway_paused', {}, 1);
  }

  /** Another Redis process than the registry's: whatever ran through the old one may be unknown to the new one. */
  async #noteProcess(runId: string): Promise<void> {
    const { redis, registryKey, clock, nothingInFlight } = this.#options;
    const known = await redis.hget(registryKey, 'runId');
    const first = !this.#looked;
    this.#looked = true;
    if (known === runId || this.#noticed === runId) return;
    // A registry that was there at an earlier look and is gone now was flushed, whatever was promised for the start.
    if (!(first && known === null && nothingInFlight)) this.#unknownBefore = clock.now();
    // Into the registry only once all is repaired: a gateway that starts before must notice it too.
    this.#noticed = runId;
  }

  /**
   * A view that this gateway has filled from nothing, on this very Redis process, and that is still there: as new as it
   * gets, so it need not be read again.
   */
  async #justFilled(informer: Informer): Promise<boolean> {
    if (!informer.filledFromNothing || this.#settled.has(informer) || this.#connection > 0) return false;
    const { version, incarnation } = await informer.view.state();
    return version !== undefined && incarnation === undefined;
  }

  /**
   * Until every run that is not on record has reached its deadline. One that has been added while the others run keeps none of
   * them waiting: its own keys wait.
   */
  async #waitForFlights(controllers: readonly Controller[], signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (const controller of controllers) {
      const untilMs = (await this.#unknownSince(controller)) + controller.timeoutMs + FLIGHT_MARGIN_MS;
      if (untilMs <= clock.now()) continue;
      if (this.healthy) await controller.queue.hold('breaker', untilMs);
      else await clock.sleep(untilMs - clock.now(), signal);
    }
  }

  /**
   * Runs that go on after their 202 may take much longer. They are given no more time under the new incarnation, so each
   * is over after the longest that it can have been given; until then only the keys of its own controller wait.
   */
  async #holdGoingOn(controllers: readonly Controller[]): Promise<void> {
    const { clock, logger } = this.#options;
    for (const controller of controllers) {
      if (controller.callbackMs === 0) continue;
      const untilMs = (await this.#unknownSince(controller)) + controller.callbackMs + FLIGHT_MARGIN_MS;
      if (untilMs <= clock.now()) continue;
      await controller.queue.hold('breaker', untilMs);
      const until = new Date(untilMs).toISOString();
      logger.warn({ controller: controller.name, until }, 'its keys wait: runs of which nothing is known may go on');
    }
  }

  /** Runs of this controller that started before may be going on without being on record. */
  async #unknownSince(controller: Controller): Promise<number> {
    const { clock, redis, registryKey } = this.#options;
    // Its queue is gone though it has dispatched on this Redis before: only its part was lost, at some time until now.
    const dispatched = await redis.hget(registryKey, CONTROLLER_FIELD + controller.name);
    const { incarnation } = await controller.queue.state();
    if (dispatched === null || incarnation !== undefined) return this.#unknownBefore;
    // Of one that was removed in order no run began after that.
    return Math.max(removedAtMs(dispatched) ?? clock.now(), this.#unknownBefore);
  }

  async #register(runId: string, controllers: readonly Controller[]): Promise<void> {
    const { redis, registryKey } = this.#options;
    const names = controllers.map(({ name }) => [CONTROLLER_FIELD + name, '1']);
    await redis.hset(registryKey, { runId, ...Object.fromEntries(names) });
    this.#noticed = undefined;
  }

  #pause(): void {
    this.#markTroubled();
    for (const { queue } of this.#options.controllers()) queue.pause();
  }
}
