import { messageOf, type Runtime } from '../../core/index.ts';
import { masters, nodeOf } from './cluster.ts';
import type { Redis } from './redis.ts';
import { mebibytes, readMemory } from './redis-memory.ts';

/** The data that a namespace makes the gateway store: its objects in the views, or the keys of its controllers. */
export type Holding = 'objects' | 'keys';

/** A part of the data whose keys all have one hash tag: a view, or the queue of a controller. */
export interface MemoryHolder {
  /** Begins all its keys. */
  readonly prefix: string;
  readonly holding: Holding;
  /** The bytes in Redis of each namespace, about. Data of no namespace is left out. */
  readonly weigh: () => Promise<ReadonlyMap<string, number>>;
}

/** A writer's checks of the memory before it writes. */
export interface MemoryGuard {
  /**
   * Call before a write. Resolves at once, unless memory is short with these bytes; then it first reads how much each
   * namespace holds. Ask `leftOut` afterwards. Never rejects.
   * @param sizes pairs of a namespace and the bytes to write for it.
   */
  reserve(prefix: string, sizes: () => readonly (readonly [string | undefined, number])[]): Promise<void>;
  /** Why nothing more of the namespace is stored under this prefix; undefined: it is. */
  leftOut(prefix: string, holding: Holding, namespace: string | undefined): string | undefined;
}

/** Of a writer whose Redis has no limit. */
export const unlimitedMemory: MemoryGuard = { reserve: async () => {}, leftOut: () => undefined };

export interface MemorySharesOptions {
  readonly redis: Redis;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  readonly holders: () => readonly MemoryHolder[];
  /** The set of namespaces that are left out has changed. */
  readonly onChanged: () => void;
  /** Called now and then: objects of namespaces that are no longer left out can come back. */
  readonly onTakeBack: () => void;
}

/**
 * Shares of `maxmemory`: where memory begins to be short, where it no longer is, and how much every namespace may hold.
 */
const SHORT = 0.75;
const ROOMY = 0.6;
const LEAST_SHARE = 0.05;
/**
 * All namespaces are back, too, when memory has not been short for this time. After a burst, memory in ordinary use may
 * stay above `ROOMY`.
 */
const CALM_MS = 600_000;
/** While a script runs, its bytes are in Redis' buffer, among its arguments, in Lua and where they are stored. */
const COPIES = 4;
const LOOK_MS = 2000;
/** How many looks pass before left-out objects may come back. */
const TAKE_BACK_LOOKS = 5;
/** Namespaces are weighed again no sooner than after this time, and after ten times the time that weighing took. */
const WEIGH_MS = 1000;
const WEIGH_SHARE = 10;

const REASON = 'its namespace holds more than its share of the memory of Redis, which is short';

/**
 * One Redis server: the only server, or a master of a cluster. Its state is not stored: after a restart, and in another
 * gateway, a look finds the same.
 */
class Server {
  used = 0;
  limit = 0;
  /** Reserved since memory was read, and by writers that wait for a look now. */
  reserved = 0;
  pending = 0;
  /** Bytes by account as last weighed, and the bytes reserved since then. */
  weighed: ReadonlyMap<string, number> = new Map();
  added = new Map<string, number>();
  weighAgainMs = -Infinity;
  shortAtMs = -Infinity;
  /** Left-out accounts, with the bytes that they held. */
  readonly leftOut = new Map<string, number>();

  get shortage(): number {
    return this.limit === 0 ? 0 : this.used + this.reserved - this.limit * SHORT;
  }
}

/**
 * Shares of `maxmemory`. While memory is short, a namespace that holds more than an equal share is left out: nothing
 * more of it is stored, its readers and controllers learn the reason, and others are served. The largest comes first,
 * and no more are left out than the shortage takes; a namespace with less than a twentieth of the memory never is. All
 * are back when there is room again, or when memory has not been short for ten minutes.
 */
export class MemoryShares implements MemoryGuard {
  readonly #options: MemorySharesOptions;
  readonly #servers = new Map<string, Server>();
  /** By prefix, the server that has its keys. */
  readonly #places = new Map<string, string>();
  #looking: Promise<void> | undefined;

  constructor(options: MemorySharesOptions) {
    this.#options = options;
  }

  leftOut(prefix: string, holding: Holding, namespace: string | undefined): string | undefined {
    if (namespace === undefined) return undefined;
    const server = this.#servers.get(this.#places.get(prefix) ?? '');
    return server?.leftOut.has(accountOf(holding, namespace)) ? REASON : undefined;
  }

  async reserve(prefix: string, sizes: () => readonly (readonly [string | undefined, number])[]): Promise<void> {
    const server = this.#servers.get(await this.#placeOf(prefix));
    if (!server || server.limit === 0) return;
    const all = sizes();
    const taken = all.reduce((sum, [, bytes]) => sum + bytes, 0) * COPIES;
    server.reserved += taken;
    if (server.shortage <= 0) return;
    for (const [namespace, bytes] of all) {
      if (namespace !== undefined) add(server.added, accountOf('objects', namespace), bytes);
    }
    server.pending += taken;
    await this.look();
    server.pending -= taken;
  }

  async #placeOf(prefix: string): Promise<string> {
    const known = this.#places.get(prefix);
    if (known !== undefined) return known;
    const { redis } = this.#options;
    const place = await nodeOf(redis, prefix).catch(() => undefined);
    if (place !== undefined) this.#places.set(prefix, place);
    return place ?? '';
  }

  /** Looks until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    for (let looks = 0; !signal.aborted; looks += 1) {
      await this.look();
      if (looks % TAKE_BACK_LOOKS === 0) this.#options.onTakeBack();
      await this.#options.runtime.clock.sleep(LOOK_MS, signal);
    }
  }

  /** Reads how much memory is used and, if it is short, how much each namespace holds. Never rejects. */
  look(): Promise<void> {
    // A look that is under way may have read before the caller's bytes were counted: its end decides with them.
    this.#looking ??= this.#look()
      .catch((error: unknown) => {
        this.#options.runtime.logger.warn({ error: messageOf(error) }, 'the memory of Redis could not be read');
      })
      .finally(() => (this.#looking = undefined));
    return this.#looking;
  }

  async #look(): Promise<void> {
    const { redis, runtime } = this.#options;
    if (redis.status !== 'ready') return;
    const found = await Promise.all(
      masters(redis).map(async (master) => ({ name: nameOf(redis, master), memory: await readMemory(master) })),
    );
    for (const { name, memory } of found) {
      const server = this.#servers.get(name) ?? new Server();
      this.#servers.set(name, server);
      server.used = memory.used;
      server.limit = memory.limit;
      server.reserved = server.pending;
    }
    const names = new Set(found.map(({ name }) => name));
    for (const name of this.#servers.keys()) if (!names.has(name)) this.#servers.delete(name);
    if ([...this.#servers.values()].some((each) => this.#isWeighed(each))) await this.#weigh();
    const before = this.#all();
    for (const server of this.#servers.values()) decide(server, runtime.clock.now());
    this.#report(before);
  }

  #isWeighed(server: Server): boolean {
    if (server.shortage <= 0 && server.leftOut.size === 0) return false;
    return this.#options.runtime.clock.now() >= server.weighAgainMs;
  }

  async #weigh(): Promise<void> {
    const { holders, redis, runtime } = this.#options;
    const { clock } = runtime;
    const startMs = clock.now();
    const all = holders();
    const sums = new Map([...this.#servers.keys()].map((name) => [name, new Map<string, number>()]));
    for (const server of this.#servers.values()) server.added = new Map();
    for (const holder of all) {
      const { prefix, holding } = holder;
      const place = await nodeOf(redis, prefix);
      this.#places.set(prefix, place);
      const sum = sums.get(place);
      if (!sum) continue;
      for (const [namespace, bytes] of await holder.weigh()) add(sum, accountOf(holding, namespace), bytes);
    }
    const known = new Set(all.map(({ prefix }) => prefix));
    for (const prefix of this.#places.keys()) if (!known.has(prefix)) this.#places.delete(prefix);
    const tookMs = clock.now() - startMs;
    for (const [name, server] of this.#servers) {
      server.weighed = sums.get(name) ?? new Map();
      server.weighAgainMs = clock.now() + Math.max(WEIGH_MS, tookMs * WEIGH_SHARE);
    }
  }

  #all(): Map<string, { readonly server: Server; readonly bytes: number }> {
    const all = [...this.#servers].flatMap(([name, server]) =>
      [...server.leftOut].map(([account, bytes]) => [`${account}\n${name}`, { server, bytes }] as const),
    );
    return new Map(all);
  }

  #report(before: ReadonlyMap<string, unknown>): void {
    const { logger, metrics } = this.#options.runtime;
    const now = this.#all();
    for (const [id, { server, bytes }] of now) {
      if (before.has(id)) continue;
      const { holding, namespace } = parseAccount(id);
      metrics.set('levelhook_memory_left_out', { namespace, holding }, 1);
      logger.warn(
        {
          namespace,
          holding,
          holds: mebibytes(bytes),
          used: mebibytes(server.used),
          maxmemory: mebibytes(server.limit),
        },
        'Redis is short of memory: nothing more is stored of the namespace that holds most of it',
      );
    }
    for (const id of before.keys()) {
      if (now.has(id)) continue;
      const { holding, namespace } = parseAccount(id);
      void metrics.forget({ namespace, holding });
      logger.info({ namespace, holding }, 'Redis has room again: the namespace is stored as any other');
    }
    if (now.size !== before.size || [...now.keys()].some((id) => !before.has(id))) this.#options.onChanged();
  }
}

function decide(server: Server, nowMs: number): void {
  const { leftOut, limit, used } = server;
  if (server.shortage > 0) server.shortAtMs = nowMs;
  const isCalm = nowMs - server.shortAtMs >= CALM_MS;
  if (limit === 0 || (server.shortage <= 0 && (used < limit * ROOMY || isCalm))) return leftOut.clear();
  const holdings = new Map(server.weighed);
  for (const [account, bytes] of server.added) add(holdings, account, bytes);
  for (const account of leftOut.keys()) {
    if ((holdings.get(account) ?? 0) < limit * LEAST_SHARE) leftOut.delete(account);
  }
  for (const account of mostBeyondShare(holdings, server.shortage, limit * LEAST_SHARE)) {
    leftOut.set(account, holdings.get(account) ?? 0);
  }
}

/**
 * The accounts that hold most beyond an equal share of the allowed total, largest first, until their excess covers the
 * shortage.
 * @param leastShare an account that holds no more than this is never beyond its share.
 */
export function mostBeyondShare(
  holdings: ReadonlyMap<string, number>,
  shortage: number,
  leastShare: number,
): readonly string[] {
  const total = [...holdings.values()].reduce((sum, each) => sum + each, 0);
  const share = Math.max(leastShare, (total - shortage) / holdings.size);
  const found: string[] = [];
  let left = shortage;
  for (const [account, bytes] of [...holdings].toSorted(([, a], [, b]) => b - a)) {
    if (left <= 0 || bytes <= share) break;
    found.push(account);
    left -= bytes - share;
  }
  return found;
}

function nameOf(redis: Redis, { options: { host, port } }: Redis): string {
  return redis.isCluster ? `${host}:${port}` : '';
}

const accountOf = (holding: Holding, namespace: string): string => `${holding} ${namespace}`;

function parseAccount(id: string): { holding: string; namespace: string } {
  const [holding = '', namespace = ''] = (id.split('\n')[0] ?? '').split(' ');
  return { holding, namespace };
}

function add(sums: Map<string, number>, name: string, bytes: number): void {
  sums.set(name, (sums.get(name) ?? 0) + bytes);
}
