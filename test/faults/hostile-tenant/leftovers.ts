import type { Redis } from 'ioredis';
import { HISTORY_MS } from '../../../src/gateway/controller/workqueue/queue-options.ts';
import { allKeys } from './spy.ts';

/** The histories of keys of one queue, and the members that name them. */
const HISTORY_OF_KEYS = /:queue:([^}]*)\}:(?:history:|histories$)/;

/**
 * Whether this is the history of the keys of a controller that is still there. As a log, it names the objects that the
 * controller has reconciled, and it ends by itself an hour after the last outcome (ADR 0046).
 */
async function isLog(redis: Redis, key: string, texts: readonly string[]): Promise<boolean> {
  const [, controller] = HISTORY_OF_KEYS.exec(key) ?? [];
  if (controller === undefined || texts.some((text) => controller.includes(text))) return false;
  const leftMs = await redis.pttl(key);
  return leftMs > 0 && leftMs <= HISTORY_MS;
}

/**
 * Where any of these texts stands in Redis: in the name of a key, in a field or in a value. The histories of
 * controllers that are still there are not looked into: see `isLog`, and `:recent` is a log of all keys.
 */
export async function findInRedis(redis: Redis, texts: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const look = (where: string, ...parts: readonly (string | Buffer)[]): void => {
    if (parts.some((part) => texts.some((text) => part.includes(text)))) found.push(where);
  };
  for (const key of await allKeys(redis)) {
    if (await isLog(redis, key, texts)) continue;
    look(`the key ${key}`, key);
    switch (await redis.type(key)) {
      case 'string':
        look(`the text ${key}`, (await redis.getBuffer(key)) ?? '');
        break;
      case 'hash':
        for (const [field, value] of Object.entries(await redis.hgetallBuffer(key))) {
          look(`the field ${field} of ${key}`, field, value);
        }
        break;
      case 'set':
        for (const member of await redis.smembers(key)) look(`the member ${member} of ${key}`, member);
        break;
      case 'zset':
        for (const member of await redis.zrange(key, '0', '-1')) look(`the member ${member} of ${key}`, member);
        break;
      case 'list':
        for (const item of await redis.lrange(key, 0, -1)) look(`an item of ${key}`, item);
        break;
      case 'stream':
        if (key.endsWith(':recent')) break;
        for (const [id, fields] of await redis.xrange(key, '-', '+')) look(`the entry ${id} of ${key}`, ...fields);
        break;
      case 'none':
        // Expired meanwhile.
        break;
      default:
        throw new Error(`${key} is of a type that is not looked into`);
    }
  }
  const users = (await redis.call('ACL', 'LIST')) as string[];
  for (const user of users) look(`the Redis user ${user.slice(0, 120)}`, user);
  return found;
}

/** The series of metrics that hold any of these texts. */
export async function findInMetrics(gatewayUrl: string, texts: readonly string[]): Promise<string[]> {
  const text = await (await fetch(`${gatewayUrl}/metrics`)).text();
  return text.split('\n').filter((line) => texts.some((each) => line.includes(each)));
}
