import { type Logger, messageOf } from '../../core/index.ts';
import type { Informers } from '../cache/informers.ts';
import { type Redis, unlinkAll } from '../cache/redis.ts';
import { isDeclared } from '../controllers/reconcile-function.ts';
import { queueKeys } from '../workqueue/queue-keys.ts';
import { CONTROLLER_FIELD, REMOVED } from './recovery.ts';

export interface LeftoversOptions {
  readonly redis: Redis;
  readonly keyPrefix: string;
  readonly clusterId: string;
  /** See `RecoveryOptions`. */
  readonly registryKey: string;
  readonly informers: Pick<Informers, 'removeUnused'>;
  readonly logger: Logger;
}

export interface KnownControllers {
  /** Those that run, and so all of the configured functions. */
  readonly configured: ReadonlySet<string>;
  /** The ids of all ReconcileFunctions, whether or not they run; undefined when the cluster did not tell. */
  readonly declared: readonly string[] | undefined;
}

/**
 * Removes what gateways before this one have kept in Redis for controllers that are no more: their queues, and the views that only
 * they had. Asked for once all functions have said what their controllers are, since one that is merely down has a queue to come
 * back to; a gateway without any configured function removes nothing of theirs, for that is more likely a mistake than a wish.
 *
 * What stays is one field of the registry: should the controller come back, a run of its may still be going on that no queue knows
 * of any more, and is waited for (ADR 0006). Ending in the middle does no harm: the next gateway goes on.
 */
export async function removeLeftovers(options: LeftoversOptions, known: KnownControllers): Promise<void> {
  const { redis, registryKey, informers, logger } = options;
  try {
    const removed: string[] = [];
    for (const [field, value] of Object.entries(await redis.hgetall(registryKey))) {
      const name = field.startsWith(CONTROLLER_FIELD) ? field.slice(CONTROLLER_FIELD.length) : undefined;
      if (name === undefined || value === REMOVED || !isLeftOver(name, known)) continue;
      await forgetController(options, name);
      removed.push(name);
    }
    const isEmpty = known.configured.size === 0 && (known.declared ?? []).length === 0;
    const views = isEmpty && removed.length === 0 ? [] : await informers.removeUnused();
    if (removed.length + views.length > 0) {
      logger.info({ controllers: removed, views }, 'removed what was kept for controllers that are no more');
    }
  } catch (error) {
    logger.warn({ error: messageOf(error) }, 'what was kept for controllers that are no more is still there');
  }
}

/** Removes what Redis holds for one controller but its views, which others may need. */
export async function forgetController(
  options: Pick<LeftoversOptions, 'redis' | 'keyPrefix' | 'clusterId' | 'registryKey'>,
  name: string,
): Promise<void> {
  const { redis, registryKey } = options;
  await unlinkAll(redis, `${queueKeys({ ...options, name }).prefix}:`);
  await redis.hset(registryKey, CONTROLLER_FIELD + name, REMOVED);
}

/** Whether nobody declares this controller any more. */
export function isLeftOver(id: string, { configured, declared }: KnownControllers): boolean {
  if (isDeclared(id)) return declared !== undefined && !declared.includes(id);
  // None at all is more likely a mistake than a wish.
  return !configured.has(id) && [...configured].some((each) => !isDeclared(each));
}
