import { type Checkpoint, type Logger, messageOf } from '../../core/index.ts';
import { type KeyWakeup, mergeWakeups, type Wakeup } from './change.ts';
import { resolveLookup } from './lookup.ts';
import type { View } from './view.ts';

/**
 * Puts wakeups into the queues of their controllers; resolves when Redis has them all.
 * @returns the controllers among them that this gateway does not run.
 */
export type Enqueue = (wakeups: readonly KeyWakeup[]) => Promise<readonly string[] | void>;

export interface RelayOptions {
  /** Whose outbox. */
  readonly view: View;
  /** The view that a lookup names; undefined when it is no longer kept. */
  readonly viewAt: (prefix: string) => View | undefined;
  readonly enqueue: Enqueue;
  readonly logger: Logger;
  readonly checkpoint: Checkpoint;
}

const BATCH = 500;

/**
 * Moves wakeups from a view's outbox to the queues: add first, delete after, so that a crash in between queues a key
 * twice (where the queue merges it) and never loses one.
 */
export class Relay {
  readonly #options: RelayOptions;
  #running: Promise<void> | undefined;
  #again = false;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** Empties the outbox soon; returns at once. Called after each applied chunk and at start. */
  kick(): void {
    this.#again = true;
    this.#running ??= this.#drain();
  }

  /** Resolves when what was in the outbox at the call is in the queues. */
  async drained(): Promise<void> {
    this.kick();
    await this.#running;
  }

  async #drain(): Promise<void> {
    const { view, logger } = this.#options;
    while (this.#again) {
      this.#again = false;
      try {
        while (await this.#moveBatch());
      } catch (error) {
        // What was not acknowledged stays in the outbox; the next kick takes it, at the latest recovery's next check.
        logger.error({ resource: view.name, error: messageOf(error) }, 'the outbox could not be relayed');
      }
    }
    // In the same breath as the last look at `again`: a kick that comes later starts anew.
    this.#running = undefined;
  }

  /** @returns whether there was anything. */
  async #moveBatch(): Promise<boolean> {
    const { view, enqueue, checkpoint } = this.#options;
    const batch = await view.outbox(BATCH);
    if (batch.length === 0) return false;
    const merged = mergeWakeups(batch.map(({ wakeup }) => wakeup));
    const found = await Promise.all(merged.map((wakeup) => this.#resolve(wakeup)));
    await checkpoint('relay:before-add');
    const absent = (await enqueue(mergeWakeups(found.flat()))) ?? [];
    // It gets all its keys when it is back.
    for (const controller of absent) await view.noteMissed(controller);
    await checkpoint('relay:after-add');
    await view.acknowledge(batch.map(({ id }) => id));
    await checkpoint('relay:after-delete');
    return true;
  }

  async #resolve(wakeup: Wakeup): Promise<KeyWakeup[]> {
    if ('key' in wakeup) return [wakeup];
    const { controller, lookup, reasons } = wakeup;
    const view = this.#options.viewAt(lookup.view);
    if (!view) return [];
    return (await resolveLookup(view, lookup)).map((key) => ({ controller, key, reasons }));
  }
}
