import { connectionLosses, type Redis } from '../redis/redis.ts';
import type { Lookup, Wakeup } from './change.ts';

/** One entry of a view's outbox. */
export interface OutboxEntry {
  readonly id: string;
  readonly controller: string;
  /** Undefined when the entry cannot be read. */
  readonly wakeup: Wakeup | undefined;
}

/** Acknowledged entries leave with the next apply of the view; when none comes for so long, by themselves. */
const IDLE_MS = 250;
/** Acknowledged entries that leave with one apply. */
const MOST_WITH_APPLY = 2000;

/**
 * Wakeups of one view that are in no queue yet, oldest first: a STREAM in Redis. The apply script appends them in the
 * same step as the changes that cause them (`wakeupArguments`) and answers with their ids; the relay takes them from
 * there, or reads them, and acknowledges each once its queue has it. An entry may be read and acknowledged twice, and
 * an entry that cannot be read is delivered without a wakeup, so that its controller can be told.
 *
 * An acknowledged entry is deleted by the next apply of the view, or after a quarter of a second without one. A crash
 * before that delivers it again, which its queue merges. A lost connection voids what is acknowledged, because Redis
 * may come back with an older state of the queues: then the entries that are still there are delivered again.
 */
export class Outbox {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #acknowledged = new Set<string>();
  /** The loss of the connection since which `#acknowledged` was collected. */
  #losses = 0;
  #idle: NodeJS.Timeout | undefined;

  constructor(redis: Redis, key: string) {
    this.#redis = redis;
    this.#key = key;
  }

  /** Grows with each lost connection: what was read or delivered before may have been lost since. */
  get connection(): number {
    return connectionLosses(this.#redis);
  }

  /**
   * At most `count` entries, from the oldest on, acknowledged ones included.
   * @param after the id of an entry: those behind it.
   */
  async read(count: number, after?: string): Promise<OutboxEntry[]> {
    const from = after === undefined ? '-' : `(${after}`;
    const found = await this.#redis.xrange(this.#key, from, '+', 'COUNT', count);
    return found.map(([id, fields]) => {
      // XADD wrote c, k, l, r in this order.
      const [, controller = '', , key = '', , lookup = '', , reasons = '[]'] = fields;
      return { id, controller, wakeup: decodeWakeup({ controller, key, lookup, reasons }) };
    });
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
    for (const id of ids) this.#acknowledged.add(id);
    this.#flushWhenIdle();
  }

  /** Whether an entry that is still in the outbox is in its queue. */
  isAcknowledged(id: string): boolean {
    this.#voidAfterLoss();
    return this.#acknowledged.has(id);
  }

  /** Acknowledged entries that the next apply is to delete: it calls `recordDeleted` when it has. */
  deletable(): readonly string[] {
    this.#voidAfterLoss();
    if (this.#acknowledged.size === 0) return [];
    this.#flushWhenIdle();
    return [...this.#acknowledged].slice(0, MOST_WITH_APPLY);
  }

  /** Records that these entries are gone from the outbox. */
  recordDeleted(ids: readonly string[]): void {
    for (const id of ids) this.#acknowledged.delete(id);
  }

  /** Deletes acknowledged entries at once. */
  async flush(): Promise<void> {
    this.#voidAfterLoss();
    const ids = [...this.#acknowledged];
    if (ids.length === 0) return;
    await this.#redis.xdel(this.#key, ...ids);
    this.recordDeleted(ids);
  }

  /** Counts from the last call on. */
  #flushWhenIdle(): void {
    if (this.#idle) this.#idle.refresh();
    else this.#idle = setTimeout(() => void this.#flushNow(), IDLE_MS).unref();
  }

  async #flushNow(): Promise<void> {
    try {
      await this.flush();
    } catch {
      // They are deleted later, or by the next gateway, whose queues merge them.
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
  const lookup = 'lookup' in wakeup ? JSON.stringify(wakeup.lookup) : '';
  return [wakeup.controller, 'key' in wakeup ? wakeup.key : '', lookup, JSON.stringify(wakeup.reasons)];
}

function decodeWakeup(entry: { controller: string; key: string; lookup: string; reasons: string }): Wakeup | undefined {
  const { controller, key, lookup } = entry;
  try {
    const reasons = JSON.parse(entry.reasons) as Wakeup['reasons'];
    return lookup ? { controller, lookup: JSON.parse(lookup) as Lookup, reasons } : { controller, key, reasons };
  } catch {
    return undefined;
  }
}
