import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { groupWrites } from '../../contract/node/grouped-writes.ts';
import { type Logger, messageOf } from '../../core/index.ts';
import type { RedisCredentials, RedisSecrets } from './redis-files.ts';

/** Event of a cluster, see `addCluster`. */
export const NODE_LOST = 'node lost';

/** How often the files of user and password are read. */
const LOOK_MS = 5000;

/**
 * All connections that are made from one Redis URL: one for commands, and its duplicates, such as those of BullMQ. Each
 * connects with the present content of the files. When user or password change, each open connection authenticates
 * again, so it stays open even if Redis or a hosting service ends connections with old credentials.
 */
export class Connections {
  readonly #secrets: RedisSecrets;
  readonly #logger: Logger;
  readonly #open = new Set<Redis>();
  #used: RedisCredentials;
  #refusal = '';
  #isAuthenticating = false;
  readonly #timer: NodeJS.Timeout;

  /** Call `close` in the end. */
  constructor(secrets: RedisSecrets, logger: Logger) {
    this.#secrets = secrets;
    this.#logger = logger;
    this.#used = secrets.credentials;
    this.#timer = setInterval(() => void this.#look(), LOOK_MS).unref();
  }

  /** Makes a connection that has not connected yet, and each of its duplicates, one of these. */
  add(redis: Redis): Redis {
    if (redis.options.sentinels) {
      listenToSentinels(redis);
      redis.on('ready', () => this.#leaveFormerMaster(redis));
    }
    return this.#addWithDuplicates(redis);
  }

  /**
   * As `add`, with the connections to all nodes. The cluster emits `NODE_LOST` when a connection to a node is lost:
   * then another process may answer for a part of the keys.
   */
  addCluster(cluster: Cluster): Cluster {
    cluster.on('+node', (node: Redis) => {
      groupWrites(node);
      node.on('close', () => this.#open.has(node) && cluster.emit(NODE_LOST));
      this.#add(node);
    });
    const duplicate = cluster.duplicate.bind(cluster);
    cluster.duplicate = (nodes, options) => this.addCluster(duplicate(nodes, options));
    return cluster;
  }

  #addWithDuplicates(redis: Redis): Redis {
    const duplicate = redis.duplicate.bind(redis);
    redis.duplicate = (override?: Partial<RedisOptions>) => {
      // One connection to each Sentinel is enough.
      return this.#addWithDuplicates(duplicate({ failoverDetector: false, ...override }));
    };
    return this.#add(redis);
  }

  #add(redis: Redis): Redis {
    follow(redis.options, this.#secrets);
    if (redis.options.sentinels) keepLooking(redis);
    redis.on('ready', () => {
      this.#open.add(redis);
      // `maxmemory-clients` is for functions that do not read their answers. A Redis before 7, or without the right,
      // refuses.
      redis.call('CLIENT', 'NO-EVICT', 'ON').catch(() => {});
    });
    redis.on('close', () => this.#open.delete(redis));
    return redis;
  }

  /** The connections that lead to another process than this one, which has just found the master, look for it too. */
  #leaveFormerMaster(redis: Redis): void {
    const master = remoteOf(redis);
    for (const other of this.#open) if (other !== redis && remoteOf(other) !== master) other.disconnect(true);
  }

  /** Ends the reading of the files. */
  close(): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { username, password } = this.#secrets.credentials;
    if (password === undefined || (username === this.#used.username && password === this.#used.password)) return;
    // A connection with a blocking read answers late.
    if (this.#isAuthenticating) return;
    this.#isAuthenticating = true;
    try {
      await Promise.all([...this.#open].map((redis) => redis.auth(username ?? 'default', password)));
    } catch (error) {
      // The connections go on as before. Redis may learn the new password later than the file.
      const reason = messageOf(error);
      if (reason !== this.#refusal) {
        this.#logger.warn({ error: reason }, 'Redis refuses the changed user or password, trying again');
      }
      this.#refusal = reason;
      return;
    } finally {
      this.#isAuthenticating = false;
    }
    this.#used = { username, password };
    this.#refusal = '';
    this.#logger.info({}, 'user or password of Redis have changed, the open connections have authenticated again');
  }
}

function remoteOf({ stream: { remoteAddress, remotePort } }: Redis): string {
  return `${remoteAddress} ${remotePort}`;
}

/** The connections that tell ioredis of a failover have no listener, so ioredis would print their errors. */
function listenToSentinels(redis: Redis): void {
  const { connector } = redis as unknown as { connector: { connectToSentinel: (...all: unknown[]) => Redis } };
  const connect = connector.connectToSentinel.bind(connector);
  connector.connectToSentinel = (...all) => connect(...all).on('error', () => {});
}

/**
 * Trap: ioredis ends a connection for good if it hears of a failover, or is to connect again, while it asks the
 * Sentinels for the master. Such a connection connects again once there is a connection, because it may be one to the
 * former master.
 */
function keepLooking(redis: Redis): void {
  const inside = redis as unknown as { connector: { disconnect: () => void }; manuallyClosing: boolean };
  const disconnect = inside.connector.disconnect.bind(inside.connector);
  let again = false;
  inside.connector.disconnect = () => {
    if (redis.status === 'connecting' && !inside.manuallyClosing) again = true;
    else disconnect();
  };
  redis.on('close', () => (again = false));
  redis.on('connect', () => {
    if (again) disconnect();
  });
}

/** Makes the options of a connection read the files. ioredis reads the options whenever it connects. */
function follow(options: RedisOptions, secrets: RedisSecrets): void {
  const read = (get: () => string | undefined): PropertyDescriptor => ({ get, enumerable: true, configurable: true });
  Object.defineProperties(options, {
    username: read(() => secrets.credentials.username),
    password: read(() => secrets.credentials.password),
    sentinelUsername: read(() => secrets.sentinelCredentials.username),
    sentinelPassword: read(() => secrets.sentinelCredentials.password),
  });
}

/** Options of TLS that are read from their files whenever a connection is made. */
export function tlsOptions(secrets: RedisSecrets): object {
  const read = (get: () => string | undefined): PropertyDescriptor => ({ get, enumerable: true });
  return Object.defineProperties(
    {},
    { ca: read(() => secrets.tls.ca), cert: read(() => secrets.tls.cert), key: read(() => secrets.tls.key) },
  );
}
