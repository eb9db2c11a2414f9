import { type Clock, messageOf, type Runtime, originOf } from '../../core/index.ts';
import { MAX_CALLBACK_SECONDS } from '../../contract/outcome-schema.ts';
import { forgetUsers } from '../informer/cache/forget-users.ts';
import { redisRunId } from '../informer/cache/incarnation.ts';
import type { Informers } from '../informer/cache/informers.ts';
import { unlinkAll } from '../../ground/redis/redis.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import { queueKeys } from '../controller/workqueue/queue-keys.ts';
import { RUN_MARGIN_MS } from '../controller/workqueue/queue-options.ts';
import { goneReplicas } from '../election/replica-record.ts';
import { CONTROLLER_FIELD, type Removal, removalOf, removedValue } from '../election/registry-fields.ts';

export interface KnownControllers {
  /** The running controllers, which include those of all configured functions. */
  readonly configured: ReadonlySet<string>;
  /** The ids of all ReconcileFunctions, running or not; undefined when the list of them failed. */
  readonly declared: readonly string[] | undefined;
}

/**
 * Deletes the queues and views that earlier gateways have left in Redis for controllers that no longer exist. It runs
 * once all functions have described their controllers, because a function that is only down still needs its queue. A
 * gateway without any configured function deletes no data of configured functions, because the missing setting is more
 * likely a mistake.
 *
 * One field of the registry stays until the controller's last runs must be over. If the controller comes back before
 * that, the gateway waits for them, because no queue has a record of these runs any more (ADR 0006). If the gateway
 * ends in the middle, the next gateway continues.
 */
export async function collectGarbage(
  location: RedisLocation,
  { clock, logger }: Pick<Runtime, 'clock' | 'logger'>,
  informers: Pick<Informers, 'removeUnused'>,
  known: KnownControllers,
): Promise<void> {
  const { redis, registryKey } = location;
  try {
    const removed: string[] = [];
    for (const [field, value] of Object.entries(await redis.hgetall(registryKey))) {
      const name = field.startsWith(CONTROLLER_FIELD) ? field.slice(CONTROLLER_FIELD.length) : undefined;
      if (name === undefined || removalOf(value) || !isGarbage(name, known)) continue;
      await forgetController(location, clock, name);
      removed.push(name);
    }
    await sweep(location, clock);
    const isEmpty = known.configured.size === 0 && (known.declared ?? []).length === 0;
    const views = isEmpty && removed.length === 0 ? [] : await informers.removeUnused();
    if (removed.length + views.length > 0) {
      logger.info({ controllers: removed, views }, 'removed the data of removed controllers');
    }
  } catch (error) {
    logger.warn({ error: messageOf(error) }, 'the data of removed controllers could not be removed, trying again');
  }
}

/**
 * Removes a controller's data from Redis. Its views stay, because other controllers may need them.
 * @param endMs when its last runs end at the latest, if this gateway has run it. They may end earlier.
 */
export async function forgetController(
  location: RedisLocation,
  clock: Clock,
  name: string,
  endMs?: number,
): Promise<void> {
  const { redis, registryKey } = location;
  const keys = queueKeys(location, name);
  const [known, runId] = await Promise.all([
    redis.hget(registryKey, CONTROLLER_FIELD + name),
    redis.hget(keys.queue, 'runId'),
  ]);
  // In one transaction: once its runs are known, a gateway that has not stopped the controller yet must start no more
  // keys.
  const both = await redis.multi().zrevrange(keys.inFlight, 0, 0, 'WITHSCORES').unlink(keys.backlog).exec();
  const [error, inFlight] = both?.[0] ?? [new Error('Redis has not executed a transaction')];
  if (error) throw error;
  await unlinkAll(redis, keys.recordPrefix);
  // Redis has the deadlines of all runs, unless it has lost its last writes since the queue was checked.
  if (endMs !== undefined && runId === (await redisRunId(redis))) {
    const [, last = '0'] = (inFlight ?? []) as string[];
    // A second call, after a failure half way, finds fewer runs than the first.
    endMs = Math.min(endMs, Math.max(Number(last), (known !== null && removalOf(known)?.endMs) || clock.now()));
  }
  // A controller that has never dispatched has no runs. If a removed controller came back and has not run since, the
  // end of its earlier runs is already recorded.
  if (known !== null && (endMs !== undefined || !removalOf(known))) {
    const removal: Removal = { atMs: clock.now(), ...(endMs === undefined ? {} : { endMs }) };
    await redis.hset(registryKey, CONTROLLER_FIELD + name, removedValue(removal));
  }
  await unlinkAll(redis, `${keys.prefix}:`);
  await removeMarks(location, [name]);
}

/** How long a removal stays on record at least. */
const LATE_MARK_MS = 15_000;
/** How often the leader sweeps the registry. */
const SWEEP_MS = 10_000;

/**
 * Removes the last traces of removed controllers as soon as their last runs are over, and the fields of gateways that
 * are gone. Works only while this gateway leads, until the signal is aborted. Never rejects.
 */
export async function sweepRegistry(
  location: RedisLocation,
  { clock, logger }: Pick<Runtime, 'clock' | 'logger'>,
  { signal, leads }: { readonly signal: AbortSignal; readonly leads: () => boolean },
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(SWEEP_MS, signal);
    if (signal.aborted) return;
    if (!leads()) continue;
    await sweep(location, clock).catch((error: unknown) => {
      logger.warn(
        { error: messageOf(error) },
        'indexes and fields of removed controllers could not be removed, trying again',
      );
    });
  }
}

/** The longest time that a run can go on: a day with callbacks, after 15 minutes of the run itself. */
export const LONGEST_RUN_MS = (MAX_CALLBACK_SECONDS + 900) * 1000 + RUN_MARGIN_MS;

/**
 * Removes the marks of removed controllers from the views, the registry's fields of controllers whose runs are over,
 * and the fields of gateways that are gone. Each sweep covers all removed controllers again, because a late wakeup may
 * have left a mark after the removal.
 */
async function sweep(location: RedisLocation, clock: Clock): Promise<void> {
  const { redis, registryKey } = location;
  const removed: { field: string; endMs: number }[] = [];
  const registry = await redis.hgetall(registryKey);
  const gone = goneReplicas(registry, clock.now());
  if (gone.length > 0) await redis.hdel(registryKey, ...gone);
  for (const [field, value] of Object.entries(registry)) {
    const removal = field.startsWith(CONTROLLER_FIELD) ? removalOf(value) : undefined;
    // A late wakeup may still leave a mark for some seconds.
    if (removal)
      removed.push({
        field,
        endMs: Math.max(removal.atMs + LATE_MARK_MS, removal.endMs ?? removal.atMs + LONGEST_RUN_MS),
      });
  }
  await removeMarks(
    location,
    removed.map(({ field }) => field.slice(CONTROLLER_FIELD.length)),
  );
  for (const { field, endMs } of removed) if (endMs <= clock.now()) await redis.hdel(registryKey, field);
}

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
