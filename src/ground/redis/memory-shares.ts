import { type LogFields, messageOf, type Runtime } from '../../core/index.ts';
import { masters, nodeOf } from './cluster.ts';
import type { Redis } from './redis.ts';
import { mebibytes, readMemory } from './redis-memory.ts';

/**
 * The data that a namespace makes the gateway store: its objects in the views, the keys of its controllers, or the
 * objects of other namespaces in views that only functions read which such namespaces have declared.
 */
export type Holding = 'objects' | 'keys' | 'declared';

/** A part of the data whose keys all have one hash tag. */
export interface MemoryPlace {
  /** Begins all its keys. */
  readonly prefix: string;
  /** What it holds of the namespaces: the objects of a view, or the keys of a controller's queue. */
  readonly holding: Exclude<Holding, 'declared'>;
  /**
   * The namespaces that have declared all functions which read it. They share the bytes of other namespaces. Undefined:
   * the gateway or a configured function reads it, too, and each namespace has its own bytes.
   */
  readonly readers?: ReadonlySet<string> | undefined;
}

export interface MemoryHolder extends MemoryPlace {
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
  reserve(place: MemoryPlace, sizes: () => readonly (readonly [string | undefined, number])[]): Promise<void>;
  /** Why nothing more of the namespace is stored here; undefined: it is. */
  leftOut(place: MemoryPlace, namespace: string | undefined): string | undefined;
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
/** From here on a namespace that is beyond its share by what it declares gets no object of any other namespace. */
const TIGHT = 0.8;
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
const READERS = 'the functions that read it hold more than their share of the memory of Redis, which is short';

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
  /** Left-out accounts and payers, with the bytes that they held. */
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
 *
 * A namespace whose functions alone read a kind holds the objects of other namespaces there, too. If these are more
 * than its share, they are left out in such views, those of the namespace with most of them first, and of all
 * namespaces when memory is nearly used up.
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

  leftOut(place: MemoryPlace, namespace: string | undefined): string | undefined {
    if (namespace === undefined) return undefined;
    const leftOut = this.#servers.get(this.#places.get(place.prefix) ?? '')?.leftOut;
    if (!leftOut || leftOut.size === 0) return undefined;
    const accounts = accountsOf(place, namespace);
    if (!accounts.every((account) => leftOut.has(account) || leftOut.has(payerOf(account)))) return undefined;
    return isDeclared(accounts[0] ?? '') ? READERS : REASON;
  }

  async reserve(place: MemoryPlace, sizes: () => readonly (readonly [string | undefined, number])[]): Promise<void> {
    const server = this.#servers.get(await this.#placeOf(place.prefix));
    if (!server || server.limit === 0) return;
    const all = sizes();
    const taken = all.reduce((sum, [, bytes]) => sum + bytes, 0) * COPIES;
    server.reserved += taken;
    if (server.shortage <= 0) return;
    for (const [namespace, bytes] of all) {
      if (namespace !== undefined) charge(server.added, place, namespace, bytes);
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
      const { prefix } = holder;
      const place = await nodeOf(redis, prefix);
      this.#places.set(prefix, place);
      const sum = sums.get(place);
      if (!sum) continue;
      for (const [namespace, bytes] of await holder.weigh()) charge(sum, holder, namespace, bytes);
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

  #report(before: ReadonlyMap<string, { readonly server: Server }>): void {
    const { logger, metrics } = this.#options.runtime;
    const now = this.#all();
    const stays = new Set([...now.keys()].map((id) => labelsOf(id).join()));
    for (const [id, { server, bytes }] of now) {
      const [namespace, holding] = labelsOf(id);
      metrics.set('levelhook_memory_left_out', { namespace, holding }, 1);
      if (before.has(id)) continue;
      logger.warn(
        {
          ...fieldsOf(id),
          holds: mebibytes(bytes),
          used: mebibytes(server.used),
          maxmemory: mebibytes(server.limit),
        },
        'Redis is short of memory: nothing more is stored of the namespace that holds most of it',
      );
    }
    for (const id of before.keys()) {
      if (now.has(id)) continue;
      const [namespace, holding] = labelsOf(id);
      if (!stays.has(labelsOf(id).join())) void metrics.forget({ namespace, holding });
      logger.info(fieldsOf(id), 'Redis has room again: the namespace is stored as any other');
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
  const sums = new Map<string, number>();
  for (const [account, bytes] of holdings) add(sums, payerOf(account), bytes);
  for (const account of leftOut.keys()) {
    if ((sums.get(payerOf(account)) ?? 0) < limit * LEAST_SHARE) leftOut.delete(account);
  }
  const isTight = server.shortage > limit * (TIGHT - SHORT);
  for (const [payer, excess] of mostBeyondShare(sums, server.shortage, limit * LEAST_SHARE)) {
    if (isTight) leftOut.set(payer, sums.get(payer) ?? 0);
    // Its largest namespace may have filled it, so that the others stay.
    let left = excess;
    const own = [...holdings].filter(([account]) => payerOf(account) === payer);
    for (const [account, bytes] of own.toSorted(([, a], [, b]) => b - a)) {
      if (left > 0) leftOut.set(account, bytes);
      left -= bytes;
    }
  }
}

/**
 * Those who hold most beyond an equal share of the allowed total, largest first, until their excess covers the
 * shortage.
 * @param leastShare who holds no more than this is never beyond its share.
 * @returns with what each holds beyond its share.
 */
export function mostBeyondShare(
  holdings: ReadonlyMap<string, number>,
  shortage: number,
  leastShare: number,
): ReadonlyMap<string, number> {
  const total = [...holdings.values()].reduce((sum, each) => sum + each, 0);
  const share = Math.max(leastShare, (total - shortage) / holdings.size);
  const found = new Map<string, number>();
  let left = shortage;
  for (const [payer, bytes] of [...holdings].toSorted(([, a], [, b]) => b - a)) {
    if (left <= 0 || bytes <= share) break;
    found.set(payer, bytes - share);
    left -= bytes - share;
  }
  return found;
}

function nameOf(redis: Redis, { options: { host, port } }: Redis): string {
  return redis.isCluster ? `${host}:${port}` : '';
}

/**
 * The accounts that share the bytes of a namespace in one place: `HOLDING PAYER`, where the payer is a namespace, and
 * for objects of other namespaces `declared PAYER NAMESPACE`.
 */
function accountsOf({ holding, readers }: MemoryPlace, namespace: string): readonly string[] {
  if (!readers || readers.size === 0 || readers.has(namespace)) return [`${holding} ${namespace}`];
  return [...readers].map((reader) => `declared ${reader} ${namespace}`);
}

function charge(sums: Map<string, number>, place: MemoryPlace, namespace: string, bytes: number): void {
  const accounts = accountsOf(place, namespace);
  for (const account of accounts) add(sums, account, bytes / accounts.length);
}

function payerOf(account: string): string {
  return account.split(' ', 2).join(' ');
}

function isDeclared(account: string): boolean {
  return account.startsWith('declared ');
}

/** The namespace that pays and its holding, of an account and a server. */
function labelsOf(id: string): readonly [namespace: string, holding: string] {
  const [holding = '', namespace = ''] = (id.split('\n')[0] ?? '').split(' ');
  return [namespace, holding];
}

function fieldsOf(id: string): LogFields {
  const [namespace, holding] = labelsOf(id);
  const of = (id.split('\n')[0] ?? '').split(' ')[2];
  return { namespace, holding, ...(of === undefined ? {} : { objectsOf: of }) };
}

function add(sums: Map<string, number>, name: string, bytes: number): void {
  sums.set(name, (sums.get(name) ?? 0) + bytes);
}
