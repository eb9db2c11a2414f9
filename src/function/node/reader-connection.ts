import type { Redis } from 'ioredis';
import { messageOf, systemClock, UserError, withoutPackage } from '../../core/index.ts';
import { importSecret } from '../../contract/index.ts';
import { groupWrites } from '../../contract/node/grouped-writes.ts';
import { readerPassword } from '../../contract/node/reader-user.ts';
import { type RedisAddressOptions, redisOptions } from '../../contract/node/redis-options.ts';
import { parseRedisUrl, type RedisAddress } from '../../contract/node/redis-url.ts';
import { SYNC_WAIT_MS } from '../cache-reader.ts';

/**
 * Loaded on demand: only functions that read from Redis need it, and it takes a sixth of the loading time of a function
 * on Node.
 */
export const loadIoredis = () => import('ioredis').catch(withoutPackage('ioredis'));

/** A read fails when Redis does not answer within this time, and the key is retried. */
const COMMAND_TIMEOUT_MS = 5000;
const RECONNECT_MS = { first: 50, longest: 1000 };

export interface ReaderConnectionOptions {
  /** The function's signing secrets. The passwords of the users in triggers are derived from them. */
  readonly secrets?: readonly string[] | undefined;
}

/**
 * A function's connection to Redis, for the life of the process, opened at the first read. It logs in with the
 * credentials of the URL; without any, and with signing secrets, as the read-only user that the trigger names;
 * otherwise as Redis' default user.
 */
export class ReaderConnection {
  readonly #url: () => string;
  readonly #secrets: readonly string[];
  #open: { readonly user: string | undefined; readonly redis: Promise<ConnectedRedis> } | undefined;

  constructor(url: string | (() => string), { secrets = [] }: ReaderConnectionOptions = {}) {
    this.#url = typeof url === 'string' ? () => url : url;
    this.#secrets = secrets;
  }

  /**
   * The connection, ready for reads as `redisUser`. If Redis has lost the user, it waits for the gateway to create it
   * again, five seconds at most.
   * @throws Error with the user, and the reason why Redis was not reached.
   */
  async as(redisUser: string | undefined, run: { readonly signal: AbortSignal }): Promise<Redis> {
    // After a new setup of the gateway, runs that still read as the former user fail, and their keys are retried.
    if (this.#open?.user !== redisUser) this.close();
    const open = (this.#open ??= { user: redisUser, redis: this.#connect(redisUser) });
    const { redis, isUser, lastError } = await open.redis.catch((error: unknown) => {
      // The next read tries again.
      if (this.#open === open) this.#open = undefined;
      throw error;
    });
    if (!isUser) return redis;
    const until = systemClock.now() + SYNC_WAIT_MS;
    while (redis.status !== 'ready') {
      run.signal.throwIfAborted();
      if (systemClock.now() >= until) throw new Error(`Redis cannot be read as the user ${redisUser} (${lastError()})`);
      await systemClock.sleep(POLL_MS);
    }
    return redis;
  }

  /** Ends the connection. The next read opens another. */
  close(): void {
    void this.#open?.redis.then(({ redis }) => redis.disconnect()).catch(() => {});
    this.#open = undefined;
  }

  async #connect(redisUser: string | undefined): Promise<ConnectedRedis> {
    const address = serverOf(this.#url());
    const hasCredentials = address.username !== undefined || address.password !== undefined;
    const user = this.#secrets.length > 0 && !hasCredentials ? redisUser : undefined;
    const common = { ...redisOptions(address), commandTimeout: COMMAND_TIMEOUT_MS, maxRetriesPerRequest: 2 };
    const { Redis } = await loadIoredis();
    if (user === undefined) {
      const redis = groupWrites(new Redis(common));
      // Each failed command rejects on its own; without a listener ioredis prints the failed attempts too.
      redis.on('error', () => {});
      return { redis, isUser: false, lastError: () => '' };
    }
    const keys = await Promise.all(this.#secrets.map(importSecret));
    const passwords = await Promise.all(keys.map((key) => readerPassword(key, user)));
    return connectAs(Redis, user, passwords, common);
  }
}

const POLL_MS = 20;

type ReaderOptions = RedisAddressOptions & { readonly commandTimeout: number; readonly maxRetriesPerRequest: number };

interface ConnectedRedis {
  readonly redis: Redis;
  /** Logs in as the user that the trigger names, not with the credentials of the URL. */
  readonly isUser: boolean;
  readonly lastError: () => string;
}

/**
 * Tries the passwords in turn, one at each attempt to connect, so that gateway and function need not rotate a secret at
 * the same time. ioredis takes the password from its options whenever it connects.
 */
function connectAs(
  Connection: typeof Redis,
  user: string,
  passwords: readonly string[],
  common: ReaderOptions,
): ConnectedRedis {
  let at = 0;
  let last = 'no answer yet';
  const redis = new Connection({
    ...common,
    username: user,
    password: passwords[at] ?? '',
    // Both need rights that a reader does not have. While Redis loads its data it answers with an error, and the key is
    // retried.
    enableReadyCheck: false,
    disableClientInfo: true,
    retryStrategy: (attempt) => Math.min(RECONNECT_MS.first * attempt, RECONNECT_MS.longest),
  });
  redis.on('error', (error: unknown) => {
    last = messageOf(error);
    if (!/^(WRONGPASS|NOAUTH)/.test(last)) return;
    at = (at + 1) % passwords.length;
    redis.options.password = passwords[at] ?? '';
  });
  return { redis: groupWrites(redis), isUser: true, lastError: () => last };
}

/**
 * The server of a Redis URL. Sentinels and clusters are refused: after a failover an old master may answer for a while,
 * and a function would take its stale data for the current cache.
 * @throws UserError, without showing the URL.
 */
export function serverOf(url: string): RedisAddress {
  let address: RedisAddress;
  try {
    address = parseRedisUrl(url);
  } catch (error) {
    throw new UserError(`The Redis URL of this function is wrong: ${messageOf(error)}.`);
  }
  if (address.kind === 'server') return address;
  const what = address.kind === 'sentinel' ? 'Sentinels' : 'a Redis Cluster';
  throw new UserError(
    `The Redis URL of this function names ${what}: a function reads from one server, or through the gateway without a Redis URL.`,
  );
}
