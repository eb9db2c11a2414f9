import type { Cluster, Redis } from 'ioredis';
import { NODE_LOST } from './connections.ts';

/** The number of hash slots of each Redis Cluster. */
const SLOTS = 16_384;

/** The cluster behind a connection; undefined for a connection to one process at a time. */
function clusterOf(redis: Redis): Cluster | undefined {
  return redis.isCluster ? (redis as unknown as Cluster) : undefined;
}

/**
 * The connections to the processes that hold the keys: that of a server, or those of all masters of a cluster.
 * @throws Error while the cluster has no master, or none that is known, for a part of the keys.
 */
export function masters(redis: Redis): Redis[] {
  const cluster = clusterOf(redis);
  if (!cluster) return [redis];
  const nodes = cluster.nodes('master');
  const known = new Set(nodes.map(({ options: { host, port } }) => `${host}:${port}`));
  const serving = new Set<string>();
  for (let slot = 0; slot < SLOTS; slot += 1) {
    const key = cluster.slots[slot]?.[0] ?? '';
    if (!known.has(key)) {
      // Else ioredis asks again only when a command is refused.
      cluster.refreshSlotsCache();
      throw new Error('a part of the Redis Cluster has no master');
    }
    serving.add(key);
  }
  return nodes.filter(({ options: { host, port } }) => serving.has(`${host}:${port}`));
}

/** The master of a cluster that has the key, as `host:port`; the empty text for a server that is none. */
export async function nodeOf(redis: Redis, key: string): Promise<string> {
  const cluster = clusterOf(redis);
  if (!cluster) return '';
  const slot = Number(await masters(redis)[0]?.call('CLUSTER', 'KEYSLOT', key));
  return cluster.slots[slot]?.[0] ?? '';
}

/**
 * Listens for the loss of the connection: from then on another process may answer, for a part of the keys at least.
 * @param back there is a connection again, or for a cluster the search for one goes on.
 * @returns ends the listening.
 */
export function onConnection(redis: Redis, lost: () => void, back: () => void = () => {}): () => void {
  const cluster = clusterOf(redis);
  if (!cluster) {
    redis.on('close', lost);
    redis.on('ready', back);
    return () => {
      redis.off('close', lost);
      redis.off('ready', back);
    };
  }
  const both = (): void => {
    lost();
    back();
  };
  cluster.on(NODE_LOST, both);
  return () => void cluster.off(NODE_LOST, both);
}
