import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { groupWrites } from '../../contract/node/grouped-writes.ts';
import { messageOf, UserError } from '../../core/index.ts';

export type { Redis } from 'ioredis';

/**
 * Opens a connection that waits for Redis to come back. Commands given meanwhile are kept and sent in order, so callers
 * wait and do not fail. A command that was in progress when the connection broke is sent again, so every script must be
 * harmless when it runs twice.
 * @throws UserError when Redis does not answer the first time.
 */
export async function connectRedis(url: string): Promise<Redis> {
  const redis = new Redis(url, {
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: (attempt) => Math.min(50 * attempt, 1000),
  });
  // Without a listener ioredis prints each failed attempt itself.
  let last: unknown;
  redis.on('error', (error: unknown) => (last = error));
  try {
    await Promise.race([redis.connect(), rejectAfter(5000)]);
    return groupWrites(redis);
  } catch (error) {
    redis.disconnect();
    const reason = messageOf(last ?? error);
    throw new UserError(`Redis does not answer at ${withoutPassword(url)} (${reason}): start it, or set REDIS_URL.`);
  }
}

function rejectAfter(ms: number): Promise<never> {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(`no answer in ${ms / 1000} s`)), ms).unref());
}

/** A Redis URL for a log or a message. */
export function withoutPassword(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//***@');
}

/**
 * Whether Redis refused the command itself, such as for a key of another type. Otherwise Redis as a whole cannot
 * execute commands at the moment (out of memory, loading, read-only) or did not answer, so another command would fail
 * too.
 */
export function isAboutOneCommand(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false;
  // Redis 6 puts the script's name before the code.
  return !/max number of clients|(?:^|-)(?:OOM|LOADING|READONLY|MISCONF|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|NOREPLICAS|NOAUTH|NOPERM|UNKILLABLE)\b/.test(
    error.message,
  );
}

/**
 * Whether an operation failed because of its data, in Redis or in this program, and so would fail again.
 */
export function isDataError(error: unknown): boolean {
  if (error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError) return true;
  return isAboutOneCommand(error);
}

const losses = new WeakMap<Redis, number>();

/**
 * Counts how often this connection was lost since the first call. After a loss another Redis process may answer, which
 * may lack earlier writes.
 */
export function connectionLosses(redis: Redis): number {
  const known = losses.get(redis);
  if (known !== undefined) return known;
  losses.set(redis, 0);
  redis.on('close', () => losses.set(redis, (losses.get(redis) ?? 0) + 1));
  return 0;
}

const outOfMemory = new WeakSet<Redis>();

/** Whether a script was refused for want of memory since this was last asked. */
export function takeOutOfMemory(redis: Redis): boolean {
  return outOfMemory.delete(redis);
}

/** One Lua script. It is sent by its hash, and whole only when the server does not know it (a restarted Redis). */
export type Script = (keys: readonly string[], args: readonly (string | number | Buffer)[]) => Promise<unknown>;

/** Reads `lua/<name>.lua` beside the module and makes it callable on this connection. */
export function loadScript(redis: Redis, moduleUrl: string, name: string): Script {
  const lua = readFileSync(new URL(`./lua/${name}.lua`, moduleUrl), 'utf8');
  const command = `levelhook_${name}`;
  if (!(command in redis)) redis.defineCommand(command, { lua });
  const run = (redis as unknown as Record<string, (...all: unknown[]) => Promise<unknown>>)[command];
  const remember = (error: unknown): never => {
    if (/(?:^|-)OOM\b/.test(messageOf(error))) outOfMemory.add(redis);
    throw error;
  };
  return (keys, args) => {
    // As one array, which ioredis flattens: there may be more of them than a call can take.
    const answer = (run as Function).call(redis, keys.length, [...keys, ...args]) as Promise<unknown>;
    return answer.catch(remember);
  };
}

/** Removes every key that begins with `prefix`, a batch at a time. */
export async function unlinkAll(redis: Redis, prefix: string): Promise<void> {
  const match = `${prefix.replace(/[\\[\]*?^]/g, '\\$&')}*`;
  for await (const keys of redis.scanStream({ match, count: 1000 }) as AsyncIterable<string[]>) {
    if (keys.length > 0) await redis.unlink(...keys);
  }
}
