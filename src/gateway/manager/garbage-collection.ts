import { type Clock, messageOf, type Runtime, originOf } from '../../core/index.ts';
import { MAX_CALLBACK_SECONDS } from '../../contract/outcome-schema.ts';
import { forgetUsers } from '../cache/forget-users.ts';
import { redisRunId } from '../cache/incarnation.ts';
import type { Informers } from '../cache/informers.ts';
import { unlinkAll } from '../redis/redis.ts';
import type { RedisLocation } from '../redis/redis-location.ts';
import { queueKeys } from '../workqueue/queue-keys.ts';
import { RUN_MARGIN_MS } from '../workqueue/queue-options.ts';
import { goneReplicas } from './replica-record.ts';
import { CONTROLLER_FIELD, type Removal, removalOf, removedValue } from './registry-fields.ts';

export interface KnownControllers {
  /** Those that run, and so all of the configured functions. */
  readonly configured: ReadonlySet<string>;
  /** The ids of all ReconcileFunctions, whether or not they run; undefined when the cluster did not tell. */
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
 * Removes what Redis holds for one controller but its views, which others may need.
 * @param endMs when its last runs are over at the latest, if this gateway has run it. They may be over sooner.
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
  // Together: a gateway that has not stopped the controller yet starts no key any more once its runs are known.
  const both = await redis.multi().zrevrange(keys.inFlight, 0, 0, 'WITHSCORES').unlink(keys.backlog).exec();
  const [error, inFlight] = both?.[0] ?? [new Error('Redis has not executed a transaction')];
  if (error) throw error;
  await unlinkAll(redis, keys.recordPrefix);
  // Redis has the deadlines of all runs, unless it has lost its last writes since the queue was looked at.
  if (endMs !== undefined && runId === (await redisRunId(redis))) {
    const [, last = '0'] = (inFlight ?? []) as string[];
    // Called again, after it failed half way, it finds fewer runs than before.
    endMs = Math.min(endMs, Math.max(Number(last), (known !== null && removalOf(known)?.endMs) || clock.now()));
  }
  // A controller that has never dispatched has no run to wait for. Of one that has come back and has not run the end of
  // the runs before is known.
  if (known !== null && (endMs !== undefined || !removalOf(known))) {
    const removal: Removal = { atMs: clock.now(), ...(endMs === undefined ? {} : { endMs }) };
    await redis.hset(registryKey, CONTROLLER_FIELD + name, removedValue(removal));
  }
  await unlinkAll(redis, `${keys.prefix}:`);
  await removeMarks(location, [name]);
}

/** A removal stays known for so long at least. */
const LATE_MARK_MS = 15_000;
/** How soon what removed controllers have left is looked for again. */
const SWEEP_MS = 10_000;

/**
 * Removes the last traces of removed controllers as soon as their last runs are over, and those of gateways that are
 * gone, while this gateway leads, until the signal is aborted. Never rejects.
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

/** The longest time for which a run can go on: a day by callbacks, and the 15 minutes of the run before. */
export const LONGEST_RUN_MS = (MAX_CALLBACK_SECONDS + 900) * 1000 + RUN_MARGIN_MS;

/**
 * Removes what views hold of removed controllers, the registry's fields of those whose runs are over, and the fields of
 * gateways that are gone. Of all of
 * them, each time: a wakeup that was on its way may have left a mark behind the removal.
 */
async function sweep(location: RedisLocation, clock: Clock): Promise<void> {
  const { redis, registryKey } = location;
  const removed: { field: string; endMs: number }[] = [];
  const registry = await redis.hgetall(registryKey);
  const gone = goneReplicas(registry, clock.now());
  if (gone.length > 0) await redis.hdel(registryKey, ...gone);
  for (const [field, value] of Object.entries(registry)) {
    const removal = field.startsWith(CONTROLLER_FIELD) ? removalOf(value) : undefined;
    // A wakeup that was on its way may leave a mark for some seconds.
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
  // None at all is more likely a mistake than a wish.
  return !configured.has(id) && [...configured].some((each) => originOf(each) === 'configured');
}
