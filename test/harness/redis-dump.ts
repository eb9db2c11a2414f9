import { Redis } from 'ioredis';

/**
 * Every key that begins with `{prefix:`, and every value in it, byte by byte: all that a reader of Redis sees.
 */
export async function dumpRedis(url: string, prefix: string): Promise<string> {
  const redis = new Redis(url);
  try {
    const seen: string[] = [];
    for await (const keys of redis.scanStream({ match: `*${prefix}*`, count: 1000 }) as AsyncIterable<string[]>) {
      for (const key of keys) seen.push(key, ...flat(await valueOf(redis, key)));
    }
    return seen.join('\n');
  } finally {
    redis.disconnect();
  }
}

async function valueOf(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key);
  switch (type) {
    case 'string':
      return redis.getBuffer(key);
    case 'hash':
      return Object.entries(await redis.hgetallBuffer(key));
    case 'set':
      return redis.smembersBuffer(key);
    case 'zset':
      return redis.zrangeBuffer(key, '0', '-1');
    case 'list':
      return redis.lrangeBuffer(key, 0, -1);
    case 'stream':
      return redis.xrangeBuffer(key, '-', '+');
    case 'none':
      return [];
    default:
      throw new Error(`${key} is a ${type}, which this does not read`);
  }
}

function flat(value: unknown): string[] {
  if (Buffer.isBuffer(value)) return [value.toString('latin1')];
  return Array.isArray(value) ? value.flatMap(flat) : [String(value)];
}
