import { setTimeout as sleep } from 'node:timers/promises';

/** Tries until `attempt` no longer throws, and gives its value; after `limitMs` throws what it threw last. */
export async function eventually<T>(attempt: () => Promise<T>, limitMs = 60_000, everyMs = 100): Promise<T> {
  const end = Date.now() + limitMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    await sleep(everyMs);
  }
}
