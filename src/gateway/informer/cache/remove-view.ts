import { randomUUID } from 'node:crypto';
import { KEPT_OUT_INDEX, LEFT_OUT_INDEX, viewKeys } from '../../../contract/cache-layout.ts';
import { keysWith, loadScript, type Redis } from '../../../ground/redis/redis.ts';

/**
 * Removes a view. The first step removes its version together with its objects, so that a gateway that finds the rest
 * of a removal lists the view anew. No later step touches a view that a gateway has taken since.
 * @param prefix of the view's keys.
 * @param writer the ID of the view's writer, '' for none.
 * @returns whether the view is gone; false: another writer has it.
 */
export async function removeView(redis: Redis, prefix: string, writer: string): Promise<boolean> {
  const run = loadScript(redis, import.meta.url, 'remove-view');
  const { entries, indexPrefix, objects, order, outbox, view } = viewKeys(prefix);
  const id = randomUUID();
  const step = async (keys: readonly string[], ...args: readonly string[]): Promise<boolean> =>
    (await run([view, ...keys], [id, ...args])) === 1;
  const first = [objects, entries, order, outbox, indexPrefix + KEPT_OUT_INDEX, indexPrefix + LEFT_OUT_INDEX];
  if (!(await step(first, 'begin', writer))) return false;
  for await (const keys of keysWith(redis, `${prefix}:`)) {
    const rest = keys.filter((key) => key !== view);
    if (!(await step(rest, 'go on'))) return false;
  }
  return step([], 'end');
}
