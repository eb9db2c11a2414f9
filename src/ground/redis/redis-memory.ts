import { type Logger, messageOf } from '../../core/index.ts';
import { masters } from './cluster.ts';
import { type Redis, takeOutOfMemory } from './redis.ts';

/** The only policy that makes Redis refuse a write for lack of memory instead of deleting earlier data. */
export const NO_EVICTION = 'noeviction';

/** Connections whose hidden policy has been logged. */
const told = new WeakSet<Redis>();

/**
 * Why nothing may be dispatched through this Redis for now: it evicts keys, or has no memory for a write. Undefined:
 * there is no such reason. Called every second, so it reads INFO once (of each master of a cluster) and writes nothing.
 */
export async function redisNotReady(redis: Redis, logger: Logger): Promise<string | undefined> {
  const refused = takeOutOfMemory(redis);
  const reasons = await Promise.all(masters(redis).map((server) => serverNotReady(server, logger)));
  return reasons.find((reason) => reason !== undefined) ?? (refused ? REFUSED : undefined);
}

const REFUSED = 'Redis refused a write for want of memory';

async function serverNotReady(redis: Redis, logger: Logger): Promise<string | undefined> {
  const { policy, used, limit } = await readMemory(redis);
  const known = policy ?? (await askPolicy(redis, logger));
  if (known !== undefined && known !== NO_EVICTION) return evictionReason(known);
  if (limit === 0 || used < limit) return undefined;
  return `Redis is out of memory (${mebibytes(used)} of maxmemory ${mebibytes(limit)}): raise maxmemory or free some`;
}

/** The reason to refuse a policy other than `NO_EVICTION`, and the remedy. */
export function evictionReason(policy: string): string {
  return `maxmemory-policy is ${policy}, under which Redis deletes data: set it to ${NO_EVICTION}`;
}

export interface Memory {
  readonly policy: string | undefined;
  /** The bytes that count towards the limit. */
  readonly used: number;
  /** 0: none. */
  readonly limit: number;
}

/** Reads the memory of the server behind this connection. */
export async function readMemory(redis: Redis): Promise<Memory> {
  return memoryOf(await redis.info('memory'));
}

/** @param info the answer to INFO with its section `memory`. */
export function memoryOf(info: string): Memory {
  const bytes = (name: string): number => Number(infoField(info, name) ?? 0);
  // Buffers of replicas and of the append-only file use memory and do not count against the limit.
  const used = bytes('used_memory') - bytes('mem_not_counted_for_evict');
  return { policy: infoField(info, 'maxmemory_policy'), used, limit: bytes('maxmemory') };
}

/** One field of an answer to INFO; undefined when the server does not have it. */
export function infoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
}

/** For a server that does not name its policy in INFO. Undefined where it hides its configuration as well. */
async function askPolicy(redis: Redis, logger: Logger): Promise<string | undefined> {
  if (told.has(redis)) return undefined;
  try {
    const [, policy] = await redis.config('GET', 'maxmemory-policy');
    if (policy !== undefined) return policy;
    logger.warn({}, 'the maxmemory-policy of Redis is unknown: it must be noeviction');
  } catch (error) {
    logger.warn({ error: messageOf(error) }, 'the maxmemory-policy of Redis is unknown: it must be noeviction');
  }
  told.add(redis);
  return undefined;
}

/** `12.3 MiB`. */
export function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
