import type { Redis } from '../redis/redis.ts';

/**
 * The identity of the Redis process. Another one may have come up without the last writes (append-only file synced once
 * a second), from an older snapshot, or empty: data written on the old process may be lost. The same process is
 * another one for this purpose when it has evicted keys since.
 */
export async function redisRunId(redis: Redis): Promise<string> {
  const [info, stats] = await Promise.all([redis.info('server'), redis.info('stats')]);
  const runId = /^run_id:(\S+)/m.exec(info)?.[1];
  if (!runId) throw new Error('Redis names no run_id in INFO server');
  const evicted = Number(/^evicted_keys:(\d+)/m.exec(stats)?.[1] ?? 0);
  return evicted === 0 ? runId : `${runId}+${evicted}`;
}

/** A part of the data in Redis that can be lost: a view or a queue. */
export interface Incarnated {
  readonly name: string;
  state(): Promise<{ incarnation: string | undefined; runId: string | undefined }>;
  /** Begins a new incarnation on this Redis process. */
  renew(runId: string): Promise<void>;
}
