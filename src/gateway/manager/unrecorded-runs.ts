import type { Runtime } from '../../core/index.ts';
import { redisRunId } from '../cache/incarnation.ts';
import type { RunningController } from '../controllers/controller.ts';
import type { RedisLocation } from '../redis/redis-location.ts';
import type { GatewayRuns } from '../workqueue/own-runs.ts';
import { queueKeys } from '../workqueue/queue-keys.ts';
import { RUN_MARGIN_MS } from '../workqueue/queue-options.ts';
import type { DispatchLease } from './dispatch-lease.ts';
import { LONGEST_RUN_MS } from './garbage-collection.ts';
import { CONTROLLER_FIELD, LOST_FIELD, removalOf } from './registry-fields.ts';

export interface UnrecordedRunsOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly location: RedisLocation;
  readonly lease: Pick<DispatchLease, 'take' | 'release'>;
  readonly ownRuns: Pick<GatewayRuns, 'areInFlight'>;
}

/** Until when runs may go on that are not on record: with an answer, and with a callback (0: none does). */
export interface UnrecordedEnd {
  readonly endMs: number;
  readonly callbackEndMs: number;
}

/**
 * What runs may be in flight that the present Redis process has no record of: what the Lease and the registry tell
 * (ADR 0006).
 */
export class UnrecordedRuns {
  readonly #options: UnrecordedRunsOptions;
  /** Of runs that started before this some may not be on record. */
  #unknownBefore = 0;
  #isSole = false;
  /** The Redis process that was looked at last. */
  #runId: string | undefined;

  constructor(options: UnrecordedRunsOptions) {
    this.#options = options;
  }

  /** `endOf` counts no runs that this gateway has started: it has to put them back on record. */
  get isSole(): boolean {
    return this.#isSole;
  }

  /**
   * Before anything is dispatched through a Redis process: takes the Lease for it. Another process than the registry's
   * may have no record of runs from the one before, as the Lease tells. The registry keeps the answer, for gateways
   * that start before these runs are over.
   */
  async recordProcess(runId: string): Promise<void> {
    const { lease, location, runtime } = this.#options;
    const { clock, logger } = runtime;
    const { redis, registryKey } = location;
    const [known, lostAt] = await redis.hmget(registryKey, 'runId', LOST_FIELD);
    if (known === runId && this.#runId === runId) return;
    const { beforeMs, othersBeforeMs } = await lease.take(runId);
    // Where another gateway has met this process first, it may have started runs of its own.
    this.#isSole = known !== runId && othersBeforeMs < beforeMs;
    this.#unknownBefore = known === runId ? Number(lostAt) : othersBeforeMs;
    if (known !== runId) {
      await redis.hset(registryKey, { runId, [LOST_FIELD]: beforeMs });
      const ageMs = clock.now() - this.#unknownBefore;
      if (ageMs <= LONGEST_RUN_MS) {
        const seconds = Math.round(ageMs / 1000);
        logger.warn(
          { seconds },
          'unrecorded runs that started so long ago may be in flight, each controller waits for its own',
        );
      }
    }
    this.#runId = runId;
  }

  /**
   * Returns when the last run of this controller that is not on record is over. A run that goes on after its 202 may
   * take much longer than others. It gets no more time under the new incarnation, so it ends after the longest time
   * that it can have been given.
   */
  async endOf({
    name,
    queue,
    timeoutMs,
    callbackMs,
  }: Pick<RunningController, 'name' | 'queue' | 'timeoutMs' | 'callbackMs'>): Promise<UnrecordedEnd> {
    const { runtime, location } = this.#options;
    const { redis, registryKey } = location;
    const dispatched = await redis.hget(registryKey, CONTROLLER_FIELD + name);
    const { incarnation } = await queue.state();
    // Its queue is gone though it has dispatched on this Redis before: only its part was lost, at some time until now.
    // The end of the last runs is known for a controller that was removed in order.
    const removal = dispatched === null ? undefined : removalOf(dispatched);
    const isLostAlone = dispatched !== null && !removal && incarnation === undefined;
    const lostMs = isLostAlone ? runtime.clock.now() : this.#unknownBefore;
    const sinceMs = removal && removal.endMs === undefined ? Math.max(lostMs, removal.atMs) : lostMs;
    const endMs = Math.max(sinceMs + timeoutMs + RUN_MARGIN_MS, removal?.endMs ?? 0);
    return { endMs, callbackEndMs: callbackMs === 0 ? 0 : sinceMs + callbackMs + RUN_MARGIN_MS };
  }

  /** Releases the Lease. Never rejects. */
  async release(): Promise<void> {
    const { clock } = this.#options.runtime;
    const isOver = await this.#isEveryRunOver().catch(() => false);
    await this.#options.lease.release(isOver ? this.#unknownBefore : clock.now());
  }

  /** Whether Redis has all records of this gateway's runs, and none of a run that may still be in flight. */
  async #isEveryRunOver(): Promise<boolean> {
    const { location, ownRuns, runtime } = this.#options;
    const { redis, registryKey } = location;
    const nowMs = runtime.clock.now();
    // What is in flight may not have been put back on record yet.
    if (ownRuns.areInFlight(nowMs)) return false;
    const registry = await redis.hgetall(registryKey);
    if (registry['runId'] !== this.#runId) return false;
    for (const [field, value] of Object.entries(registry)) {
      if (!field.startsWith(CONTROLLER_FIELD)) continue;
      const removal = removalOf(value);
      if (removal && (removal.endMs ?? Infinity) > nowMs) return false;
      const { inFlight } = queueKeys(location, field.slice(CONTROLLER_FIELD.length));
      if ((await redis.zcount(inFlight, nowMs, '+inf')) > 0) return false;
    }
    // Last: then one process has answered all of this.
    return (await redisRunId(redis)) === this.#runId;
  }
}
