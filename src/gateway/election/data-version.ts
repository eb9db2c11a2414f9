import { UserError } from '../../core/index.ts';
import type { RedisLocation } from '../../ground/redis/redis-location.ts';
import { variableOf } from '../../ground/config/config.ts';
import { DATA_VERSION_FIELD } from './registry-fields.ts';

/** The version of the data in Redis that this build reads and writes. infra/adr/0045 says what raises it. */
export const DATA_VERSION = 1;

type Location = Pick<RedisLocation, 'redis' | 'registryKey'>;

/**
 * Call it before anything is read or written.
 * @returns the version on record; 0: none.
 * @throws UserError when a newer build has written data that this one may misread.
 */
export async function checkDataVersion({ redis, registryKey }: Location): Promise<number> {
  const version = Number((await redis.hget(registryKey, DATA_VERSION_FIELD)) ?? 0);
  if (version <= DATA_VERSION) return version;
  throw new UserError(
    `The data in Redis has version ${version}, and this gateway knows ${DATA_VERSION} and older: start the newer gateway that wrote it, or set ${variableOf('keyPrefix')} to begin with an empty cache and queue.`,
  );
}

/** Call it before this gateway writes to views. @throws UserError as `checkDataVersion` does. */
export async function raiseDataVersion(location: Location): Promise<void> {
  const { redis, registryKey } = location;
  if ((await checkDataVersion(location)) < DATA_VERSION)
    await redis.hset(registryKey, DATA_VERSION_FIELD, DATA_VERSION);
}
