import type { Clock } from '../../../../core/index.ts';
import type { Due } from '../records/records.ts';
import type { QueueLevels } from '../work-queue.ts';

export interface StallOptions {
  readonly concurrency: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Asks Redis. */
  readonly read: () => Promise<QueueLevels>;
  /** Whether this gateway starts no run on purpose, since its circuit is open. */
  readonly isOpen: () => boolean;
}

/**
 * Measures for how long no run of a queue has started although a key is due and a slot is free. It asks Redis again
 * only when a key can be due, so a queue at rest without dead letters costs no commands.
 */
export class Stall {
  readonly #options: StallOptions;
  /** No key is due before this time, as far as this gateway knows; 0: it has to ask. */
  #idleUntilMs = 0;
  /** Counts the events that may have made keys due. */
  #activity = 0;
  /** The number of started runs, and when this gateway saw it change. */
  #lastStart: { readonly count: number; readonly atMs: number } | undefined;
  #levels: QueueLevels | undefined;

  constructor(options: StallOptions) {
    this.#options = options;
  }

  /** The levels that `ms` read last; undefined before its first read. */
  get levels(): QueueLevels | undefined {
    return this.#levels;
  }

  /** See `WorkQueue.stalledMs`. */
  async ms(): Promise<number> {
    const { clock, concurrency, read, isOpen } = this.#options;
    if (isOpen()) {
      // A stall counts from the time at which this gateway may start runs again.
      this.#lastStart = undefined;
      this.#idleUntilMs = 0;
      return 0;
    }
    if (clock.now() < this.#idleUntilMs) return 0;
    const activity = this.#activity;
    const levels = await read();
    const { firstDueMs, pauseEndMs, started } = levels;
    const { running, dead } = levels.sizes;
    const nowMs = clock.now();
    if (started !== this.#lastStart?.count) this.#lastStart = { count: started, atMs: nowMs };
    this.#levels = levels;
    // Another gateway does not notify this one when it ends a run or drops a dead letter, so this one keeps asking. At
    // rest `compare` finds changes.
    const isAtRest = running === 0 && dead === 0;
    // The end of a pause may make keys due.
    const firstMs = Math.min(firstDueMs, pauseEndMs);
    // An add may have come to Redis after the question, and before its answer.
    if (activity === this.#activity) this.#idleUntilMs = isAtRest ? firstMs : 0;
    return running < concurrency ? Math.max(0, nowMs - Math.max(firstDueMs, this.#lastStart.atMs)) : 0;
  }

  /**
   * Compares an answer of Redis to the poller with the last read: another gateway does not notify this one when a key
   * waits, runs, recovers or becomes a dead letter there, or when a person pauses or resumes keys.
   */
  compare({ nextMs = Infinity, sizes, pauses }: Pick<Due, 'nextMs' | 'sizes' | 'pauses'>): void {
    if (!this.#levels) return;
    const { queued, failing, dead } = this.#levels.sizes;
    const isSame = sizes.queued === queued && sizes.failing === failing && sizes.dead === dead;
    const { pauses: listed, morePauses, pausedObjects } = this.#levels;
    const arePausesSame = pauses === listed.length + morePauses + pausedObjects;
    if (nextMs < this.#idleUntilMs || !isSame || !arePausesSame) this.#idleUntilMs = 0;
  }

  /** Waits for work that may make keys due. Failed work counts as well, because Redis may have done it. */
  async mayMakeDue<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } finally {
      this.#activity += 1;
      this.#idleUntilMs = 0;
    }
  }
}
