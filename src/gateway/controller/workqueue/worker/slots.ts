import type { Clock } from '../../../../core/index.ts';
import { SLOT_MS } from '../queue-options.ts';
import type { RedisRecords } from '../records/redis-records.ts';

const PROLONG_MS = 4000;

/**
 * The slots that runs of this gateway hold. Slots are counted in Redis over all gateways. A slot is free when the
 * finish of its run has been sent, or its gateway has not extended it for `SLOT_MS`.
 */
export class Slots {
  readonly #records: Pick<RedisRecords, 'prolongSlots'>;
  readonly #clock: Clock;
  /** By key: the run, and until when it may hold its slot at most. */
  readonly #held = new Map<string, { readonly run: number; readonly endMs: number }>();
  readonly #closing = new AbortController();
  #prolonging = false;

  constructor(records: Pick<RedisRecords, 'prolongSlots'>, clock: Clock) {
    this.#records = records;
    this.#clock = clock;
  }

  get held(): number {
    return this.#held.size;
  }

  take(key: string, run: number, endMs: number): void {
    this.#held.set(key, { run, endMs });
    if (!this.#prolonging) void this.#prolong();
  }

  /** @returns whether this run held a slot. */
  release(key: string, run: number): boolean {
    return this.#held.get(key)?.run === run && this.#held.delete(key);
  }

  /** Extends no slot any more. */
  close(): void {
    this.#closing.abort();
  }

  async #prolong(): Promise<void> {
    this.#prolonging = true;
    const { signal } = this.#closing;
    while (this.#held.size > 0 && !signal.aborted) {
      await this.#clock.sleep(PROLONG_MS, signal);
      const nowMs = this.#clock.now();
      // After its end a run may have been settled, and another run of its key may hold a slot.
      const slots = [...this.#held].flatMap(([key, { endMs }]) =>
        endMs > nowMs ? [{ key, untilMs: Math.min(nowMs + SLOT_MS, endMs) }] : [],
      );
      // A slot that could not be prolonged is given to another run some seconds early.
      await this.#records.prolongSlots(slots).catch(() => {});
    }
    this.#prolonging = false;
  }
}
