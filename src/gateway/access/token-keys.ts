import { randomBytes, randomUUID } from 'node:crypto';
import type { Clock } from '../../core/index.ts';
import {
  type CacheClaims,
  createCacheToken,
  importTokenKey,
  TokenError,
  type TokenKey,
  tokenKeyId,
  verifyCacheToken,
} from '../../contract/cache-token.ts';
import { createRunsToken, type RunsClaims, verifyRunsToken } from '../../contract/runs-token.ts';
import type { CacheScope } from '../../contract/index.ts';
import type { Redis } from '../redis/redis.ts';

export interface TokenKeysOptions {
  readonly redis: Redis;
  /** HASH: key id -> secret and time of making. */
  readonly hash: string;
  readonly clock: Clock;
  /** How long a key signs. It verifies for as long again. Default: a day. */
  readonly rotateMs?: number;
}

interface StoredKey extends TokenKey {
  readonly createdAtMs: number;
  /** When Redis still had it, now that it has it no more. */
  readonly lostAtMs?: number;
}

/**
 * The keys that sign the cache API's tokens, in Redis, so that every replica of the gateway can check what another has
 * signed. The newest key signs until it is a day old. If a token names a key that this process does not know, it reads
 * the keys again. If Redis loses the keys, the gateway signs with a new one a second later, and refuses the older
 * tokens after a minute: the runs that have them by then are retried.
 */
export class TokenKeys {
  readonly #options: Required<TokenKeysOptions>;
  #keys = new Map<string, StoredKey>();
  /** Tokens that were found good, and with which key: a run sends the same one with each read. */
  #verified = new Map<string, { readonly keyId: string; readonly claims: CacheClaims }>();
  #loadedAtMs = -Infinity;
  /** When it last read the keys because it did not know one. */
  #askedAtMs = -Infinity;
  #loading: Promise<void> | undefined;
  #creating: Promise<StoredKey> | undefined;

  constructor(options: TokenKeysOptions) {
    this.#options = { rotateMs: 24 * 3_600_000, ...options };
  }

  /** A token for `controller` that is valid until `expiresAtMs`, to the second. */
  async sign(controller: string, scope: CacheScope, expiresAtMs: number): Promise<string> {
    const claims = { controller, scope, expiresAt: Math.floor(expiresAtMs / 1000) };
    return createCacheToken(await this.#signing(), claims, this.#options.clock.now());
  }

  /** A token for the runs of a trigger that is valid until `expiresAtMs`, to the second. */
  async signRuns(claims: Omit<RunsClaims, 'expiresAt'>, expiresAtMs: number): Promise<string> {
    const expiresAt = Math.floor(expiresAtMs / 1000);
    return createRunsToken(await this.#signing(), { ...claims, expiresAt }, this.#options.clock.now());
  }

  /** @throws TokenError */
  async verifyRuns(token: string): Promise<RunsClaims> {
    return verifyRunsToken(await this.#keyOf(token), token, this.#options.clock.now());
  }

  /** Whether the key that signed one of our tokens was in Redis a second ago, or when Redis answered last. */
  async knows(token: string): Promise<boolean> {
    await this.#loadUnlessWithin(RELOAD_MS).catch(() => {});
    const key = this.#keys.get(tokenKeyId(token));
    return key !== undefined && key.lostAtMs === undefined;
  }

  async #signing(): Promise<StoredKey> {
    await this.#loadUnlessWithin(RELOAD_MS);
    const newest = this.#newest();
    if (newest) return newest;
    // Those who come while it is under way sign with it, too.
    this.#creating ??= this.#create().finally(() => (this.#creating = undefined));
    return this.#creating;
  }

  /** @throws TokenError */
  async verify(token: string): Promise<CacheClaims> {
    const { clock } = this.#options;
    // What Redis has lost, or another replica has taken away, is soon no longer good here either.
    await this.#loadUnlessWithin(REFRESH_MS);
    const known = this.#verified.get(token);
    const knownKey = known && this.#keys.get(known.keyId);
    if (knownKey && this.#isGood(knownKey) && known.claims.expiresAt * 1000 > clock.now()) return known.claims;
    const key = await this.#keyOf(token);
    const claims = await verifyCacheToken(key, token, clock.now());
    if (this.#verified.size >= REMEMBERED) this.#verified.clear();
    this.#verified.set(token, { keyId: key.id, claims });
    return claims;
  }

  /** The key that a token names, which may be invented. @throws TokenError */
  async #keyOf(token: string): Promise<StoredKey> {
    await this.#loadUnlessWithin(REFRESH_MS);
    const id = tokenKeyId(token);
    if (!this.#keys.has(id)) await this.#lookAgain();
    const key = this.#keys.get(id);
    if (!key || !this.#isGood(key)) throw new TokenError('the token names an unknown key');
    return key;
  }

  /** A key of another replica, or an invented key: Redis is asked once a second at most. */
  async #lookAgain(): Promise<void> {
    const now = this.#options.clock.now();
    if (now - this.#askedAtMs <= RELOAD_MS) return this.#loading;
    this.#askedAtMs = now;
    await this.#load();
  }

  /** Redis had it a minute ago, and it is not too old. */
  #isGood(key: StoredKey): boolean {
    const { clock, rotateMs } = this.#options;
    const isLost = key.lostAtMs !== undefined && clock.now() - key.lostAtMs >= REFRESH_MS;
    return !isLost && this.#ageOf(key) <= 2 * rotateMs;
  }

  #newest(): StoredKey | undefined {
    const { rotateMs } = this.#options;
    const usable = [...this.#keys.values()].filter((key) => key.lostAtMs === undefined && this.#ageOf(key) < rotateMs);
    return usable.toSorted((a, b) => b.createdAtMs - a.createdAtMs)[0];
  }

  /** Two replicas may make one each at the same time: both are good. */
  async #create(): Promise<StoredKey> {
    const { redis, hash, clock } = this.#options;
    const id = randomUUID();
    const secret = randomBytes(32);
    const createdAtMs = clock.now();
    await redis.hset(hash, id, JSON.stringify({ secret: secret.toString('base64'), createdAtMs }));
    const key = { ...(await importTokenKey(id, new Uint8Array(secret))), createdAtMs };
    this.#keys.set(id, key);
    return key;
  }

  async #loadUnlessWithin(ms: number): Promise<void> {
    if (this.#options.clock.now() - this.#loadedAtMs > ms) await this.#load();
  }

  #load(): Promise<void> {
    // Those who come while it is under way are served by it.
    this.#loading ??= this.#read().finally(() => (this.#loading = undefined));
    return this.#loading;
  }

  async #read(): Promise<void> {
    const { redis, hash, clock, rotateMs } = this.#options;
    const keys = new Map<string, StoredKey>();
    for (const [id, text] of Object.entries(await redis.hgetall(hash))) {
      const { secret, createdAtMs } = JSON.parse(text) as { secret: string; createdAtMs: number };
      if (clock.now() - createdAtMs > 2 * rotateMs) await redis.hdel(hash, id);
      else {
        const { key } = this.#keys.get(id) ?? (await importTokenKey(id, new Uint8Array(Buffer.from(secret, 'base64'))));
        keys.set(id, { id, key, createdAtMs });
      }
    }
    for (const [id, key] of this.#keys) {
      const lost = { ...key, lostAtMs: key.lostAtMs ?? this.#loadedAtMs };
      // Runs in flight end with the tokens that they have.
      if (!keys.has(id) && this.#isGood(lost)) keys.set(id, lost);
    }
    this.#keys = keys;
    this.#loadedAtMs = clock.now();
  }

  #ageOf({ createdAtMs }: StoredKey): number {
    return this.#options.clock.now() - createdAtMs;
  }
}

const REFRESH_MS = 60_000;
const RELOAD_MS = 1000;
const REMEMBERED = 1000;
