import { gatewayKeys } from '../../contract/cache-layout.ts';
import type { Redis } from './redis.ts';

/** Where the data of this gateway's cluster is in Redis: the connection, and the parts of the keys' names. */
export interface RedisLocation {
  readonly redis: Redis;
  /** Begins every key. */
  readonly keyPrefix: string;
  readonly clusterId: string;
  /** HASH: the Redis process, the controllers that have dispatched through it, and the time. */
  readonly registryKey: string;
  /** SET of the prefixes of all views that this gateway keeps. */
  readonly viewsKey: string;
  /** Begins the keys of browsers' sessions. */
  readonly sessionsPrefix: string;
  /** HASH: the last replay of dead letters of each controller. */
  readonly replaysKey: string;
}

export function redisLocation(redis: Redis, keyPrefix: string, clusterId: string): RedisLocation {
  const { registry, views, sessions, replays } = gatewayKeys({ keyPrefix, clusterId });
  return {
    redis,
    keyPrefix,
    clusterId,
    registryKey: registry,
    viewsKey: views,
    sessionsPrefix: sessions,
    replaysKey: replays,
  };
}
