import { Redis } from 'ioredis';
import { POSITION, viewKeys } from '../../src/contract/cache-layout.ts';
import { importSecret, type Trigger } from '../../src/contract/index.ts';
import { readerPassword } from '../../src/contract/node/reader-user.ts';

/**
 * Logs in to Redis as the user that a trigger names, with the password that follows from the signing secret.
 * @throws Redis' own error.
 */
export async function redisLogin({ cache }: Trigger, redisUrl: string, secret: string): Promise<Redis> {
  const { redisUser: username = 'none' } = cache;
  const password = await readerPassword(await importSecret(secret), username);
  const options = { lazyConnect: true, enableReadyCheck: false, retryStrategy: () => null };
  const redis = new Redis(redisUrl, { username, password, ...options });
  let refusal: unknown;
  redis.on('error', (error: unknown) => (refusal = error));
  await redis.connect().catch((error: unknown) => {
    throw refusal ?? error;
  });
  return redis;
}

/** Reads the trigger's only view of a kind: its position. @throws Redis' own error. */
export async function positionIn(redis: Redis, { cache }: Trigger, kind: string): Promise<string | null> {
  const [view] = cache.views[kind] ?? [];
  return redis.hget(viewKeys(view?.prefix ?? '').objects, POSITION);
}
