import { createHash, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { KeyRing } from '../../../contract/node/key-ring.ts';
import type { Redis } from '../../../ground/redis/redis.ts';
import type { RedisLocation } from '../../../ground/redis/redis-location.ts';
import { LoginUnavailableError } from './identity.ts';

/** How long a session lasts, whether it is used or not. */
export const SESSION_MS = 12 * 3_600_000;
/** Of one user at a time; the oldest one ends. */
const MAX_SESSIONS = 20;
const AWAY = 'Redis is away, and the sessions with it';
/** A command waits for a lost connection; a browser must not. */
const PATIENCE_MS = 5000;
const COOKIE = /^[A-Za-z0-9_-]{43}$/;

/**
 * The sessions of browsers, in Redis: every replica knows them, and a restart ends none. The cookie holds 32 random
 * bytes. Redis holds the token that was entered, encrypted with a key that follows from these bytes, under a hash of
 * them: neither of the two shows the token. Redis ends a session after twelve hours.
 */
export class Sessions {
  readonly #redis: Redis;
  readonly #prefix: string;

  constructor({ redis, sessionsPrefix }: Pick<RedisLocation, 'redis' | 'sessionsPrefix'>) {
    this.#redis = redis;
    this.#prefix = sessionsPrefix;
  }

  /**
   * @param user who may have 20 sessions at most.
   * @returns the value for the cookie.
   * @throws LoginUnavailableError while Redis is away.
   */
  async start(user: string, token: string): Promise<string> {
    const cookie = randomBytes(32).toString('base64url');
    const key = this.#keyOf(cookie);
    const ofUser = `${this.#prefix}of:${hashOf(user)}`;
    await this.#ask(async (redis) => {
      const sealed = ringOf(cookie).encrypt(Buffer.from(token), Buffer.from(key));
      await redis.multi().set(key, sealed, 'PX', SESSION_MS).lpush(ofUser, key).pexpire(ofUser, SESSION_MS).exec();
      const ended = await redis.lrange(ofUser, MAX_SESSIONS, -1);
      if (ended.length > 0)
        await redis
          .multi()
          .del(...ended)
          .ltrim(ofUser, 0, MAX_SESSIONS - 1)
          .exec();
    });
    return cookie;
  }

  /** The token that was entered; undefined when the session has ended, or never was. @throws LoginUnavailableError */
  async tokenOf(cookie: string): Promise<string | undefined> {
    if (!COOKIE.test(cookie)) return undefined;
    const key = this.#keyOf(cookie);
    const sealed = await this.#ask((redis) => redis.getBuffer(key));
    if (!sealed) return undefined;
    try {
      return ringOf(cookie).decrypt(sealed, Buffer.from(key)).toString();
    } catch {
      // Something else has written there.
      return undefined;
    }
  }

  /** @throws LoginUnavailableError */
  async end(cookie: string): Promise<void> {
    await this.#ask((redis) => redis.del(this.#keyOf(cookie)));
  }

  #keyOf(cookie: string): string {
    return `${this.#prefix}${hashOf(cookie)}`;
  }

  async #ask<Answer>(question: (redis: Redis) => Promise<Answer>): Promise<Answer> {
    if (this.#redis.status !== 'ready') throw new LoginUnavailableError(AWAY);
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(AWAY)), PATIENCE_MS);
    try {
      return await Promise.race([question(this.#redis), late.promise]);
    } catch {
      // It may be full.
      throw new LoginUnavailableError(AWAY);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** A token for the forms of one session, or of one process: who has a page of it has the token. */
export function csrfTokenOf(secret: string): string {
  return createHmac('sha256', secret).update('levelhook csrf').digest('base64url');
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

function ringOf(cookie: string): KeyRing {
  const bytes = hkdfSync('sha256', Buffer.from(cookie, 'base64url'), '', 'levelhook session', 32);
  return new KeyRing([{ id: 'session', bytes: new Uint8Array(bytes) }]);
}
