import { namespaceOfTenant, originOf, parseJson, tenantOf } from '../../../core/index.ts';
import { connectionLosses, type Redis } from '../../../ground/redis/redis.ts';
import { lengthOf, type Lookup, lookupText, type Wakeup } from './change.ts';

/** One entry of a view's outbox. */
export interface OutboxEntry {
  readonly id: string;
  readonly controller: string;
  /** Undefined when the entry cannot be read. */
  readonly wakeup: Wakeup | undefined;
  /** When the change was read from the watch, or, of an entry that was read from Redis, when it was applied. */
  readonly atMs?: number;
}

/** Without an apply for this long, a command of its own deletes the acknowledged entries. */
const IDLE_MS = 250;
/** Acknowledged entries that one command or one apply deletes. */
const MAX_DELETED = 2000;
/**
 * Lookups and their characters of one tenant that may wait in the outbox of a view. The relay makes two at a time, so
 * a tenant's changes may cause lookups faster than they are made: 37 changes a second for fifty controllers left 42,000
 * entries and 32 MiB in 15 s, with the wakeups of other tenants behind them.
 */
const MOST_OF_TENANT: Waiting = { lookups: 8000, characters: 4 * 1024 * 1024 };
/**
 * The same of all tenants. The relay holds 40,000 entries in memory (`MAX_WAITING`), and the wakeups of others wait in
 * Redis behind more. Each tenant may have as many as all tenants have left (dynamic thresholds, Choudhury and Hahne
 * 1998): four tenants that take all they can have 6,400 each.
 */
const MOST_OF_ALL: Waiting = { lookups: 32_000, characters: 16 * 1024 * 1024 };
/** Each tenant may have these in any case. */
const FEW: Waiting = { lookups: 50, characters: 64 * 1024 };

/** Lookups that wait. */
interface Waiting {
  lookups: number;
  characters: number;
}

/**
 * Wakeups of one view that are in no queue yet, oldest first: a STREAM in Redis. The apply script appends them in the
 * same step as the changes that cause them (`wakeupArguments`) and answers with their ids. The relay gets the entries
 * from that answer, or reads them here, and acknowledges each entry once its queue has the keys. An entry may be read
 * and acknowledged twice. An entry that cannot be decoded is delivered without a wakeup, so that the relay can report
 * it to its controller.
 *
 * The next apply of the view deletes acknowledged entries, or a timer does after a quarter of a second without an
 * apply. After a crash in between, the next gateway delivers them again, and their queues merge the keys. A lost
 * connection voids the acknowledgements, because Redis may come back with an older state of the queues: the relay then
 * delivers again the entries that are still in the outbox.
 */
export class Outbox {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #acknowledged = new Set<string>();
  /** The lookups of tenants that wait, by the id of their entry, their sums by tenant, and of all. */
  readonly #lengths = new Map<string, { readonly tenant: string; readonly characters: number }>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #all: Waiting = { lookups: 0, characters: 0 };
  /** The value of `connection` when `#acknowledged` was last cleared. */
  #losses = 0;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(redis: Redis, key: string) {
    this.#redis = redis;
    this.#key = key;
  }

  /** Grows with each lost connection. Redis may have lost entries and deliveries from before the loss. */
  get connection(): number {
    return connectionLosses(this.#redis);
  }

  /**
   * Reads at most `count` entries, from the oldest on, acknowledged entries included.
   * @param after the id of an entry: reads the entries behind it.
   */
  async read(count: number, after?: string): Promise<OutboxEntry[]> {
    const from = after === undefined ? '-' : `(${after}`;
    const found = await this.#redis.xrange(this.#key, from, '+', 'COUNT', count);
    const entries = found.map(([id, fields]) => {
      // XADD wrote c, k, l, r in this order.
      const [, controller = '', , key = '', , lookup = '', , reasons = '[]'] = fields;
      const wakeup = decodeWakeup({ controller, key, lookup, reasons });
      return { id, controller, wakeup, atMs: Number.parseInt(id, 10) };
    });
    this.recordWaiting(entries.filter((each) => !this.#acknowledged.has(each.id)));
    return entries;
  }

  /**
   * Records that these entries are in the outbox. Counts the lookups among them alone: keys are moved as fast as they
   * come.
   */
  recordWaiting(entries: readonly OutboxEntry[]): void {
    for (const { id, controller, wakeup } of entries) {
      if (!wakeup || 'key' in wakeup || originOf(controller) !== 'declared' || this.#lengths.has(id)) continue;
      const entry = { tenant: tenantOf(controller), characters: lengthOf(wakeup) };
      this.#lengths.set(id, entry);
      this.#count(entry, 1);
    }
  }

  /** Records that no lookup waits, whatever was recorded before: Redis may have lost some. */
  recordNoneWaiting(): void {
    this.#lengths.clear();
    this.#waiting.clear();
    Object.assign(this.#all, { lookups: 0, characters: 0 });
  }

  /**
   * Whether a tenant has as many lookups in the outbox as it may: its controllers miss further changes, and get all
   * their keys later. A configured function has no such bound.
   */
  isFull(tenant: string): boolean {
    const own = this.#waiting.get(tenant) ?? { lookups: 0, characters: 0 };
    const hasAll = (of: keyof Waiting): boolean =>
      own[of] >= Math.min(MOST_OF_TENANT[of], Math.max(FEW[of], MOST_OF_ALL[of] - this.#all[of]));
    return hasAll('lookups') || hasAll('characters');
  }

  /** The bytes in Redis of the lookups that wait for each tenant, about, by its namespace. */
  weigh(): ReadonlyMap<string, number> {
    return new Map([...this.#waiting].map(([tenant, { characters }]) => [namespaceOfTenant(tenant), characters]));
  }

  #count({ tenant, characters }: { readonly tenant: string; readonly characters: number }, by: 1 | -1): void {
    const waiting = this.#waiting.get(tenant) ?? { lookups: 0, characters: 0 };
    for (const each of [waiting, this.#all]) {
      each.lookups += by;
      each.characters += by * characters;
    }
    if (waiting.lookups === 0) this.#waiting.delete(tenant);
    else this.#waiting.set(tenant, waiting);
  }

  /** How long the oldest wakeup has waited, in milliseconds by Redis' clock; undefined when the outbox is empty. */
  async ageMs(): Promise<number | undefined> {
    // In this order: an acknowledged wakeup does not wait.
    const [, [first], [seconds = 0]] = await Promise.all([
      this.flush(),
      this.#redis.xrange(this.#key, '-', '+', 'COUNT', 1),
      this.#redis.time(),
    ]);
    return first && Math.max(0, seconds * 1000 - Number.parseInt(first[0], 10));
  }

  /** Records that the keys of these entries are in the queues: the entries are deleted soon. */
  acknowledge(ids: readonly string[]): void {
    this.#voidAfterLoss();
    for (const id of ids) {
      this.#acknowledged.add(id);
      const entry = this.#lengths.get(id);
      if (entry) this.#count(entry, -1);
      this.#lengths.delete(id);
    }
    this.#flushWhenIdle();
  }

  /** Whether the queue of an entry has its keys, although the entry is still in the outbox. */
  isAcknowledged(id: string): boolean {
    this.#voidAfterLoss();
    return this.#acknowledged.has(id);
  }

  /** Acknowledged entries for the next apply, which deletes them and then calls `recordDeleted`. */
  deletable(): readonly string[] {
    this.#voidAfterLoss();
    if (this.#acknowledged.size === 0) return [];
    this.#flushWhenIdle();
    return [...this.#acknowledged].slice(0, MAX_DELETED);
  }

  /** Records that these entries are gone from the outbox. */
  recordDeleted(ids: readonly string[]): void {
    for (const id of ids) this.#acknowledged.delete(id);
  }

  /** Deletes acknowledged entries at once. */
  async flush(): Promise<void> {
    this.#voidAfterLoss();
    while (this.#acknowledged.size > 0) {
      const ids = [...this.#acknowledged].slice(0, MAX_DELETED);
      await this.#redis.xdel(this.#key, ...ids);
      this.recordDeleted(ids);
    }
  }

  /** Each call starts the timer anew. */
  #flushWhenIdle(): void {
    if (this.#idleTimer) this.#idleTimer.refresh();
    else this.#idleTimer = setTimeout(() => void this.#flushNow(), IDLE_MS).unref();
  }

  async #flushNow(): Promise<void> {
    try {
      await this.flush();
    } catch {
      // A later flush deletes them, or the next gateway delivers them again, and its queues merge the keys.
      if (this.#redis.status !== 'end') this.#flushWhenIdle();
    }
  }

  #voidAfterLoss(): void {
    if (this.#losses !== this.connection) this.#acknowledged.clear();
    this.#losses = this.connection;
  }
}

/** A wakeup as the apply script takes it: controller, key or '', lookup or '', reasons. */
export function wakeupArguments(wakeup: Wakeup): string[] {
  const lookup = 'lookup' in wakeup ? lookupText(wakeup.lookup) : '';
  return [wakeup.controller, 'key' in wakeup ? wakeup.key : '', lookup, JSON.stringify(wakeup.reasons)];
}

function decodeWakeup(entry: { controller: string; key: string; lookup: string; reasons: string }): Wakeup | undefined {
  const { controller, key, lookup } = entry;
  try {
    const reasons = parseJson(entry.reasons) as Wakeup['reasons'];
    return lookup ? { controller, lookup: parseJson(lookup) as Lookup, reasons } : { controller, key, reasons };
  } catch {
    return undefined;
  }
}
