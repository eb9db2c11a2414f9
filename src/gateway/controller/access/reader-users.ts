import { createHash, createHmac } from 'node:crypto';
import { messageOf, objectNamed, originOf, type Runtime } from '../../../core/index.ts';
import type { SigningKey, ViewLocation } from '../../../contract/index.ts';
import {
  READER_COMMANDS,
  readablePatterns,
  readerPassword,
  readerUserPrefix,
} from '../../../contract/node/reader-user.ts';
import type { CacheKey, KeyRing } from '../../../contract/node/key-ring.ts';
import { variableOf } from '../../../ground/config/config.ts';
import type { RedisLocation } from '../../../ground/redis/redis-location.ts';

export interface ReaderUsersOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly location: Pick<RedisLocation, 'redis' | 'keyPrefix' | 'clusterId'>;
  /** Keys that Redis does not hold and that all gateways share: the names of the users follow from them. */
  readonly ring: KeyRing;
  /**
   * Namespaces whose functions may read Redis, `*`: all. The operator trusts them not to take all of Redis' time.
   * Configured functions are the operator's own and always may.
   */
  readonly namespaces: readonly string[];
  /** Whether a controller that has no user here may still come. Its users stay until then. */
  readonly mayCome: (controller: string) => boolean;
  /** Whether this gateway leads: only then it takes users away. Default: it does. */
  readonly leads?: () => boolean;
}

/** Who reads: a controller as it is declared, as in `TokenClaims`. */
export interface Reader {
  readonly controller: string;
  readonly declaration: string;
}

/**
 * Creates the Redis users of functions: one for each controller that may read Redis. It may use the reading commands on
 * the keys of its views and nothing else. Redis bounds neither the arguments of a command nor its time, so a user can
 * make all others wait; functions that nobody vouches for read the cache API, where they pay. The name of a user ends
 * with a MAC of the declaration, so a function that is declared otherwise gets another user, and the holder of an
 * earlier trigger cannot guess its name. As with tokens, the first key of the ring makes the name in triggers, and
 * there is a user for each key, so that a rotation of the ring takes no user away from a run in flight. Redis keeps
 * users in memory, so they are lost with its process and missing on a replica that takes over. The gateway therefore
 * creates them again at each new connection, and every few seconds in case they were removed. Creating an existing user
 * changes nothing and breaks none of its connections.
 *
 * If Redis refuses (no right, no ACL, Redis before 7), the gateway logs this once and triggers name no user, so
 * functions read as the user in their own URL.
 */
export class ReaderUsers {
  readonly #options: ReaderUsersOptions;
  readonly #prefix: string;
  readonly #keys: readonly CacheKey[];
  /** The ACL rules of each user, with its key patterns and the hashes of its passwords. */
  readonly #wanted = new Map<string, readonly string[]>();
  readonly #made = new Set<string>();
  /** Users to be removed, which Redis may still have. */
  readonly #unwanted = new Set<string>();
  #lastError: string | undefined;
  #ensuring: Promise<void> = Promise.resolve();

  constructor(options: ReaderUsersOptions) {
    this.#options = options;
    this.#prefix = readerUserPrefix(options.location);
    this.#keys = options.ring.derived(`redis user ${this.#prefix}`);
  }

  /**
   * The user's name for triggers; undefined where Redis refuses to create it. A user that Redis has just lost is about
   * to be created again.
   */
  userOf(reader: Reader): string | undefined {
    const [user] = this.#usersOf(reader);
    return user !== undefined && this.#made.has(user) ? user : undefined;
  }

  /**
   * Makes the user of a controller that may read Redis, or changes its rights to read. Rejects only when the connection
   * is closed for good.
   * @param keys that sign its triggers: each gives the user a password.
   */
  async allow(reader: Reader, views: readonly ViewLocation[], keys: readonly SigningKey[]): Promise<void> {
    if (!this.#mayRead(reader.controller)) return;
    for (const user of this.#usersOf(reader)) {
      const passwords = await Promise.all(keys.map((key) => readerPassword(key, user)));
      this.#unwanted.delete(user);
      this.#wanted.set(user, [
        // `reset` first, so that outdated rules are gone; Redis applies the rules all together.
        'reset',
        'on',
        'resetchannels',
        // Hashes: `MONITOR` would show a password.
        ...passwords.map((password) => `#${createHash('sha256').update(password).digest('hex')}`),
        ...READER_COMMANDS.map((command) => `+${command}`),
        ...views.flatMap(({ prefix }) => readablePatterns(prefix).map((pattern) => `%R~${pattern}`)),
      ]);
    }
    await this.#ensure();
  }

  /**
   * Removes the users of a controller, and Redis then ends their connections. The gateway that leads does so at once,
   * or when Redis is back; any other gateway only forgets them. Never rejects.
   */
  async remove(reader: Reader): Promise<void> {
    const users = this.#usersOf(reader).filter((user) => this.#wanted.delete(user));
    for (const user of users) this.#made.delete(user);
    // The leader removes them, at the latest when it next compares all users.
    if (users.length === 0 || !this.#leads) return;
    for (const user of users) this.#unwanted.add(user);
    const { controller } = reader;
    const { logger } = this.#options.runtime;
    const { redis } = this.#options.location;
    if (redis.status !== 'ready') return;
    await this.#ensure().catch((error: unknown) => {
      logger.warn(
        { controller, error: messageOf(error) },
        'the Redis user of a controller could not be removed, trying again',
      );
    });
  }

  /** Keeps the users as they should be until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    const { redis } = this.#options.location;
    const again = (): void => {
      this.#ensure().catch((error: unknown) => {
        if (!signal.aborted)
          logger.warn({ error: messageOf(error) }, 'the Redis users of functions could not be checked');
      });
    };
    redis.on('ready', again);
    while (!signal.aborted) {
      await clock.sleep(REPEAT_MS, signal);
      // While Redis is away, each call would wait for it. The event `ready` of the new connection makes the next call.
      if (!signal.aborted && redis.status === 'ready') again();
    }
    redis.off('ready', again);
  }

  /** The names of a reader's users, in the order of the ring. No part holds a colon. */
  #usersOf({ controller, declaration }: Reader): string[] {
    const text = JSON.stringify([controller, declaration]);
    return this.#keys.map(({ bytes }) => {
      const mac = createHmac('sha256', bytes).update(text).digest().subarray(0, MAC_BYTES);
      return `${this.#prefix}${controller}:${mac.toString('base64url')}`;
    });
  }

  /** One call at a time; a call during another one runs after it, since it may be about another Redis. */
  #ensure(): Promise<void> {
    this.#ensuring = this.#ensuring.catch(() => {}).then(() => this.#ensureNow());
    return this.#ensuring;
  }

  async #ensureNow(): Promise<void> {
    const { logger } = this.#options.runtime;
    const { redis } = this.#options.location;
    try {
      for (const user of this.#unwanted) {
        await redis.call('ACL', 'DELUSER', user);
        this.#unwanted.delete(user);
      }
      for (const [user, rules] of this.#wanted) {
        await redis.call('ACL', 'SETUSER', user, ...rules);
        // The user may have been removed during the call: the next call handles that.
        if (this.#wanted.get(user) === rules) this.#made.add(user);
      }
      if (this.#leads) await this.#removeOthers();
      if (this.#lastError !== undefined) logger.info({}, 'created the Redis users of functions again');
      this.#lastError = undefined;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      this.#made.clear();
      const message = messageOf(error);
      if (this.#lastError !== message) {
        logger.warn(
          { error: message },
          `Redis refuses to create users for functions (${variableOf('redisUsers')}), so they read as the user of their own ${variableOf('redisUrl')}: the gateway needs Redis 7 or Valkey and the rights +acl|setuser +acl|deluser +acl|users`,
        );
      }
      this.#lastError = message;
    }
  }

  #mayRead(controller: string): boolean {
    const { namespaces } = this.#options;
    if (originOf(controller) === 'configured' || namespaces.includes('*')) return true;
    return namespaces.includes(objectNamed(controller).namespace);
  }

  get #leads(): boolean {
    return this.#options.leads?.() ?? true;
  }

  /**
   * Removes the users of controllers and declarations that this gateway does not have and that will not come, or that
   * may not read Redis (any more), whichever gateway has created them. Redis ends their connections.
   */
  async #removeOthers(): Promise<void> {
    const { mayCome } = this.#options;
    const { logger } = this.#options.runtime;
    const { redis } = this.#options.location;
    const users = (await redis.call('ACL', 'USERS')) as string[];
    const controllerOf = (user: string): string => user.slice(this.#prefix.length).split(':', 1)[0] ?? '';
    const mayStay = (controller: string): boolean => this.#mayRead(controller) && mayCome(controller);
    const others = users.filter(
      (user) => user.startsWith(this.#prefix) && !this.#wanted.has(user) && !mayStay(controllerOf(user)),
    );
    if (others.length === 0) return;
    await redis.call('ACL', 'DELUSER', ...others);
    const controllers = [...new Set(others.map(controllerOf))];
    logger.info({ controllers }, 'removed the Redis users of removed controllers and earlier declarations');
  }
}

const REPEAT_MS = 10_000;
const MAC_BYTES = 16;

/** Redis' own answer, as opposed to a connection that broke. */
function isRefusal(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError';
}
