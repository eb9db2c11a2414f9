import { createHash } from 'node:crypto';
import { masters } from '../../../ground/redis/cluster.ts';
import type { Redis } from '../../../ground/redis/redis.ts';

/**
 * The identity of the Redis process. Another process may have come up without the last writes (append-only file synced
 * once a second, or a replica that has become the master), from an older snapshot, or empty: data written on the old
 * process may be lost. A process that has evicted keys since counts as another one. For a Redis Cluster the identity
 * covers the processes of all masters, so it changes with each of them: data on one node that refers to another node
 * (the registry and the queues' runs, the outbox of a view and its queues) holds only for all of them together.
 * @throws Error while the cluster has no master for a part of the keys.
 */
export async function redisRunId(redis: Redis): Promise<string> {
  const ids = await Promise.all(masters(redis).map(processId));
  const [first = ''] = ids;
  return ids.length === 1 ? first : createHash('sha1').update(ids.toSorted().join()).digest('hex');
}

async function processId(redis: Redis): Promise<string> {
  const [info, stats, replication] = await Promise.all([
    redis.info('server'),
    redis.info('stats'),
    redis.info('replication'),
  ]);
  const runId = /^run_id:(\S+)/m.exec(info)?.[1];
  if (!runId) throw new Error('Redis names no run_id in INFO server');
  if (/^role:(?!master)/m.test(replication)) throw new Error('Redis has become a replica');
  const evicted = Number(/^evicted_keys:(\d+)/m.exec(stats)?.[1] ?? 0);
  return evicted === 0 ? runId : `${runId}+${evicted}`;
}
