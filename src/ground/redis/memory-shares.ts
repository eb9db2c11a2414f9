import { messageOf, type Runtime } from '../../core/index.ts';
import { masters, nodeOf } from './cluster.ts';
import type { Redis } from './redis.ts';
import { mebibytes, readMemory } from './redis-memory.ts';

/**
 * The data that a namespace makes the gateway store: its objects in the views, the keys of its controllers, or the
 * objects of other namespaces in views that no other namespace's functions read.
 */
export type Holding = 'objects' | 'keys' | 'declared';

/** A part of the data whose keys all have one hash tag. */
export interface MemoryPlace {
  /** Begins all its keys. */
  readonly prefix: string;
  /** A view holds objects, and the queue of a controller holds keys. */
  readonly holding: Exclude<Holding, 'declared'>;
  /**
   * The namespace that has declared all functions which read it: it holds the objects of other namespaces here.
   * Undefined: there are other readers, and each namespace holds its own.
   */
  readonly onlyReader?: string | undefined;
}

export interface MemoryHolder extends MemoryPlace {
  /** The bytes in Redis of each namespace, about; of objects without one under the name of their kind. */
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
  /** Whether the readers of all holders are known: at a start they come one after the other. */
  readonly knowsReaders: () => boolean;
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
/** Above this share, nothing more of other namespaces is stored for a reader that is beyond its own share. */
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

const REASON = 'its namespace, or its kind, holds more than its share of the memory of Redis, which is short';
const READER = 'the functions that read it hold more than their share of the memory of Redis, which is short';

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
  weighed: Holdings = new Holdings();
  added = new Holdings();
  weighAgainMs = -Infinity;
  shortAtMs = -Infinity;
  /** By payer, the left-out accounts with the bytes that they held. */
  readonly leftOut = new Map<string, Map<string, number>>();

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
    const { payer, account } = this.#accountOf(place, namespace);
    const accounts = leftOut.get(payer);
    if (!accounts?.has(account) && !accounts?.has(payer)) return undefined;
    return account === payer ? REASON : READER;
  }

  async reserve(place: MemoryPlace, sizes: () => readonly (readonly [string | undefined, number])[]): Promise<void> {
    const server = this.#servers.get(await this.#placeOf(place.prefix));
    if (!server || server.limit === 0) return;
    const all = sizes();
    const taken = all.reduce((sum, [, bytes]) => sum + bytes, 0) * COPIES;
    server.reserved += taken;
    if (server.shortage <= 0) return;
    for (const [namespace, bytes] of all) {
      if (namespace !== undefined) server.added.add(this.#accountOf(place, namespace), bytes);
    }
    server.pending += taken;
    await this.look();
    server.pending -= taken;
  }

  /**
   * Who pays for the objects or keys of a namespace in a place, and the account for them: `HOLDING PAYER`, and for
   * objects of other namespaces `declared PAYER NAMESPACE`.
   */
  #accountOf({ holding, onlyReader }: MemoryPlace, namespace: string): Account {
    if (onlyReader === undefined || onlyReader === namespace || !this.#options.knowsReaders()) {
      const own = `${holding} ${namespace}`;
      return { payer: own, account: own };
    }
    const payer = `declared ${onlyReader}`;
    return { payer, account: `${payer} ${namespace}` };
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
    const before = this.#all();
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
    const sums = new Map([...this.#servers.keys()].map((name) => [name, new Holdings()]));
    for (const server of this.#servers.values()) server.added = new Holdings();
    for (const holder of all) {
      const { prefix } = holder;
      const place = await nodeOf(redis, prefix);
      this.#places.set(prefix, place);
      const sum = sums.get(place);
      if (!sum) continue;
      for (const [namespace, bytes] of await holder.weigh()) sum.add(this.#accountOf(holder, namespace), bytes);
    }
    const known = new Set(all.map(({ prefix }) => prefix));
    for (const prefix of this.#places.keys()) if (!known.has(prefix)) this.#places.delete(prefix);
    const tookMs = clock.now() - startMs;
    for (const [name, server] of this.#servers) {
      server.weighed = sums.get(name) ?? new Holdings();
      server.weighAgainMs = clock.now() + Math.max(WEIGH_MS, tookMs * WEIGH_SHARE);
    }
  }

  /** By payer and server. */
  #all(): Map<string, LeftOut> {
    const all = [...this.#servers].flatMap(([name, server]) =>
      [...server.leftOut].map(
        ([payer, accounts]) => [`${payer}\n${name}`, { payer, server, accounts: [...accounts.keys()] }] as const,
      ),
    );
    return new Map(all);
  }

  #report(before: ReadonlyMap<string, LeftOut>): void {
    const { logger, metrics } = this.#options.runtime;
    const now = this.#all();
    for (const [id, { payer, server }] of now) {
      if (before.has(id)) continue;
      const labels = labelsOf(payer);
      metrics.set('levelhook_memory_left_out', labels, 1);
      const holds = [...(server.leftOut.get(payer)?.values() ?? [])].reduce((sum, each) => sum + each, 0);
      const { used, limit } = server;
      logger.warn(
        { ...labels, holds: mebibytes(holds), used: mebibytes(used), maxmemory: mebibytes(limit) },
        'Redis is short of memory: nothing more is stored of the namespace that holds most of it',
      );
    }
    const payers = new Set([...now.values()].map(({ payer }) => payer));
    for (const [id, { payer }] of before) {
      if (now.has(id)) continue;
      if (!payers.has(payer)) void metrics.forget(labelsOf(payer));
      logger.info(labelsOf(payer), 'Redis has room again: the namespace is stored as any other');
    }
    const textOf = (all: typeof before): string =>
      [...all].map(([id, { accounts }]) => [id, ...accounts].join()).join();
    if (textOf(now) !== textOf(before)) this.#options.onChanged();
  }
}

interface LeftOut {
  readonly payer: string;
  readonly server: Server;
  readonly accounts: readonly string[];
}

/** An account of bytes, and its payer. A namespace's own data have one name for both. */
interface Account {
  readonly payer: string;
  readonly account: string;
}

/** Bytes by payer and account. */
class Holdings {
  readonly byPayer = new Map<string, Map<string, number>>();

  add({ payer, account }: Account, bytes: number): void {
    const own = this.byPayer.get(payer) ?? new Map<string, number>();
    this.byPayer.set(payer, own);
    own.set(account, (own.get(account) ?? 0) + bytes);
  }
}

function decide(server: Server, nowMs: number): void {
  const { added, leftOut, limit, used, weighed } = server;
  if (server.shortage > 0) server.shortAtMs = nowMs;
  const isCalm = nowMs - server.shortAtMs >= CALM_MS;
  if (limit === 0 || (server.shortage <= 0 && (used < limit * ROOMY || isCalm))) return leftOut.clear();
  const accountsOf = (payer: string): ReadonlyMap<string, number> => {
    const all = new Map(weighed.byPayer.get(payer));
    for (const [account, bytes] of added.byPayer.get(payer) ?? []) all.set(account, (all.get(account) ?? 0) + bytes);
    return all;
  };
  const sums = new Map<string, number>();
  for (const { byPayer } of [weighed, added]) {
    for (const [payer, accounts] of byPayer) {
      let sum = sums.get(payer) ?? 0;
      for (const bytes of accounts.values()) sum += bytes;
      sums.set(payer, sum);
    }
  }
  for (const payer of leftOut.keys()) if ((sums.get(payer) ?? 0) < limit * LEAST_SHARE) leftOut.delete(payer);
  const isTight = server.shortage > limit * (TIGHT - SHORT);
  for (const [payer, excess] of mostBeyondShare(sums, server.shortage, limit * LEAST_SHARE)) {
    const accounts = leftOut.get(payer) ?? new Map<string, number>();
    leftOut.set(payer, accounts);
    if (isTight) {
      accounts.clear();
      accounts.set(payer, sums.get(payer) ?? 0);
    }
    // One namespace may have filled what another one reads.
    let left = isTight ? 0 : excess;
    for (const [account, bytes] of [...accountsOf(payer)].toSorted(([, a], [, b]) => b - a)) {
      if (left <= 0) break;
      accounts.set(account, bytes);
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

function labelsOf(payer: string): { readonly namespace: string; readonly holding: string } {
  const [holding = '', namespace = ''] = payer.split(' ');
  return { namespace, holding };
}
