import { type Resource, systemClock } from '../../core/index.ts';
import type { CacheReader, OpenCache } from '../cache-reader.ts';
import { isEncryptedKind } from '../cache-views.ts';
import { HttpReader } from '../http-reader.ts';
import { ReaderConnection } from './reader-connection.ts';
import { RedisReader } from './redis-reader.ts';
import { undiciFetch } from './undici-fetch.ts';

export interface RedisCacheOptions {
  /**
   * The function's signing secrets, as for `createFunctionApp`. Default: none; Redis is read with the URL's
   * credentials.
   */
  readonly secrets?: readonly string[];
}

/**
 * Reads the cache straight from Redis, for functions close to it: the option `cache` of `createFunctionApp`. One
 * connection for the life of the process, opened at the first read. A read fails when Redis does not answer within five
 * seconds, and the key is retried. Kinds that are encrypted in Redis (Secrets), and lists by the `selectableFields` of
 * a definition, are read through the cache API, with the token of the trigger.
 *
 * With `secrets` the URL needs no password if the gateway's settings let it make Redis users for functions:
 * the reader logs in as the controller's user, which may read the controller's views and nothing else. Credentials in
 * the URL take precedence.
 *
 * @param url `redis://host:port`, `rediss://host:port` or the path of a socket, or a function that returns it at the
 *   first read. TLS takes further authorities from `NODE_EXTRA_CA_CERTS`. Sentinels and clusters are refused: read
 *   through the cache API there.
 */
export function redisCache(url: string | (() => string), options: RedisCacheOptions = {}): OpenCache {
  const connection = new ReaderConnection(url, options);
  return (location, run) => {
    const startedMs = systemClock.now();
    // A getter, because reading it creates the signal of the run.
    const options = {
      startedMs,
      positions: new Map<string, number>(),
      fetch: undiciFetch,
      get signal() {
        return run.signal;
      },
    };
    const overHttp = new HttpReader(location, options);
    const readerOf = async (resource: Resource): Promise<CacheReader> => {
      if (isEncryptedKind(location, resource)) return overHttp;
      return new RedisReader(await connection.as(location.redisUser, run), location, options);
    };
    return {
      get: async (resource, key) => (await readerOf(resource)).get(resource, key),
      list: async (resource, options) => (await readerOf(resource)).list(resource, options),
      secondsUnchanged: async (resource, key, field, item) =>
        (await readerOf(resource)).secondsUnchanged(resource, key, field, item),
    };
  };
}
