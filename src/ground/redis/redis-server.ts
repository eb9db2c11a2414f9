import { UserError } from '../../core/index.ts';
import { variableOf } from '../config/config.ts';
import { masters } from './cluster.ts';
import { type Redis, withoutPassword } from './redis.ts';
import { evictionReason, infoField, memoryOf, mebibytes, NO_EVICTION } from './redis-memory.ts';

/** The problems that a Redis server can have, as the metric `levelhook_redis_problem` names them. */
export const REDIS_PROBLEMS = ['eviction', 'memory', 'persistence', 'role', 'version'] as const;
export type RedisProblem = (typeof REDIS_PROBLEMS)[number];

export interface FoundProblem {
  readonly problem: RedisProblem;
  /** One sentence without its full stop: the problem and its remedy. */
  readonly reason: string;
  /** Whether the gateway cannot work with this server, or not without losing data. */
  readonly stops: boolean;
}

/** The facts that a Redis server reports about itself. Undefined: the server does not report this fact. */
export interface ServerFacts {
  readonly product: 'Redis' | 'Valkey';
  /** The product's own version. */
  readonly version: string | undefined;
  /** The version of Redis whose commands it has. */
  readonly redisVersion: string | undefined;
  readonly role: string | undefined;
  /** `host:port`; undefined unless it is a replica. */
  readonly replicaOf: string | undefined;
  readonly policy: string | undefined;
  /** Bytes that count towards the limit. */
  readonly used: number;
  /** Bytes; 0: none. */
  readonly limit: number;
  readonly persistence: Persistence;
}

export interface Persistence {
  /** Whether it keeps an append-only file. */
  readonly appendOnly: boolean | undefined;
  /** Whether it saves snapshots by itself. */
  readonly snapshots: boolean | undefined;
  /** The names in INFO of failed operations, such as `rdb_last_bgsave_status`. */
  readonly failed: readonly string[];
}

/**
 * `ZADD … LT` in the queue's scripts came with it. BullMQ recommends it, and takes 5.0. All versions of Valkey have it.
 */
const LEAST_VERSION = '6.2.0';
/** A share of `maxmemory`. */
const NEAR_LIMIT = 0.9;
const STATUSES = ['rdb_last_bgsave_status', 'aof_last_bgrewrite_status', 'aof_last_write_status'];

/** Reads INFO, and where the server allows it, the configuration that INFO leaves out. */
export async function readServer(redis: Pick<Redis, 'info' | 'config'>): Promise<ServerFacts> {
  const info = await redis.info();
  const policy = infoField(info, 'maxmemory_policy') ?? (await configValue(redis, 'maxmemory-policy'));
  return serverFacts(info, { policy, save: await configValue(redis, 'save') });
}

/** A value of the configuration. Undefined: the server has none, or hides its configuration, as hosted ones do. */
async function configValue(redis: Pick<Redis, 'config'>, name: string): Promise<string | undefined> {
  try {
    const answer = await redis.config('GET', name);
    return answer[1];
  } catch (error) {
    if (error instanceof Error && error.name === 'ReplyError') return undefined;
    throw error;
  }
}

/** @param config the values of `maxmemory-policy` and `save`. */
export function serverFacts(
  info: string,
  config: { readonly policy: string | undefined; readonly save: string | undefined },
): ServerFacts {
  const redisVersion = infoField(info, 'redis_version');
  const valkeyVersion = infoField(info, 'valkey_version');
  const role = infoField(info, 'role');
  const { used, limit } = memoryOf(info);
  const appendOnly = infoField(info, 'aof_enabled');
  return {
    product: valkeyVersion === undefined ? 'Redis' : 'Valkey',
    version: valkeyVersion ?? redisVersion,
    redisVersion,
    role,
    replicaOf:
      role === 'slave' || role === 'replica'
        ? `${infoField(info, 'master_host') ?? '?'}:${infoField(info, 'master_port') ?? '?'}`
        : undefined,
    policy: config.policy,
    used,
    limit,
    persistence: {
      appendOnly: appendOnly === undefined ? undefined : appendOnly === '1',
      snapshots: snapshots(config.save, infoField(info, 'rdb_saves')),
      failed: STATUSES.filter((name) => infoField(info, name) === 'err'),
    },
  };
}

/** Without the configuration a snapshot since the start shows it; none shows nothing. */
function snapshots(save: string | undefined, saves: string | undefined): boolean | undefined {
  if (save !== undefined) return save.trim() !== '';
  return Number(saves ?? 0) > 0 ? true : undefined;
}

/**
 * All problems of the server; problems that stop the gateway come first. A fact that the server does not report counts
 * as right.
 */
export function problemsOf(facts: ServerFacts): FoundProblem[] {
  const { product, version, redisVersion, replicaOf, policy, used, limit } = facts;
  const found: FoundProblem[] = [];
  const add = (problem: RedisProblem, stops: boolean, reason: string): void => {
    found.push({ problem, stops, reason });
  };
  if (redisVersion !== undefined && isLower(redisVersion, LEAST_VERSION)) {
    add('version', true, `${product} is version ${version}, and levelhook needs ${LEAST_VERSION} or later: update it`);
  }
  if (replicaOf !== undefined) {
    add('role', true, `${product} is a replica of ${replicaOf}: name the master in ${variableOf('redisUrl')}`);
  }
  if (policy !== undefined && policy !== NO_EVICTION) add('eviction', true, evictionReason(policy));
  const persistence = persistenceProblem(facts);
  if (persistence !== undefined) add('persistence', false, persistence);
  if (limit > 0 && used >= limit * NEAR_LIMIT) {
    const percent = Math.floor((used / limit) * 100);
    const figures = `${percent} % of its memory (${mebibytes(used)} of maxmemory ${mebibytes(limit)})`;
    add('memory', false, `${product} uses ${figures}: raise maxmemory or free some before the gateway has to pause`);
  }
  return found;
}

function persistenceProblem({ product, persistence }: ServerFacts): string | undefined {
  const { appendOnly, snapshots: saves, failed } = persistence;
  if (appendOnly === false && saves === false) {
    return `${product} keeps no data on disk, and a restart loses all backoffs and dead letters: set appendonly to yes`;
  }
  if (failed.length === 0) return undefined;
  return `${product} failed to write its data to disk (${failed.join(', ')}): look at its log and its disk`;
}

/** `problemsOf` the server behind a connection, or of each master of a cluster, whose address the reason then names. */
export async function findProblems(redis: Redis): Promise<FoundProblem[]> {
  const servers = masters(redis);
  const found = await Promise.all(
    servers.map(async (server) => {
      const { host, port } = server.options;
      const at = servers.length > 1 ? `${host}:${port}: ` : '';
      return problemsOf(await readServer(server)).map((each) => ({ ...each, reason: at + each.reason }));
    }),
  );
  return found.flat();
}

/** @throws UserError for the first problem with which the gateway must not start. */
export async function refuseUnusable(redis: Redis, url: string): Promise<void> {
  const problem = (await findProblems(redis)).find(({ stops }) => stops);
  if (problem) throw new UserError(`The Redis at ${withoutPassword(url)} cannot be used: ${problem.reason}.`);
}

function isLower(version: string, least: string): boolean {
  const [given, wanted] = [version, least].map((text) => text.split('.').map((part) => Number.parseInt(part, 10) || 0));
  for (const [at, part] of (wanted ?? []).entries()) {
    const own = given?.[at] ?? 0;
    if (own !== part) return own < part;
  }
  return false;
}
