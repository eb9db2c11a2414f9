import { z } from 'zod';
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
  readonly lease: Pick<DispatchLease, 'take' | 'release' | 'forget'>;
  readonly thisGateway: {
    /** Names this process among the gateways of the deployment. */
    readonly id: string;
    readonly runs: Pick<GatewayRuns, 'inFlight' | 'beginUntil'>;
  };
}

/** Until when runs may go on that are not on record: with an answer, and with a callback (0: none does). */
export interface UnrecordedEnd {
  readonly endMs: number;
  readonly callbackEndMs: number;
}

/**
 * What a gateway tells of its runs, in the registry. Redis loses its last writes, and never earlier ones alone, so what
 * it says holds for all data that have it.
 */
export interface Announcement {
  /** The Redis process that it is about. */
  readonly runId: string;
  /** Milliseconds of the gateways' clock. */
  readonly atMs: number;
  /** All runs of the gateway are on record there, or over, but for those of these queues, which are closed. */
  readonly except: readonly string[];
  /** The gateway has begun its last run before. */
  readonly ended: boolean;
}

/** How often a gateway announces itself. */
const ANNOUNCE_MS = 10_000;
/** A gateway begins no run when it has not announced itself for so long. */
const BEGIN_MS = 30_000;
/** A gateway that has not announced itself for so long has ended: the clocks of two gateways differ by less. */
const ENDED_MS = 60_000;
/** An answer of the registry about other gateways is good for so long. */
const ANSWERS_MS = 100;
const ASK_AGAIN_MS = 50;

/**
 * What runs may be in flight that the present Redis process has no record of: what the Lease and the registry tell (ADR
 * 0006). Each gateway puts its own runs back on record, and says so in the registry (`announce`). Only the runs of
 * gateways that have not said so are waited for. A gateway that was killed long enough before has all its runs on
 * record, which the gateway that leads notes down in the same registry (`sweep`).
 */
export class UnrecordedRuns {
  readonly #options: UnrecordedRunsOptions;
  /** Gateways of whose runs some may not be on record, as the Lease told when the process was met. */
  #others: readonly OtherRuns[] = [];
  /** What they have announced about the process, as they were asked last. */
  #answers: ReadonlyMap<string, Announcement> = new Map();
  #askedMs = -Infinity;
  #announced: Announcement | undefined;
  #hasReported = false;
  #sweptMs = -Infinity;
  #isForgetting = false;
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
    this.#answers = new Map();
    this.#askedMs = -Infinity;
    this.#announced = undefined;
    this.#hasReported = false;
    if (known !== runId) await redis.hset(registryKey, { runId, [LOST_FIELD]: beforeMs });
    this.#runId = runId;
  }

  /**
   * The runs of these queues that this gateway has started are on record in the Redis process of the last
   * `recordProcess`. A queue that is closed has no record of its runs until it is opened again. Called with each check.
   */
  async announce(queues: ReadonlySet<string>): Promise<void> {
    const { runtime, thisGateway } = this.#options;
    const { id: gateway, runs: ownRuns } = thisGateway;
    const last = this.#announced;
    const now = runtime.clock.now();
    if (this.#runId === undefined) return;
    if (last && last.except.length === 0 && now < last.atMs + ANNOUNCE_MS) return;
    const except = ownRuns.inFlight(now).filter((queue) => !queues.has(queue));
    const announcement = { runId: this.#runId, atMs: now, except, ended: false };
    await this.#write(gateway, announcement);
    this.#announced = announcement;
    ownRuns.beginUntil(now + BEGIN_MS);
  }

  /**
   * Notes down, as the gateway that leads, which gateways have ended, though they could not say so themselves. Called
   * with each check.
   */
  async sweep(): Promise<void> {
    const { location, runtime, thisGateway } = this.#options;
    const { id: gateway } = thisGateway;
    const { redis, registryKey } = location;
    const now = runtime.clock.now();
    if (now < this.#sweptMs + ANNOUNCE_MS) return;
    this.#sweptMs = now;
    const over: string[] = [];
    for (const [field, value] of Object.entries(await redis.hgetall(registryKey))) {
      const id = field.startsWith(ON_RECORD_FIELD) ? field.slice(ON_RECORD_FIELD.length) : gateway;
      if (id === gateway) continue;
      const found = parsedAnnouncement(value);
      const ageMs = now - (found?.atMs ?? 0);
      if (!found || ageMs > LONGEST_RUN_MS) over.push(id);
      else if (!found.ended && found.runId === this.#runId && found.except.length === 0 && ageMs > ENDED_MS) {
        await this.#write(id, { ...found, atMs: now, ended: true });
      }
    }
    if (over.length > 0 && !this.#isForgetting) void this.#forget(over);
  }

  /** Nothing waits for the apiserver, which may be away: those that are not forgotten now are found again. */
  async #forget(gateways: readonly string[]): Promise<void> {
    const { lease, location } = this.#options;
    this.#isForgetting = true;
    try {
      await lease.forget(gateways);
      await location.redis.hdel(location.registryKey, ...gateways.map((id) => ON_RECORD_FIELD + id));
    } catch {
      // Tried again with a later check.
    } finally {
      this.#isForgetting = false;
    }
  }

  async #write(gateway: string, announcement: Announcement): Promise<void> {
    const { redis, registryKey } = this.#options.location;
    await redis.hset(registryKey, ON_RECORD_FIELD + gateway, JSON.stringify(announcement));
  }

  /**
   * Waits until all other gateways have announced that their runs are on record, for as long as `patienceMs`. Then it
   * reports those that have not.
   */
  async untilAnswered(patienceMs: number, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    const untilMs = clock.now() + patienceMs;
    let unanswered = await this.#unanswered();
    while (unanswered.length > 0 && clock.now() < untilMs && !signal.aborted) {
      await clock.sleep(ASK_AGAIN_MS, signal);
      unanswered = await this.#unanswered();
    }
    const ageMs = clock.now() - latestOf(unanswered);
    if (this.#hasReported || signal.aborted || ageMs > LONGEST_RUN_MS) return;
    this.#hasReported = true;
    const gateways = unanswered.map(({ gateway }) => gateway);
    logger.warn(
      { seconds: Math.round(ageMs / 1000), gateways },
      'unrecorded runs of gateways that do not answer may be in flight, each controller waits for its own',
    );
  }

  /**
   * The gateways whose runs may not be on record yet.
   * @param queue of one queue. Default: of any that is not closed.
   */
  async #unanswered(queue?: string): Promise<readonly OtherRuns[]> {
    const { clock } = this.#options.runtime;
    const isOpen = ({ gateway }: OtherRuns): boolean => {
      const answer = this.#answers.get(gateway);
      return !answer || (queue !== undefined && answer.except.includes(queue));
    };
    if (this.#others.some(isOpen) && clock.now() >= this.#askedMs + ANSWERS_MS) await this.#ask();
    return this.#others.filter(isOpen);
  }

  async #ask(): Promise<void> {
    const { location, runtime } = this.#options;
    const [others, runId] = [this.#others, this.#runId];
    this.#askedMs = runtime.clock.now();
    const fields = others.map(({ gateway }) => ON_RECORD_FIELD + gateway);
    const values = await location.redis.hmget(location.registryKey, ...fields);
    // Another process was met meanwhile.
    if (others !== this.#others) return;
    // The nodes of a cluster lose their last writes each for itself.
    const { isCluster } = location.redis;
    this.#answers = new Map(
      others.flatMap(({ gateway }, at) => {
        const found = parsedAnnouncement(values[at] ?? '');
        const holds = found && (found.runId === runId || (found.ended && !isCluster));
        return holds ? [[gateway, found]] : [];
      }),
    );
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
    const lostMs = isLostAlone ? runtime.clock.now() : latestOf(await this.#unanswered(name));
    const sinceMs = removal && removal.endMs === undefined ? Math.max(lostMs, removal.atMs) : lostMs;
    const endMs = Math.max(sinceMs + timeoutMs + RUN_MARGIN_MS, removal?.endMs ?? 0);
    return { endMs, callbackEndMs: callbackMs === 0 ? 0 : sinceMs + callbackMs + RUN_MARGIN_MS };
  }

  /** Releases the Lease. Never rejects. */
  async release(): Promise<void> {
    const { lease, location, runtime, thisGateway } = this.#options;
    const { id: gateway } = thisGateway;
    const { redis, registryKey } = location;
    const isOver = await this.#isEveryRunOver().catch(() => false);
    await lease.release(isOver ? 0 : runtime.clock.now());
    const last = this.#announced;
    if (redis.status !== 'ready' || !last) return;
    // What goes on is on record.
    const isOnRecord = !isOver && last.except.length === 0;
    const told = isOnRecord
      ? this.#write(gateway, { ...last, atMs: runtime.clock.now(), ended: true })
      : redis.hdel(registryKey, ON_RECORD_FIELD + gateway);
    await Promise.resolve(told).catch(() => {});
  }

  /** Whether Redis has all records of this gateway's runs, and none of a run that may still be in flight. */
  async #isEveryRunOver(): Promise<boolean> {
    const { location, runtime, thisGateway } = this.#options;
    const { runs: ownRuns } = thisGateway;
    const { redis, registryKey } = location;
    const nowMs = runtime.clock.now();
    // What is in flight may not have been put back on record yet.
    if (ownRuns.inFlight(nowMs).length > 0) return false;
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

const announcementSchema = z.object({
  runId: z.string(),
  atMs: z.number(),
  except: z.array(z.string()),
  ended: z.boolean(),
});

function parsedAnnouncement(text: string): Announcement | undefined {
  try {
    return announcementSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
