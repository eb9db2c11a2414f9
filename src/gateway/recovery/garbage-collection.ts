import { messageOf, originOf, type Runtime, tenantOf } from '../../core/index.ts';
import { MAX_CALLBACK_SECONDS } from '../../contract/outcome-schema.ts';
import { forgetUsers } from '../informer/cache/forget-users.ts';
import { redisRunId } from '../informer/cache/incarnation.ts';
import type { Informers } from '../informer/cache/informers.ts';
import { keysWith, loadScript, type Script } from '../../ground/redis/redis.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import { type QueueKeys, queueKeys } from '../controller/workqueue/queue-keys.ts';
import { RUN_MARGIN_MS } from '../controller/workqueue/queue-options.ts';
import { GroupCommit } from '../controller/workqueue/worker/group-commit.ts';
import { goneReplicas } from '../election/replica-record.ts';
import { CONTROLLER_FIELD, type Removal, removalOf, removedValue } from '../election/registry-fields.ts';

export interface KnownControllers {
  /** The running controllers, which include those of all configured functions. */
  readonly configured: ReadonlySet<string>;
  /** The ids of all ReconcileFunctions, running or not; undefined when the list of them failed. */
  readonly declared: readonly string[] | undefined;
}

/** What the collector asks of its gateway. */
export interface GarbageCollectorOptions {
  readonly location: RedisLocation;
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  /** The UID of the ReconcileFunction with this id, as the apiserver has it now; undefined when there is none. */
  readonly liveOwner: (id: string) => Promise<string | undefined>;
}

/** How long a removal stays on record at least. */
const LATE_MARK_MS = 15_000;
/** How often the leader sweeps the registry. */
const SWEEP_MS = 10_000;
/** Queues whose keys one scan of Redis finds. */
const MOST_UNLINKED = 1000;

/** See `GarbageCollector.sweep`. */
export interface SweepOptions {
  readonly signal: AbortSignal;
  readonly leads: () => boolean;
  /** Whether a controller runs, is starting or is declared: its late data are its own. */
  readonly isThere: (name: string) => boolean;
}

/** A queue whose removal has begun. */
interface BegunRemoval {
  readonly name: string;
  readonly keys: QueueKeys;
  readonly hasData: boolean;
}

/**
 * Removes from Redis what controllers leave behind that no longer exist. The gateway that leads calls it.
 *
 * A controller's queue names its owner, the UID of the ReconcileFunction. The collector keeps a queue whose owner is
 * the object that the apiserver has now, whatever this gateway has heard: the watch of a new leader may lag behind a
 * function that was deleted and declared again. The collector removes a queue without an owner at
 * once: an earlier build began it, it was never in order, or a removal has left it.
 *
 * One field of the registry stays until the controller's last runs must be over. If the controller comes back before
 * that, the gateway waits for them, because no queue has a record of these runs any more (ADR 0006).
 */
export class GarbageCollector {
  readonly #options: GarbageCollectorOptions;
  readonly #disown: Script;
  readonly #unlinkRest: Script;
  /** Each scan reads the names of all keys of Redis, so removals that come during one share the next one. */
  readonly #unlinks: GroupCommit<QueueKeys, boolean>;

  constructor(options: GarbageCollectorOptions) {
    this.#options = options;
    const { redis } = options.location;
    this.#disown = loadScript(redis, import.meta.url, 'disown');
    this.#unlinkRest = loadScript(redis, import.meta.url, 'unlink-rest');
    this.#unlinks = new GroupCommit((queues) => this.#unlinkAll(queues), { limit: MOST_UNLINKED });
  }

  /**
   * Removes the queues and views that earlier gateways have left in Redis for controllers that no longer exist. It runs
   * once all functions have described their controllers, because a function that is only down still needs its queue. A
   * gateway without any configured function removes no data of configured functions, because the missing setting is
   * more likely a mistake. If the gateway ends in the middle, the next gateway continues. Never rejects.
   */
  async collect(informers: Pick<Informers, 'removeUnused'>, known: KnownControllers): Promise<void> {
    const { location, runtime } = this.#options;
    const { redis, registryKey } = location;
    try {
      const left: string[] = [];
      for (const [field, value] of Object.entries(await redis.hgetall(registryKey))) {
        const name = field.startsWith(CONTROLLER_FIELD) ? field.slice(CONTROLLER_FIELD.length) : undefined;
        if (name === undefined || !isGarbage(name, known)) continue;
        // Data of the queue are left when an earlier removal was broken off.
        if (removalOf(value) && (await redis.exists(keysToDisown(queueKeys(location, name)))) === 0) continue;
        left.push(name);
      }
      const removed = await this.#forgetAll(left);
      await this.#sweepNow((name) => !isGarbage(name, known));
      const isEmpty = known.configured.size === 0 && (known.declared ?? []).length === 0;
      const views = isEmpty && removed.length === 0 ? [] : await informers.removeUnused();
      if (removed.length + views.length > 0) {
        runtime.logger.info({ controllers: removed, views }, 'removed the data of removed controllers');
      }
    } catch (error) {
      const fields = { error: messageOf(error) };
      runtime.logger.warn(fields, 'the data of removed controllers could not be removed, trying again');
    }
  }

  /**
   * The tenants side by side: the questions of one to the apiserver may wait for others of its own. The data of all
   * queues of a tenant are deleted together.
   * @returns the removed ones.
   */
  async #forgetAll(names: readonly string[]): Promise<string[]> {
    const removed: string[] = [];
    const ended: PromiseSettledResult<void>[] = [];
    const complete = async (begun: BegunRemoval): Promise<void> => {
      if (await this.#complete(begun)) removed.push(begun.name);
    };
    const ofTenant = async (own: readonly string[]): Promise<void> => {
      const begun: BegunRemoval[] = [];
      try {
        for (const name of own) begun.push(...(await this.#begin(name)));
      } finally {
        ended.push(...(await Promise.allSettled(begun.map(complete))));
      }
    };
    ended.push(...(await Promise.allSettled([...Map.groupBy(names, tenantOf).values()].map(ofTenant))));
    const failed = ended.find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
    return removed;
  }

  /**
   * Removes a controller's data from Redis. Its views stay, because other controllers may need them. The queue's hash
   * goes last, so that a removal that was broken off is found and made again.
   * @param endMs when its last runs end at the latest, if this gateway has run it. They may end earlier.
   * @returns whether the data are gone; false: the present owner has them, or has begun the queue anew since.
   * @throws when Redis or the apiserver does not answer. The next call continues.
   */
  async forget(name: string, endMs?: number): Promise<boolean> {
    const [begun] = await this.#begin(name, endMs);
    return begun !== undefined && this.#complete(begun);
  }

  /** @returns none when the present owner has the data. */
  async #begin(name: string, endMs?: number): Promise<[] | [BegunRemoval]> {
    const { location, runtime, liveOwner } = this.#options;
    const { clock } = runtime;
    const { redis, registryKey } = location;
    const keys = queueKeys(location, name);
    const [known, [owner, runId]] = await Promise.all([
      redis.hget(registryKey, CONTROLLER_FIELD + name),
      redis.hmget(keys.queue, 'owner', 'runId'),
    ]);
    if (typeof owner === 'string' && owner === (await liveOwner(name))) return [];
    // In one step: once its runs are known, a gateway that has not stopped the controller yet must start no more keys.
    const begun = await this.#disown(keysToDisown(keys), [owner ?? '']);
    if (begun === null) return [];
    const [lastRun, pauseEnd, hasData] = begun as [string, string, number];
    // Runs without a record may go on until the end of the pause that recovery has set.
    const last = Math.max(Number(lastRun), Number(pauseEnd));
    const before = known === null ? undefined : removalOf(known);
    let latestMs = endMs;
    // Redis has the deadlines of all runs, unless it has lost its last writes since the queue was checked.
    const isWhole = typeof runId === 'string' && runId === (await redisRunId(redis));
    if (isWhole && (endMs !== undefined || !before || before.endMs !== undefined)) {
      // A second call, after a failure half way, finds fewer runs than the first.
      latestMs = Math.min(endMs ?? Infinity, Math.max(last, before?.endMs ?? clock.now()));
    }
    // The registry gets a controller when its queue is in order. Before that no key starts, so the only runs are those
    // that gateways have put back on record. If a removed controller came back and has not run since, the registry has
    // the end of its earlier runs already.
    if (known === null) latestMs = Math.max(last, clock.now());
    if (known === null ? hasData === 1 : latestMs !== undefined || !before) {
      const atMs = isWhole ? clock.now() : Math.max(clock.now(), last);
      const removal: Removal = { atMs, ...(latestMs === undefined ? {} : { endMs: latestMs }) };
      await redis.hset(registryKey, CONTROLLER_FIELD + name, removedValue(removal));
    }
    return [{ name, keys, hasData: hasData === 1 }];
  }

  /** @returns false when the queue is in use again. */
  async #complete({ name, keys, hasData }: BegunRemoval): Promise<boolean> {
    // A function that never had a queue must not cost a scan.
    if (hasData && !(await this.#unlinks.submit(keys))) return false;
    await removeMarks(this.#options.location, [name]);
    return (await this.#unlinkRest([keys.queue, keys.queue], [])) === 1;
  }

  /** Deletes the keys of queues, but their hashes. @returns for each of them false when it is in use again. */
  async #unlinkAll(queues: readonly QueueKeys[]): Promise<boolean[]> {
    const { location } = this.#options;
    const known = new Map<string, string>();
    for (const { prefix, queue } of queues) {
      if ((await this.#unlinkRest([queue], [])) === 1) known.set(prefix, queue);
    }
    // The keys of a single queue are found by its whole prefix, so that Redis returns no others.
    const start = queueKeys(location, '').prefix.slice(0, -1);
    const [first] = known.keys();
    if (first === undefined) return queues.map(() => false);
    for await (const found of keysWith(location.redis, known.size === 1 ? `${first}:` : start)) {
      const byPrefix = Map.groupBy(found, (key) => key.slice(0, key.indexOf('}', start.length) + 1));
      for (const [prefix, keys] of byPrefix) {
        const queue = known.get(prefix);
        if (queue === undefined) continue;
        const gone = keys.filter((key) => key !== queue);
        if ((await this.#unlinkRest([queue, ...gone], [])) === 0) known.delete(prefix);
      }
    }
    return queues.map(({ prefix }) => known.has(prefix));
  }

  /**
   * Removes the last traces of removed controllers as soon as their last runs are over, and the fields of gateways that
   * are gone. Works only while this gateway leads, until the signal is aborted. Never rejects.
   */
  async sweep({ signal, leads, isThere }: SweepOptions): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    while (!signal.aborted) {
      await clock.sleep(SWEEP_MS, signal);
      if (signal.aborted) return;
      if (!leads()) continue;
      await this.#sweepNow(isThere).catch((error: unknown) => {
        const fields = { error: messageOf(error) };
        logger.warn(fields, 'indexes and fields of removed controllers could not be removed, trying again');
      });
    }
  }

  /**
   * Removes the registry's fields of removed controllers whose runs are over, and the fields of gateways that are gone.
   * With its field a controller loses its marks in the views and the keys of its queue again, because a late wakeup or
   * request may have left some after the removal. A controller that is back keeps all of it, until its queue is in
   * order and replaces the field.
   */
  async #sweepNow(isThere: SweepOptions['isThere']): Promise<void> {
    const { location, runtime } = this.#options;
    const { redis, registryKey } = location;
    const nowMs = runtime.clock.now();
    const registry = await redis.hgetall(registryKey);
    const gone = goneReplicas(registry, nowMs);
    if (gone.length > 0) await redis.hdel(registryKey, ...gone);
    const over = Object.entries(registry).flatMap(([field, value]) => {
      const removal = field.startsWith(CONTROLLER_FIELD) ? removalOf(value) : undefined;
      if (!removal || isThere(field.slice(CONTROLLER_FIELD.length))) return [];
      const { atMs, endMs = atMs + LONGEST_RUN_MS } = removal;
      // A late wakeup may still leave a mark for some seconds.
      return Math.max(atMs + LATE_MARK_MS, endMs) <= nowMs ? [field] : [];
    });
    if (over.length === 0) return;
    const names = over.map((field) => field.slice(CONTROLLER_FIELD.length));
    await removeMarks(location, names);
    await Promise.all(
      names.map(async (name) => {
        const keys = queueKeys(location, name);
        if ((await redis.exists(keysToDisown(keys))) > 0) await this.#complete({ name, keys, hasData: true });
      }),
    );
    // A controller may have come back during a scan.
    const now = await redis.hmget(registryKey, ...over);
    const same = over.filter((field, at) => now[at] === registry[field]);
    if (same.length > 0) await redis.hdel(registryKey, ...same);
  }
}

/** The keys of the script `disown`. Each write to a queue leaves one of them. */
export function keysToDisown(keys: QueueKeys): string[] {
  const { queue, inFlight, pauseEnds, backlog, queued, debounced, timers, runs, pauses, samples, settings, rights } =
    keys;
  return [queue, inFlight, pauseEnds, backlog, queued, debounced, timers, runs, pauses, samples, settings, rights];
}

/** The longest time that a run can go on: a day with callbacks, after 15 minutes of the run itself. */
export const LONGEST_RUN_MS = (MAX_CALLBACK_SECONDS + 900) * 1000 + RUN_MARGIN_MS;

async function removeMarks({ redis, viewsKey }: RedisLocation, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  for (const prefix of await redis.smembers(viewsKey)) await forgetUsers(redis, prefix, names);
}

/** Whether this controller is no longer declared. */
export function isGarbage(id: string, { configured, declared }: KnownControllers): boolean {
  if (originOf(id) === 'declared') return declared !== undefined && !declared.includes(id);
  // A gateway without any configured function is more likely a mistake.
  return !configured.has(id) && [...configured].some((each) => originOf(each) === 'configured');
}
