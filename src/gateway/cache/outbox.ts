import type { Redis } from '../redis/redis.ts';
import type { Lookup, Wakeup } from './change.ts';

/** One entry of a view's outbox. */
export interface OutboxEntry {
  readonly id: string;
  readonly controller: string;
  /** Undefined when the entry cannot be read. */
  readonly wakeup: Wakeup | undefined;
}

/**
 * Wakeups of one view that are in no queue yet, oldest first: a STREAM in Redis. The apply script appends them in the
 * same step as the changes that cause them (`wakeupArguments`), the relay reads them and acknowledges each once its
 * queue has it. An entry may be read and acknowledged twice, and an entry that cannot be read is delivered without a
 * wakeup, so that its controller can be told.
 */
export class Outbox {
  readonly #redis: Redis;
  readonly #key: string;

  constructor(redis: Redis, key: string) {
    this.#redis = redis;
    this.#key = key;
  }

  /** At most `count` entries, from the oldest on. @param after the id of an entry: those behind it. */
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
    const [[first], [seconds = 0]] = await Promise.all([
      this.#redis.xrange(this.#key, '-', '+', 'COUNT', 1),
      this.#redis.time(),
    ]);
    return first && Math.max(0, seconds * 1000 - Number.parseInt(first[0], 10));
  }

  /** Deletes entries whose keys are in the queues. */
  async acknowledge(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#redis.xdel(this.#key, ...ids);
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
