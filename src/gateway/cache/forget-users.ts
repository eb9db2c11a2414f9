import { viewKeys } from '../../contract/cache-layout.ts';
import { loadScript, type Redis } from '../redis/redis.ts';

/**
 * Removes what a view holds of users that are no more, in one step. A chunk that was on its way may bring it back once.
 * @param prefix of the view's keys.
 */
export async function forgetUsers(redis: Redis, prefix: string, users: readonly string[]): Promise<void> {
  await loadScript(redis, import.meta.url, 'forget-users')([viewKeys(prefix).view], users);
}
