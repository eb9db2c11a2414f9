import type { Redis } from 'ioredis';
import { POSITION } from '../../src/contract/cache-layout.ts';

/** The encoded objects of a view by their keys. @param objects the key of their HASH in Redis */
export async function storedObjects(redis: Redis, objects: string): Promise<Record<string, Buffer>> {
  const { [POSITION]: _, ...found } = await redis.hgetallBuffer(objects);
  return found;
}

/** The objects of a view as JSON, if it is neither compressed nor encrypted. */
export async function storedTexts(redis: Redis, objects: string): Promise<Record<string, string>> {
  const found = Object.entries(await storedObjects(redis, objects));
  return Object.fromEntries(found.map(([key, bytes]) => [key, bytes.toString('utf8')]));
}
