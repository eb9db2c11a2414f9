import type { RedisAddress, RedisHost } from './redis-url.ts';

/** Options of ioredis' `Redis`, or of the nodes of its `Cluster`, whose addresses are not part of them. */
export type RedisAddressOptions = ServerOptions & SentinelOptions;

interface ServerOptions {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
  readonly tls?: object;
  readonly username?: string;
  readonly password?: string;
  readonly db?: number;
  readonly reconnectOnError: (error: Error) => false | 2;
}

interface SentinelOptions {
  readonly sentinels?: RedisHost[];
  /** The master's name. */
  readonly name?: string;
  readonly enableTLSForSentinelMode?: boolean;
  readonly sentinelTLS?: object;
  readonly sentinelCommandTimeout?: number;
  readonly connectTimeout?: number;
}

/** A server that does not answer must not delay the attempt to connect to the next. */
const NEXT_MS = 3000;

/**
 * How ioredis connects to a Redis address. A command that a demoted master refuses is sent again after a reconnect.
 * @param tls for connections by TLS. Default: Node's authorities.
 */
export function redisOptions(address: RedisAddress, tls: object = {}): RedisAddressOptions {
  const { kind, hosts, path, masterName, database, hasTls, username, password } = address;
  const [first] = hosts;
  const common = {
    ...(hasTls ? { tls } : {}),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(database === 0 ? {} : { db: database }),
    reconnectOnError,
  };
  switch (kind) {
    case 'server':
      return { ...common, ...(path === undefined ? first : { path }) };
    case 'sentinel':
      return {
        ...common,
        sentinels: [...hosts],
        name: masterName ?? '',
        sentinelCommandTimeout: NEXT_MS,
        connectTimeout: NEXT_MS,
        ...(hasTls ? { enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
      };
    case 'cluster':
      return { ...common, connectTimeout: NEXT_MS };
  }
}

/**
 * Whether the connection leads to a master that has become a replica, which refuses writes: 2, so that ioredis connects
 * again and then sends the refused command again. Redis 6 puts the script's name before the code.
 */
function reconnectOnError({ message }: Error): false | 2 {
  return /(?:^|-)READONLY\b|^UNBLOCKED\b/.test(message) ? 2 : false;
}
