import { type Checkpoint, type Logger, messageOf, type Metrics } from '../../core/index.ts';
import { HandlerError, type KeyWakeup, mergeWakeups, type Wakeup } from './change.ts';
import { type LookupBudget, resolveLookup } from './lookup.ts';
import { isDataError } from './redis.ts';
import type { OutboxEntry, View } from './view.ts';

/** Puts wakeups into the queues of their controllers; resolves when Redis has all but those that failed. */
export type Enqueue = (wakeups: readonly KeyWakeup[]) => Promise<Enqueued | void>;

export interface Enqueued {
  /** The controllers among them that this gateway does not run. */
  readonly absent: readonly string[];
  /** The controllers whose wakeups were not queued, and why. */
  readonly failed: ReadonlyMap<string, unknown>;
}

export interface RelayOptions {
  /** Whose outbox. */
  readonly view: View;
  /** The view that a lookup names; undefined when it is no longer kept. */
  readonly viewAt: (prefix: string) => View | undefined;
  readonly enqueue: Enqueue;
  /** Of a controller; undefined when this gateway does not run it. */
  readonly lookupBudget: (controller: string) => LookupBudget | undefined;
  /** A wakeup of this controller was taken out of the outbox, since it cannot be delivered: the controller is owed all its keys. */
  readonly onUndeliverable: (controller: string, error: unknown) => void;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly checkpoint: Checkpoint;
}

const BATCH = 500;
/** Lookups that are resolved at the same time: each may read large objects. */
const AT_ONCE = 8;

/**
 * Moves wakeups from a view's outbox to the queues: add first, delete after, so that a crash in between queues a key
 * twice (where the queue merges it) and never loses one.
 *
 * A wakeup that cannot be delivered for what it says is taken out and counted, and its controller is owed all its keys. Wakeups of
 * a controller whose queue cannot take them now stay, and those behind them go on.
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
        let after: string | undefined;
        do after = await this.#moveBatch(after);
        while (after !== undefined);
      } catch (error) {
        // What was not acknowledged stays in the outbox; the next kick takes it, at the latest recovery's next check.
        logger.error({ resource: view.name, error: messageOf(error) }, 'the outbox could not be relayed, trying again');
      }
    }
    // In the same breath as the last look at `again`: a kick that comes later starts anew.
    this.#running = undefined;
  }

  /** @param after the last entry of the batch before. @returns that of this one; undefined when there are no more. */
  async #moveBatch(after: string | undefined): Promise<string | undefined> {
    const { view, enqueue, checkpoint } = this.#options;
    const batch = await view.outbox(BATCH, after);
    if (batch.length === 0) return undefined;
    const undeliverable = new Map<string, unknown>();
    const notRun = new Set<string>();
    for (const { controller, wakeup } of batch) {
      if (!wakeup) undeliverable.set(controller, new TypeError('an entry of the outbox cannot be read'));
    }
    const merged = mergeWakeups(batch.flatMap(({ wakeup }) => wakeup ?? []));
    const found: KeyWakeup[][] = [];
    for (let from = 0; from < merged.length; from += AT_ONCE) {
      const some = merged.slice(from, from + AT_ONCE);
      found.push(...(await Promise.all(some.map((wakeup) => this.#resolve(wakeup, { undeliverable, notRun })))));
    }
    await checkpoint('relay:before-add');
    const { absent, failed } = (await enqueue(mergeWakeups(found.flat()))) ?? NOTHING;
    for (const [controller, error] of failed) if (isDataError(error)) undeliverable.set(controller, error);
    // It gets all its keys when it is back, or mended.
    for (const controller of new Set([...absent, ...notRun, ...undeliverable.keys()]))
      await view.noteMissed(controller);
    await checkpoint('relay:after-add');
    await view.acknowledge(this.#done(batch, failed));
    await checkpoint('relay:after-delete');
    for (const [controller, error] of undeliverable) this.#report(controller, error);
    return batch.length < BATCH ? undefined : batch.at(-1)?.id;
  }

  /** The entries of a batch that need not be delivered again. */
  #done(batch: readonly OutboxEntry[], failed: ReadonlyMap<string, unknown>): string[] {
    const { logger, view } = this.#options;
    const kept = new Set([...failed].filter(([, error]) => !isDataError(error)).map(([controller]) => controller));
    for (const controller of kept) {
      const error = messageOf(failed.get(controller));
      logger.warn({ resource: view.name, controller, error }, 'wakeups could not be queued, trying again');
    }
    return batch.filter(({ controller }) => !kept.has(controller)).map(({ id }) => id);
  }

  #report(controller: string, error: unknown): void {
    const { logger, metrics, onUndeliverable, view } = this.#options;
    metrics.count('levelhook_undeliverable_wakeups_total', { controller });
    // The controller tells of what it is to blame for, which may come with each batch.
    if (!(error instanceof HandlerError)) {
      logger.error(
        { resource: view.name, controller, error: messageOf(error) },
        'a wakeup cannot be delivered: its controller gets all its keys instead',
      );
    }
    onUndeliverable(controller, error);
  }

  /** @param lost takes the controllers whose lookups have no answer. */
  async #resolve(
    wakeup: Wakeup,
    lost: { readonly undeliverable: Map<string, unknown>; readonly notRun: Set<string> },
  ): Promise<KeyWakeup[]> {
    if ('key' in wakeup) return [wakeup];
    const { controller, lookup, reasons } = wakeup;
    const view = this.#options.viewAt(lookup.view);
    if (!view) return [];
    const budget = this.#options.lookupBudget(controller);
    if (!budget) {
      lost.notRun.add(controller);
      return [];
    }
    try {
      return (await resolveLookup(view, lookup, budget)).map((key) => ({ controller, key, reasons }));
    } catch (error) {
      if (!isDataError(error) && !(error instanceof HandlerError)) throw error;
      lost.undeliverable.set(controller, error);
      return [];
    }
  }
}

const NOTHING: Enqueued = { absent: [], failed: new Map() };
