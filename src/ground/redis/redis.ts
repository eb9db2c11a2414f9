import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { groupWrites } from '../../contract/node/grouped-writes.ts';
import { redisOptions } from '../../contract/node/redis-options.ts';
import { parseRedisUrl, type RedisAddress, withoutPassword } from '../../contract/node/redis-url.ts';
import { isUnreachable, type Logger, messageOf, silentLogger, UnavailableError, UserError } from '../../core/index.ts';
import { type RedisFiles, variableOf } from '../config/config.ts';
import { masters, onConnection } from './cluster.ts';
import { Connections, tlsOptions } from './connections.ts';
import { RedisSecrets } from './redis-files.ts';

export type { Redis } from 'ioredis';
export { withoutPassword } from '../../contract/node/redis-url.ts';

export interface ConnectOptions {
  /** Default: none. */
  readonly files?: RedisFiles;
  /** Default: nothing is logged. */
  readonly logger?: Logger;
}

/**
 * Opens a connection that waits for Redis to come back. Commands given while Redis is away are kept and sent in order,
 * so callers wait and do not fail. A command that was in progress when the connection broke, or that a demoted master
 * refused, is sent again, so every script must be harmless when it runs twice. Duplicates of the connection behave
 * alike.
 * @param url see `parseRedisUrl`.
 * @throws UserError when a file cannot be used, or Redis refuses the login or the certificate; UnavailableError when it
 *   does not answer the first time. Shows no secret.
 */
export async function connectRedis(
  url: string,
  { files = {}, logger = silentLogger }: ConnectOptions = {},
): Promise<Redis> {
  const address = addressOf(url);
  const secrets = new RedisSecrets(address, files);
  const connections = new Connections(secrets, logger);
  const redis =
    address.kind === 'cluster'
      ? createCluster(address, secrets, connections)
      : createRedis(address, secrets, connections);
  redis.on('end', () => connections.close());
  // Without a listener ioredis prints each failed attempt itself.
  let last: unknown;
  redis.on('error', (error: unknown) => {
    // What each of them said comes before.
    if (!messageOf(error).startsWith('All sentinels are unreachable')) last = error;
  });
  redis.on('sentinelError', (error: unknown) => (last = error));
  try {
    await Promise.race([redis.connect(), rejectAfter(5000)]);
    return redis;
  } catch (error) {
    redis.disconnect();
    connections.close();
    const reason = reasonOf(last ?? error);
    const message = `Redis does not answer at ${withoutPassword(url)} (${messageOf(reason)}): start it, or set ${variableOf('redisUrl')}.`;
    throw isAway(reason) ? new UnavailableError(message) : new UserError(message);
  }
}

function createRedis(address: RedisAddress, secrets: RedisSecrets, connections: Connections): Redis {
  const redis = new Redis({
    ...redisOptions(address, tlsOptions(secrets)),
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: (attempt) => Math.min(50 * attempt, 1000),
    // A master that was cut off from the Sentinels would go on answering.
    failoverDetector: address.kind === 'sentinel',
  });
  return groupWrites(connections.add(redis));
}

/** Has the commands of a connection to one server. */
function createCluster(address: RedisAddress, secrets: RedisSecrets, connections: Connections): Redis {
  const cluster = new Cluster([...address.hosts], {
    lazyConnect: true,
    // Commands wait for a master as they wait for a server.
    maxRedirections: Infinity,
    retryDelayOnMoved: 20,
    clusterRetryStrategy: (attempt) => Math.min(50 * attempt, 1000),
    slotsRefreshTimeout: 3000,
    slotsRefreshInterval: 10_000,
    // Node resolves the names, so that TLS can compare them with the certificate.
    dnsLookup: (host, callback) => callback(null, host),
    redisOptions: { ...redisOptions(address, tlsOptions(secrets)), maxRetriesPerRequest: null },
  });
  return connections.addCluster(cluster) as unknown as Redis;
}

/** For a cluster: the reason why its last node did not report the slots. */
function reasonOf(error: unknown): unknown {
  return (error as { lastNodeError?: unknown } | undefined)?.lastNodeError ?? error;
}

/** @throws UserError for a wrong URL. */
function addressOf(url: string): RedisAddress {
  try {
    return parseRedisUrl(url);
  } catch (error) {
    throw new UserError(`${variableOf('redisUrl')} is wrong: ${messageOf(error)}.`);
  }
}

class NoAnswerError extends Error {}

function rejectAfter(ms: number): Promise<never> {
  const error = new NoAnswerError(`no answer in ${ms / 1000} s`);
  return new Promise((_, reject) => setTimeout(() => reject(error), ms).unref());
}

/** Whether Redis may answer later though nothing of its settings changes. */
function isAway(error: unknown): boolean {
  if (error instanceof NoAnswerError || isUnreachable(error)) return true;
  return /^(?:LOADING|MASTERDOWN|CLUSTERDOWN|BUSY|TRYAGAIN)\b|max number of clients|Connection is closed/.test(
    messageOf(error),
  );
}

/**
 * Whether Redis refused the command itself, such as for a key of another type. Otherwise Redis as a whole cannot
 * execute commands at the moment (out of memory, loading, read-only) or did not answer, so another command would fail
 * too.
 */
export function isAboutOneCommand(error: unknown): boolean {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return false;
  // Redis 6 puts the script's name before the code.
  return !/max number of clients|(?:^|-)(?:OOM|LOADING|READONLY|MISCONF|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|NOREPLICAS|EXECABORT|UNBLOCKED|NOAUTH|WRONGPASS|NOPERM|UNKILLABLE)\b/.test(
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
  onConnection(redis, () => losses.set(redis, (losses.get(redis) ?? 0) + 1));
  return 0;
}

const outOfMemory = new WeakSet<Redis>();

/** Whether a script was refused for want of memory since this was last asked. */
export function takeOutOfMemory(redis: Redis): boolean {
  return outOfMemory.delete(redis);
}

/** One Lua script. It is sent by its hash, and whole only when the server does not know it (a restarted Redis). */
export type Script = (keys: readonly string[], args: readonly (string | number | Buffer)[]) => Promise<unknown>;

/** A line of a script in whose place another file stands. */
const INCLUDE = /^-- include ([a-z-]+)$/gm;

/**
 * Reads `lua/<name>.lua` in the module's folder and makes it callable on this connection.
 * @param answer Default: texts in an answer are strings.
 */
export function loadScript(redis: Redis, moduleUrl: string, name: string, answer?: 'buffers'): Script {
  const read = (file: string): string => readFileSync(new URL(`./lua/${file}.lua`, moduleUrl), 'utf8');
  const lua = read(name).replaceAll(INCLUDE, (_, file: string) => read(file));
  const command = `levelhook_${name}`;
  if (!(command in redis)) redis.defineCommand(command, { lua });
  const commands = redis as unknown as Record<string, (...all: unknown[]) => Promise<unknown>>;
  const run = commands[answer === 'buffers' ? `${command}Buffer` : command];
  const remember = (error: unknown): never => {
    if (/(?:^|-)OOM\b/.test(messageOf(error))) outOfMemory.add(redis);
    throw error;
  };
  return (keys, args) => {
    // As one array, which ioredis flattens: there may be more of them than a call can take.
    const answered = (run as Function).call(redis, keys.length, [...keys, ...args]) as Promise<unknown>;
    return answered.catch(remember);
  };
}

/** Removes every key that begins with `prefix`, which has a hash tag, a batch at a time. */
export async function unlinkAll(redis: Redis, prefix: string): Promise<void> {
  for await (const keys of keysWith(redis, prefix)) await redis.unlink(...keys);
}

/**
 * The keys that begin with `prefix`, a batch at a time. A batch is never empty. A scan reads the names of all keys of
 * Redis, and a tenant causes one whenever it removes a function. So all scans of a connection together read 1000 names
 * in 6 ms at most. Redis needs 0.6 ms for them, so scans take a tenth of its time; a million keys take 6 s.
 */
export async function* keysWith(redis: Redis, prefix: string): AsyncGenerator<string[]> {
  const match = `${prefix.replace(/[\\[\]*?^]/g, '\\$&')}*`;
  for (const node of masters(redis)) {
    let cursor = '0';
    do {
      await turnToScan(node);
      const [next, keys] = await node.scan(cursor, 'MATCH', match, 'COUNT', 1000);
      cursor = next;
      if (keys.length > 0) yield keys;
    } while (cursor !== '0');
  }
}

const SCAN_EVERY_MS = 6;
/** When the next SCAN may be sent to a master. */
const nextScanMs = new WeakMap<Redis, number>();

async function turnToScan(node: Redis): Promise<void> {
  const nowMs = performance.now();
  const atMs = Math.max(nowMs, nextScanMs.get(node) ?? 0);
  nextScanMs.set(node, atMs + SCAN_EVERY_MS);
  if (atMs > nowMs) await sleep(atMs - nowMs);
}
