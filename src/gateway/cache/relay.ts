import { type Logger, messageOf } from '../../core/index.ts';
import { mergeWakeups, type Wakeup } from './change.ts';
import type { View } from './view.ts';

/** Puts wakeups into the queues of their controllers; resolves when Redis has them all. */
export type Enqueue = (wakeups: readonly Wakeup[]) => Promise<void>;

/**
 * Moves wakeups from a view's outbox to the queues: add first, delete after, so that a crash in between queues a key
 * twice (where the queue merges it) and never loses one.
 */
export class Relay {
  readonly #view: View;
  readonly #enqueue: Enqueue;
  readonly #logger: Logger;
  #running: Promise<void> | undefined;
  #again = false;

  constructor(view: View, enqueue: Enqueue, logger: Logger) {
    this.#view = view;
    this.#enqueue = enqueue;
    this.#logger = logger;
  }

  /** Empties the outbox soon; returns at once. Called after each applied chunk and at start. */
  kick(): void {
    this.#again = true;
    this.#running ??= this.#drain().finally(() => (this.#running = undefined));
  }

  /** Resolves when what was in the outbox at the call is in the queues. */
  async drained(): Promise<void> {
    this.kick();
    await this.#running;
  }

  async #drain(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      try {
        for (;;) {
          const batch = await this.#view.outbox(BATCH);
          if (batch.length === 0) break;
          await this.#enqueue(mergeWakeups(batch.map(({ wakeup }) => wakeup)));
          await this.#view.acknowledge(batch.map(({ id }) => id));
        }
      } catch (error) {
        // What was not acknowledged stays in the outbox; the next kick, at the latest the next change, takes it.
        this.#logger.error({ resource: this.#view.name, error: messageOf(error) }, 'the outbox could not be relayed');
      }
    }
  }
}

const BATCH = 500;
