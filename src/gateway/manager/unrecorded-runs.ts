import type { Runtime } from '../../core/index.ts';
import { redisRunId } from '../cache/incarnation.ts';
import type { RunningController } from '../controllers/controller.ts';
import type { RedisLocation } from '../redis/redis-location.ts';
import type { GatewayRuns } from '../workqueue/own-runs.ts';
import { queueKeys } from '../workqueue/queue-keys.ts';
import { RUN_MARGIN_MS } from '../workqueue/queue-options.ts';
import type { DispatchLease, OtherRuns } from './dispatch-lease.ts';
import { LONGEST_RUN_MS } from './garbage-collection.ts';
import { CONTROLLER_FIELD, LOST_FIELD, ON_RECORD_FIELD, removalOf } from './registry-fields.ts';

export interface UnrecordedRunsOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly location: RedisLocation;
  readonly lease: Pick<DispatchLease, 'take' | 'release'>;
  readonly ownRuns: Pick<GatewayRuns, 'areInFlight'>;
  /** Names this process among the gateways of the deployment. */
  readonly gateway: string;
}

/** Until when runs may go on that are not on record: with an answer, and with a callback (0: none does). */
export interface UnrecordedEnd {
  readonly endMs: number;
  readonly callbackEndMs: number;
}

/** An answer of the registry about other gateways is good for so long. */
const ANSWERS_MS = 100;
const ASK_AGAIN_MS = 50;

/**
 * What runs may be in flight that the present Redis process has no record of: what the Lease and the registry tell
 * (ADR 0006). Each gateway puts its own runs back on record, and says so in the registry (`announce`). Only the runs of
 * gateways that have not said so are waited for.
 */
export class UnrecordedRuns {
  readonly #options: UnrecordedRunsOptions;
  /** Gateways of whose runs some may not be on record, as the Lease told when the process was met. */
  #others: readonly OtherRuns[] = [];
  /** Those of them that had not announced themselves, when they were asked about last. */
  #unanswered: readonly OtherRuns[] = [];
  #askedMs = -Infinity;
  #hasAnnounced = false;
  #hasReported = false;
  /** The Redis process that was looked at last. */
  #runId: string | undefined;

  constructor(options: UnrecordedRunsOptions) {
    this.#options = options;
  }

  /** Whether other gateways may have started runs that were not on record when the Redis process was met. */
  get hasOthers(): boolean {
    return this.#others.length > 0;
  }

  /**
   * Before anything is dispatched through a Redis process: takes the Lease for it. Another process than the registry's
   * may have no record of runs from the one before, as the Lease tells. The registry keeps the answer, for gateways
   * that start before these runs are over.
   */
  async recordProcess(runId: string): Promise<void> {
    const { lease, location } = this.#options;
    const { redis, registryKey } = location;
    const [known, lostAt] = await redis.hmget(registryKey, 'runId', LOST_FIELD);
    if (known === runId && this.#runId === runId) return;
    const { beforeMs, others } = await lease.take(runId);
    // Where another gateway has met this process first, all that began later are on record.
    const latestMs = known === runId ? Number(lostAt) : Infinity;
    this.#others = others.map((each) => ({ ...each, beforeMs: Math.min(each.beforeMs, latestMs) }));
    this.#unanswered = this.#others;
    this.#askedMs = -Infinity;
    [this.#hasAnnounced, this.#hasReported] = [false, false];
    if (known !== runId) await redis.hset(registryKey, { runId, [LOST_FIELD]: beforeMs });
    this.#runId = runId;
  }

  /**
   * The runs of these queues that this gateway has started are on record in the Redis process of the last
   * `recordProcess`. A queue that is closed has no record of its runs until it is opened again.
   */
  async announce(queues: ReadonlySet<string>): Promise<void> {
    const { gateway, location, ownRuns, runtime } = this.#options;
    if (this.#hasAnnounced || this.#runId === undefined) return;
    if (ownRuns.areInFlight(runtime.clock.now(), queues)) return;
    await location.redis.hset(location.registryKey, ON_RECORD_FIELD + gateway, this.#runId);
    this.#hasAnnounced = true;
  }

  /**
   * Waits until all other gateways have announced that their runs are on record, for as long as `patienceMs`. Then it
   * reports those that have not.
   */
  async untilAnswered(patienceMs: number, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    const untilMs = clock.now() + patienceMs;
    while ((await this.#ask()).length > 0 && clock.now() < untilMs && !signal.aborted) {
      await clock.sleep(ASK_AGAIN_MS, signal);
    }
    const ageMs = clock.now() - latestOf(this.#unanswered);
    if (this.#hasReported || signal.aborted || ageMs > LONGEST_RUN_MS) return;
    this.#hasReported = true;
    const gateways = this.#unanswered.map(({ gateway }) => gateway);
    logger.warn(
      { seconds: Math.round(ageMs / 1000), gateways },
      'unrecorded runs of gateways that do not answer may be in flight, each controller waits for its own',
    );
  }

  /** The gateways whose runs may not be on record yet. */
  async #ask(): Promise<readonly OtherRuns[]> {
    const { location, runtime } = this.#options;
    const asked = this.#unanswered;
    if (asked.length === 0 || runtime.clock.now() < this.#askedMs + ANSWERS_MS) return asked;
    this.#askedMs = runtime.clock.now();
    const runId = this.#runId;
    const fields = asked.map(({ gateway }) => ON_RECORD_FIELD + gateway);
    const answers = await location.redis.hmget(location.registryKey, ...fields);
    // Another process was met meanwhile.
    if (asked !== this.#unanswered) return this.#unanswered;
    this.#unanswered = asked.filter((_, at) => answers[at] !== runId);
    return this.#unanswered;
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
    const lostMs = isLostAlone ? runtime.clock.now() : latestOf(await this.#ask());
    const sinceMs = removal && removal.endMs === undefined ? Math.max(lostMs, removal.atMs) : lostMs;
    const endMs = Math.max(sinceMs + timeoutMs + RUN_MARGIN_MS, removal?.endMs ?? 0);
    return { endMs, callbackEndMs: callbackMs === 0 ? 0 : sinceMs + callbackMs + RUN_MARGIN_MS };
  }

  /** Releases the Lease. Never rejects. */
  async release(): Promise<void> {
    const { gateway, lease, location, runtime } = this.#options;
    const isOver = await this.#isEveryRunOver().catch(() => false);
    await lease.release(isOver ? 0 : runtime.clock.now());
    if (location.redis.status !== 'ready') return;
    await location.redis.hdel(location.registryKey, ON_RECORD_FIELD + gateway).catch(() => {});
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

/** 0: there are none. */
function latestOf(others: readonly OtherRuns[]): number {
  return Math.max(0, ...others.map(({ beforeMs }) => beforeMs));
}
