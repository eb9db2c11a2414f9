import type { Clock } from '../../../../core/index.ts';
import type { QueueFacts } from '../queue-facts.ts';
import type { Due } from '../records/records.ts';

export interface StallOptions {
  readonly concurrency: number;
  readonly clock: Pick<Clock, 'now'>;
  /** Asks Redis. */
  readonly read: () => Promise<DueKeys>;
  /** Asks Redis for the facts that decide about the controller's state. Called after `read` was answered. */
  readonly readFacts: () => Promise<QueueFacts>;
  /** Whether this gateway starts no run on purpose, since its circuit is open. */
  readonly isOpen: () => boolean;
}

/** The due keys and the runs of a queue. */
export interface DueKeys {
  /** When the first key that has not been started was or will be due; Infinity when there is none. */
  readonly firstDueMs: number;
  /** When the first pause ends by itself, so that keys may be due; Infinity when none does. */
  readonly firstPauseEndMs: number;
  /** Runs in flight. */
  readonly running: number;
  /** How many runs have ever been started. */
  readonly started: number;
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
  /** How many runs had started when that was last seen to change. */
  #lastStart: { readonly count: number; readonly atMs: number } | undefined;
  #facts: QueueFacts | undefined;

  constructor(options: StallOptions) {
    this.#options = options;
  }

  /** The facts that `ms` read last; undefined before its first read. */
  get facts(): QueueFacts | undefined {
    return this.#facts;
  }

  /** In milliseconds, as far as this gateway has asked; 0 when runs start, or none need to. */
  async ms(): Promise<number> {
    const { clock, concurrency, read, readFacts, isOpen } = this.#options;
    if (isOpen()) {
      // A stall counts from the time at which this gateway may start runs again.
      this.#lastStart = undefined;
      this.#idleUntilMs = 0;
      return 0;
    }
    if (clock.now() < this.#idleUntilMs) return 0;
    const activity = this.#activity;
    const { firstDueMs, firstPauseEndMs, running, started } = await read();
    // The facts are read last. If they were read first and a run ended before `read`, they would be outdated for as
    // long as the queue rests.
    const facts = await readFacts();
    const nowMs = clock.now();
    if (started !== this.#lastStart?.count) this.#lastStart = { count: started, atMs: nowMs };
    this.#facts = facts;
    // Another gateway does not notify this one when it ends a run or drops a dead letter, so this one keeps asking. At
    // rest `compare` finds changes.
    const isAtRest = running === 0 && facts.sizes.dead === 0;
    // An add may have come to Redis after the question, and before its answer.
    if (activity === this.#activity) this.#idleUntilMs = isAtRest ? Math.min(firstDueMs, firstPauseEndMs) : 0;
    return running < concurrency ? Math.max(0, nowMs - Math.max(firstDueMs, this.#lastStart.atMs)) : 0;
  }

  /**
   * Compares an answer of Redis to the poller with the last read: another gateway does not notify this one when a key
   * waits, runs or becomes a dead letter there.
   */
  compare({ nextMs = Infinity, sizes }: Pick<Due, 'nextMs' | 'sizes'>): void {
    if (!this.#facts) return;
    const { queued, dead } = this.#facts.sizes;
    if (nextMs < this.#idleUntilMs || sizes.queued !== queued || sizes.dead !== dead) this.#idleUntilMs = 0;
  }

  /** Waits for work after which keys may be due, also where it fails: Redis may have done it all the same. */
  async mayMakeDue<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } finally {
      this.#activity += 1;
      this.#idleUntilMs = 0;
    }
  }
}
