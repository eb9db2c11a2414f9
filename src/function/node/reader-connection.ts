import type { Redis } from 'ioredis';
import { messageOf, systemClock, UserError, withoutPackage } from '../../core/index.ts';
import { importSecret } from '../../contract/index.ts';
import { groupWrites } from '../../contract/node/grouped-writes.ts';
import { readerPassword } from '../../contract/node/reader-user.ts';
import { type RedisAddressOptions, redisOptions } from '../../contract/node/redis-options.ts';
import { parseRedisUrl, type RedisAddress } from '../../contract/node/redis-url.ts';
import { SYNC_WAIT_MS } from '../cache-reader.ts';

/** Only functions that read from Redis need it, and it takes a sixth of the time in which a function on Node loads. */
export const loadIoredis = () => import('ioredis').catch(withoutPackage('ioredis'));

/** A read fails when Redis does not answer within this, and the key is retried. */
const COMMAND_TIMEOUT_MS = 5000;
const RECONNECT_MS = { first: 50, longest: 1000 };

export interface ReaderConnectionOptions {
  /** The function's signing secrets: the passwords of the user that triggers name are derived from them. */
  readonly secrets?: readonly string[] | undefined;
}

/**
 * A function's connection to Redis, for the life of the process, opened at the first read. As whom: credentials in the
 * URL are used as they are; without any, and with signing secrets, it is the read-only user that the trigger names;
 * otherwise Redis' default user.
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
   * Ready to be read from as `redisUser`. Waits for a user that Redis has lost, five seconds at most: the gateway makes
   * it again.
   * @throws Error saying as whom Redis was not reached, and why.
   */
  async as(redisUser: string | undefined, run: { readonly signal: AbortSignal }): Promise<Redis> {
    // A gateway that was set up anew: runs that still read as the former user fail, and their keys are retried.
    if (this.#open?.user !== redisUser) this.close();
    const open = (this.#open ??= { user: redisUser, redis: this.#connect(redisUser) });
    const { redis, isUser, lastError } = await open.redis.catch((error: unknown) => {
      // The next read tries anew.
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
  /** As the user that the trigger has named, and not as whom the URL says. */
  readonly isUser: boolean;
  readonly lastError: () => string;
}

/**
 * Tries the passwords in turn, one at each attempt to connect: while a secret is rotated, gateway and function need not
 * know of it at the same time. ioredis takes the password from its options whenever it connects.
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
    // Both need rights that are of no use to a reader. While Redis loads its data it answers with an error, and the key
    // is retried.
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
 * The server of a Redis URL. After a failover an old master may answer for a while, and a function would take what it
 * reads there for what the gateway has cached since; so a function does not read through Sentinels or from a cluster.
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
