/** One TCP address. */
export interface RedisHost {
  readonly host: string;
  readonly port: number;
}

/** A Redis URL, parsed. Credentials are for the Redis servers; Sentinels may have others. */
export interface RedisAddress {
  /** One server; a master with its replicas, found through Sentinels; or a Redis Cluster. */
  readonly kind: 'server' | 'sentinel' | 'cluster';
  /** The server, the Sentinels, or some nodes of the cluster. Empty if `path` is set. */
  readonly hosts: readonly RedisHost[];
  /** The server's Unix socket. */
  readonly path: string | undefined;
  /** The Sentinels' name for the master; undefined for the other kinds. */
  readonly masterName: string | undefined;
  readonly database: number;
  readonly hasTls: boolean;
  readonly username: string | undefined;
  readonly password: string | undefined;
}

/** The forms of a Redis URL, for messages. */
const SCHEMES =
  'redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster://, or be the path of a socket';

/**
 * Reads a Redis URL. The forms are those of redis-py, RedisVL, limits and Prefect:
 *
 * - `redis://[user:password@]host[:6379][/database]`
 * - `redis+sentinel://[user:password@]host[:26379][,host[:26379]...]/masterName[/database]`
 * - `redis+cluster://[user:password@]host[:6379][,host[:6379]...]`
 *
 * each with `rediss` instead of `redis` for TLS, with Sentinels too; or `/path/of/a/socket`. User and password are
 * percent-encoded.
 * @throws TypeError that continues "REDIS_URL is wrong: ". It shows no part of the URL, which may hold a password.
 */
export function parseRedisUrl(url: string): RedisAddress {
  if (url.startsWith('/') && !url.startsWith('//')) return { ...NOTHING, path: url };
  const parts = /^redis(s?)(?:\+(sentinel|cluster))?:\/\/([^/?#]*)([^?#]*)(.*)$/.exec(url);
  if (!parts) throw new TypeError(`must begin with ${SCHEMES}`);
  const [, tls, kind = 'server', authority = '', path = '', rest = ''] = parts;
  // A password with a slash would end the hosts.
  if ((path + rest).includes('@')) throw new TypeError('must have / ? # and @ of a password as %2F %3F %23 and %40');
  if (rest !== '') throw new TypeError('must have nothing behind the path: options are not supported');
  const at = authority.lastIndexOf('@');
  return {
    ...NOTHING,
    ...hostsAndPath(kind as RedisAddress['kind'], authority.slice(at + 1), path),
    ...(at < 0 ? {} : credentialsOf(authority.slice(0, at))),
    hasTls: tls === 's',
  };
}

/** A Redis URL for a log or a message: without user and password. A wrong URL is not shown at all. */
export function withoutPassword(url: string): string {
  let address: RedisAddress;
  try {
    address = parseRedisUrl(url);
  } catch {
    return '(a wrong URL)';
  }
  const { kind, hosts, path, masterName, database, hasTls, username, password } = address;
  if (path !== undefined) return path;
  const scheme = `redis${hasTls ? 's' : ''}${kind === 'server' ? '' : `+${kind}`}`;
  const hidden = username === undefined && password === undefined ? '' : '***@';
  const list = hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(',');
  const name = masterName === undefined ? '' : `/${masterName}`;
  return `${scheme}://${hidden}${list}${name}${database === 0 ? '' : `/${database}`}`;
}

const NOTHING: RedisAddress = {
  kind: 'server',
  hosts: [],
  path: undefined,
  masterName: undefined,
  database: 0,
  hasTls: false,
  username: undefined,
  password: undefined,
};

function hostsAndPath(kind: RedisAddress['kind'], authority: string, path: string): Partial<RedisAddress> {
  const hosts = authority.split(',').map((text) => hostOf(text, kind === 'sentinel' ? 26_379 : 6379));
  const words = path.split('/').slice(1);
  if (words.at(-1) === '') words.pop();
  switch (kind) {
    case 'server':
      if (hosts.length > 1)
        throw new TypeError('must have one host; several belong to redis+sentinel or redis+cluster');
      return { kind, hosts, database: databaseOf(words) };
    case 'sentinel': {
      const [name = '', ...database] = words;
      if (!/^[\w.-]+$/.test(name)) {
        throw new TypeError('must have the name of the master, as in redis+sentinel://host:26379/mymaster');
      }
      return { kind, hosts, masterName: name, database: databaseOf(database) };
    }
    case 'cluster':
      if (words.some((word) => word !== '0'))
        throw new TypeError('must have no database: a Redis Cluster has one only');
      return { kind, hosts };
  }
}

function hostOf(text: string, defaultPort: number): RedisHost {
  const parts = /^(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::(\d{1,5}))?$/.exec(text);
  const port = Number(parts?.[3] ?? defaultPort);
  if (!parts || port < 1 || port > 65_535) throw new TypeError('must have hosts as host:port, separated by commas');
  return { host: parts[1] ?? parts[2] ?? '', port };
}

function databaseOf(words: readonly string[]): number {
  const [word = '0', ...more] = words;
  if (!/^\d{1,4}$/.test(word) || more.length > 0) throw new TypeError('must end with the number of a database');
  return Number(word);
}

function credentialsOf(text: string): Partial<RedisAddress> {
  const colon = text.indexOf(':');
  const [username, password] = colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
  return { username: decoded(username) || undefined, password: decoded(password) || undefined };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError('must have user and password percent-encoded');
  }
}
