import { type Logger, messageOf } from '../../core/index.ts';
import type { Informers } from '../cache/informers.ts';
import { type Redis, unlinkAll } from '../cache/redis.ts';
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

/**
 * Removes what gateways before this one have kept in Redis for controllers that are no more: their queues, and the views that only
 * they had. Asked for once all functions have said what their controllers are, since one that is merely down has a queue to come
 * back to; a gateway without any function removes nothing, for that is more likely a mistake than a wish.
 *
 * What stays is one field of the registry: should the controller come back, a run of its may still be going on that no queue knows
 * of any more, and is waited for (ADR 0006). Ending in the middle does no harm: the next gateway goes on.
 */
export async function removeLeftovers(options: LeftoversOptions, controllers: ReadonlySet<string>): Promise<void> {
  if (controllers.size === 0) return;
  const { redis, registryKey, informers, logger } = options;
  try {
    const removed: string[] = [];
    for (const [field, value] of Object.entries(await redis.hgetall(registryKey))) {
      const name = field.startsWith(CONTROLLER_FIELD) ? field.slice(CONTROLLER_FIELD.length) : undefined;
      if (name === undefined || value === REMOVED || controllers.has(name)) continue;
      await forgetController(options, name);
      removed.push(name);
    }
    const views = await informers.removeUnused();
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
