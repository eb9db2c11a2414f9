import { viewKeys } from '../../../contract/cache-layout.ts';
import { loadScript, type Redis } from '../../../ground/redis/redis.ts';

/**
 * Removes the data of users that no longer exist from a view, in one step. A chunk under way may bring it back once.
 * @param prefix of the view's keys.
 */
export async function forgetUsers(redis: Redis, prefix: string, users: readonly string[]): Promise<void> {
  await loadScript(redis, import.meta.url, 'forget-users')([viewKeys(prefix).view], users);
}
