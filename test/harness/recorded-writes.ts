import type { Redis } from '../../src/ground/redis/redis.ts';

/**
 * The writes that a run has made through the gateway, as Redis has them, in no order.
 * @param key of their HASH (`begin-write.lua`).
 */
export async function recordedWrites(redis: Pick<Redis, 'hgetall'>, key: string): Promise<object[]> {
  const fields = await redis.hgetall(key);
  return Object.entries(fields).flatMap(([field, text]) => (field.startsWith('w') ? [JSON.parse(text) as object] : []));
}
