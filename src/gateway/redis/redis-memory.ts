import { type Logger, messageOf, UserError } from '../../core/index.ts';
import { type Redis, takeOutOfMemory, withoutPassword } from './redis.ts';

/**
 * The only policy under which Redis refuses a write for want of memory, rather than delete what it was given before.
 */
const NO_EVICTION = 'noeviction';

/** Connections of which it has been logged that they hide their policy. */
const told = new WeakSet<Redis>();

/**
 * Why nothing may be dispatched through this Redis for now: it evicts keys, or has no memory for a write. Undefined:
 * nothing speaks against it. Asked every second, so it reads INFO once and writes nothing.
 */
export async function redisNotReady(redis: Redis, logger: Logger): Promise<string | undefined> {
  const refused = takeOutOfMemory(redis);
  const { policy, used, limit } = await readMemory(redis);
  const known = policy ?? (await askPolicy(redis, logger));
  if (known !== undefined && known !== NO_EVICTION) {
    return `maxmemory-policy is ${known}, under which Redis deletes data: set it to ${NO_EVICTION}`;
  }
  if (limit > 0 && used >= limit) {
    return `Redis is out of memory (${mebibytes(used)} of maxmemory ${mebibytes(limit)}): raise maxmemory or free some`;
  }
  return refused ? 'Redis refused a write for want of memory' : undefined;
}

/** @throws UserError when Redis evicts keys: levelhook's are all data, and none of them a copy. */
export async function refuseEviction(redis: Redis, url: string, logger: Logger): Promise<void> {
  const policy = (await readMemory(redis)).policy ?? (await askPolicy(redis, logger));
  if (policy === undefined || policy === NO_EVICTION) return;
  throw new UserError(
    `The Redis at ${withoutPassword(url)} has maxmemory-policy ${policy} and would delete queued keys when its memory is short: set maxmemory-policy to ${NO_EVICTION}.`,
  );
}

interface Memory {
  readonly policy: string | undefined;
  /** What counts towards the limit, in bytes. */
  readonly used: number;
  /** 0: none. */
  readonly limit: number;
}

async function readMemory(redis: Redis): Promise<Memory> {
  const info = await redis.info('memory');
  const field = (name: string): string | undefined => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1];
  const bytes = (name: string): number => Number(field(name) ?? 0);
  // Buffers of replicas and of the append-only file use memory and do not count against the limit.
  const used = bytes('used_memory') - bytes('mem_not_counted_for_evict');
  return { policy: field('maxmemory_policy'), used, limit: bytes('maxmemory') };
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

function mebibytes(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}
