import { z } from 'zod';
import type { Runtime } from '../../core/index.ts';
import type { QueueState } from '../controller/workqueue/records/queue-record.ts';
import type { RunningController } from '../controller/running/controller.ts';
import { loadScript, type Script } from '../../ground/redis/redis.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import type { GatewayRuns } from '../controller/workqueue/records/own-runs.ts';
import { RUN_MARGIN_MS } from '../controller/workqueue/queue-options.ts';
import type { DispatchLease, OtherRuns } from './dispatch-lease.ts';
import { LONGEST_RUN_MS } from './garbage-collection.ts';
import { CONTROLLER_FIELD, LOST_FIELD, ON_RECORD_FIELD, removalOf } from '../election/registry-fields.ts';

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

/** When unrecorded runs end at the latest: runs that answer, and runs that end with a callback (0: there are none). */
export interface UnrecordedEnd {
  readonly endMs: number;
  readonly callbackEndMs: number;
}

/**
 * A gateway's statement about its runs, in the registry. Redis may lose its last writes, but no earlier write alone, so
 * the statement holds for every data set that contains it.
 */
export interface Announcement {
  /** The Redis process that the statement is about. */
  readonly runId: string;
  /** Milliseconds of the gateways' clock. */
  readonly atMs: number;
  /** The closed queues whose runs may be missing. All other runs of the gateway are on record or over. */
  readonly except: readonly string[];
  /** Whether the gateway has ended: it began its last run before `atMs`. */
  readonly ended: boolean;
}

/** How often a gateway announces itself. */
const ANNOUNCE_MS = 10_000;
/** How long after its last announcement a gateway may begin runs. */
const BEGIN_MS = 30_000;
/**
 * A gateway has ended when its last announcement is older. The clocks of two gateways differ by less than the margin
 * over `BEGIN_MS`.
 */
const ENDED_MS = 60_000;
/** How long announcements read from the registry are reused. */
const ANSWERS_MS = 100;
const ASK_AGAIN_MS = 50;

/**
 * Finds out from the Lease and the registry which runs may be in flight without a record in the present Redis process
 * (ADR 0006). Each gateway puts its own runs back on record and announces that in the registry (`announce`). Recovery
 * waits only for the runs of gateways that have not announced it. If a gateway was killed long enough before the loss,
 * all its runs are on record; the leader writes that into the same registry (`sweep`).
 */
export class UnrecordedRuns {
  readonly #options: UnrecordedRunsOptions;
  readonly #recordControllers: Script;
  /** Gateways that may have unrecorded runs, read from the Lease when this gateway met the Redis process. */
  #others: readonly OtherRuns[] = [];
  /** Their announcements about the process, as read last. */
  #answers: ReadonlyMap<string, Announcement> = new Map();
  #askedMs = -Infinity;
  #announced: Announcement | undefined;
  #hasReported = false;
  #sweptMs = -Infinity;
  #isForgetting = false;
  /** The Redis process of the last `recordProcess`. */
  #runId: string | undefined;

  constructor(options: UnrecordedRunsOptions) {
    this.#options = options;
    this.#recordControllers = loadScript(options.location.redis, import.meta.url, 'record-controllers');
  }

  /** Whether other gateways may have started runs that were not on record when the Redis process was met. */
  get hasOthers(): boolean {
    return this.#others.length > 0;
  }

  /**
   * Takes the Lease for a Redis process, before anything is dispatched through it. If the registry names another
   * process, this one may lack records of earlier runs; the Lease says which gateways started them. The registry keeps
   * the answer for gateways that start before these runs are over.
   *
   * @param isConnected whether the connection has stayed since the process named itself. If it has not, the registry
   *   may be that of the next process, and nothing is written to it.
   */
  async recordProcess(runId: string, isConnected: () => boolean = () => true): Promise<void> {
    const { lease, location } = this.#options;
    const { redis, registryKey } = location;
    const [known, lostAt] = await redis.hmget(registryKey, 'runId', LOST_FIELD);
    if (!isConnected() || (known === runId && this.#runId === runId)) return;
    const { beforeMs, others } = await lease.take(runId);
    if (!isConnected()) return;
    // Another gateway met this process first, so all runs that began later are on record.
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
   * Records, before they run, that controllers have runs on the Redis process of the last `recordProcess`.
   * @param removals whether the record of an earlier removal stays, which holds the end of earlier runs.
   * @throws Error when the registry is about another process by now.
   */
  async recordControllers(names: readonly string[], removals: 'kept' | 'replaced'): Promise<void> {
    if (this.#runId === undefined || names.length === 0) return;
    const fields = names.map((name) => CONTROLLER_FIELD + name);
    const answer = await this.#recordControllers(
      [this.#options.location.registryKey],
      [this.#runId, removals === 'replaced' ? 1 : 0, ...fields],
    );
    if (answer === 0) throw new Error('the registry is about another Redis process');
  }

  /**
   * Announces that the runs that this gateway has started from these queues are on record in the Redis process of the
   * last `recordProcess`. A closed queue has no record of its runs until it is opened again. Called with each check.
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

  /** Records, as the leader, which gateways have ended without announcing it themselves. Called with each check. */
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

  /**
   * Runs in the background, because the apiserver may be away. The next sweep finds the gateways again that were not
   * forgotten.
   */
  async #forget(gateways: readonly string[]): Promise<void> {
    const { lease, location } = this.#options;
    this.#isForgetting = true;
    try {
      await lease.forget(gateways);
      await location.redis.hdel(location.registryKey, ...gateways.map((id) => ON_RECORD_FIELD + id));
    } catch {
      // A later check tries again.
    } finally {
      this.#isForgetting = false;
    }
  }

  async #write(gateway: string, announcement: Announcement): Promise<void> {
    const { redis, registryKey } = this.#options.location;
    await redis.hset(registryKey, ON_RECORD_FIELD + gateway, JSON.stringify(announcement));
  }

  /**
   * Waits up to `patienceMs` until all other gateways have announced that their runs are on record. Then it logs the
   * gateways without an announcement.
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
   * @param queue limits the question to one queue. Default: any queue that is not closed.
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
    // Another process was met during the request.
    if (others !== this.#others) return;
    // Each node of a cluster loses its last writes independently.
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
   * Returns when the last unrecorded run of this controller is over. A run that goes on after its 202 may take much
   * longer than others. The new incarnation grants it no more time, so it ends after the longest time that it can have
   * been given.
   */
  async endOf({
    name,
    queue,
    timeoutMs,
    callbackMs,
  }: Pick<RunningController, 'name' | 'timeoutMs' | 'callbackMs'> & {
    readonly queue: { readonly record: { state(): Promise<Pick<QueueState, 'incarnation'>> } };
  }): Promise<UnrecordedEnd> {
    const { runtime, location } = this.#options;
    const { redis, registryKey } = location;
    const dispatched = await redis.hget(registryKey, CONTROLLER_FIELD + name);
    const { incarnation } = await queue.record.state();
    // The queue is gone though the controller has dispatched on this Redis: only the queue was lost, at an unknown time
    // before now. The removal of a controller recorded the end of its last runs.
    const removal = dispatched === null ? undefined : removalOf(dispatched);
    const isLostAlone = dispatched !== null && !removal && incarnation === undefined;
    const lostMs = isLostAlone ? runtime.clock.now() : latestOf(await this.#unanswered(name));
    const sinceMs = removal && removal.endMs === undefined ? Math.max(lostMs, removal.atMs) : lostMs;
    const endMs = Math.max(sinceMs + timeoutMs + RUN_MARGIN_MS, removal?.endMs ?? 0);
    return { endMs, callbackEndMs: callbackMs === 0 ? 0 : sinceMs + callbackMs + RUN_MARGIN_MS };
  }

  /**
   * Releases the Lease. Runs of other gateways do not count, because their own claims cover them. Never rejects.
   */
  async release(): Promise<void> {
    const { lease, location, runtime, thisGateway } = this.#options;
    const { id: gateway, runs: ownRuns } = thisGateway;
    const { redis, registryKey } = location;
    const nowMs = runtime.clock.now();
    const isOver = ownRuns.inFlight(nowMs).length === 0;
    await lease.release(isOver ? 0 : nowMs);
    const last = this.#announced;
    if (redis.status !== 'ready' || !last) return;
    // Runs that go on are on record.
    const isOnRecord = !isOver && last.except.length === 0;
    const told = isOnRecord
      ? this.#write(gateway, { ...last, atMs: runtime.clock.now(), ended: true })
      : redis.hdel(registryKey, ON_RECORD_FIELD + gateway);
    await Promise.resolve(told).catch(() => {});
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
