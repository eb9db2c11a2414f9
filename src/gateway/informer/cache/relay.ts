import { type Checkpoint, type Logger, messageOf, type Metrics, tenantOf, TenantTurns } from '../../../core/index.ts';
import { HandlerError, type KeyWakeup, type LookupWakeup, mergeWakeups, type Wakeup } from './change.ts';
import { type LookupBudget, resolveLookup, type Turn } from './lookup.ts';
import { isDataError } from '../../../ground/redis/redis.ts';
import type { OutboxEntry } from './outbox.ts';
import type { View } from './view.ts';

/** Puts wakeups into the queues of their controllers. Resolves when Redis has them all, except for the failed ones. */
export type Enqueue = (wakeups: readonly KeyWakeup[]) => Promise<Enqueued | void>;

export interface Enqueued {
  /** The controllers among them that this gateway does not run. */
  readonly absent: readonly string[];
  /** The controllers whose wakeups were not queued, and why. */
  readonly failed: ReadonlyMap<string, unknown>;
}

export interface RelayOptions {
  /** The view whose outbox is emptied. */
  readonly view: View;
  /** The view that a lookup names; undefined when it is no longer kept. */
  readonly viewAt: (prefix: string) => View | undefined;
  readonly enqueue: Enqueue;
  /** The budget of a controller; undefined when this gateway does not run the controller. */
  readonly lookupBudget: (controller: string) => LookupBudget | undefined;
  /**
   * Called when a wakeup of this controller cannot be delivered and was removed from the outbox. The controller then
   * gets all its keys.
   */
  readonly onUndeliverable: (controller: string, error: unknown) => void;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly checkpoint: Checkpoint;
}

/** Entries read at a time. */
const PAGE = 500;
/** Entries of one controller that are moved at a time. */
const CONTROLLER_BATCH = 500;
/** Entries that wait in memory. More of them stay in the outbox, which bounds the lookups of each tenant. */
export const MAX_WAITING = 40_000;
/**
 * Parts of lookups that run at the same time, and lookups of one tenant that are under way. Each part may decode an
 * object of megabytes in one turn of the event loop, while other work waits for a dozen turns. So the tenants take
 * turns with each part: a lookup may lead to all objects of a tenant.
 */
const CONCURRENT_LOOKUPS = 2;

/**
 * Moves wakeups from a view's outbox to the queues: add first, acknowledge after, so that a crash in between queues a
 * key twice (where the queue merges it) and never loses one.
 *
 * The applier gives the relay the entries that each apply has added to the outbox (`push`), so the relay usually reads
 * nothing. It reads the outbox when there may be entries that it has not got: after the start, a lost connection, a
 * failed apply or read, and a queue that refused its wakeups, and while more entries wait than it keeps in memory.
 *
 * The wakeups of one controller are moved in order, and apart from those of other controllers. So a controller with
 * many wakeups, or with a slow queue, does not delay others.
 *
 * The relay removes and counts a wakeup that it cannot deliver because of its data, and the controller gets all its
 * keys. If a queue cannot accept keys now, its wakeups stay in the outbox until the next `kick` of an idle relay, or
 * the next `retry`.
 */
export class Relay {
  readonly #options: RelayOptions;
  readonly #lookups = new TenantTurns(Infinity, CONCURRENT_LOOKUPS);
  readonly #parts = new TenantTurns(CONCURRENT_LOOKUPS);
  /** Entries that are not being moved yet, in the order of the outbox. */
  #waiting: OutboxEntry[] = [];
  /** Controllers whose wakeups are being moved. */
  readonly #moving = new Set<string>();
  /** Entries that wait or are being moved. */
  readonly #known = new Set<string>();
  /** Controllers whose queues refused wakeups: their further entries stay in the outbox. */
  readonly #stuck = new Set<string>();
  /** The last entry that was read or pushed. */
  #after: string | undefined;
  #running: Promise<void> | undefined;
  /** The outbox may have entries behind `#after`. */
  #hasMore = false;
  /** How often it was found that the outbox must be read from the beginning. */
  #restarts = 0;
  /** Every entry of the outbox was read or pushed, on the connection `#connection`. */
  #isComplete = false;
  #connection: number | undefined;
  #wake = Promise.withResolvers<void>();
  #stopped = false;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** Moves entries that the view's writer has just added to the outbox, in their order; returns at once. */
  push(entries: readonly OutboxEntry[]): void {
    if (this.#isCurrent && this.#waiting.length + entries.length <= MAX_WAITING) {
      for (const entry of entries) {
        this.#known.add(entry.id);
        this.#waiting.push(entry);
      }
      this.#after = entries.at(-1)?.id ?? this.#after;
      this.#go();
      return;
    }
    // `#read` gets them later, in their order.
    this.#isComplete = false;
    this.#hasMore = true;
    this.#go();
  }

  /** Starts to empty the outbox and returns at once. Called after each applied chunk and at the start. */
  kick(): void {
    if (!this.#isCurrent) this.#hasMore = true;
    this.#go();
  }

  /** Records that an apply has failed. It may have added entries nevertheless, and the next `kick` reads them. */
  recordFailedApply(): void {
    this.#readAgain();
  }

  /**
   * As `kick`, and tries again to queue entries that a queue has refused. Called by each check of recovery.
   */
  retry(): void {
    if (this.#stuck.size > 0) this.#readAgain();
    this.#stuck.clear();
    this.kick();
  }

  /** Resolves when every entry that was in the outbox at the call is in its queue and deleted, or was refused. */
  async drained(): Promise<void> {
    this.kick();
    await this.#running;
    await this.#options.view.outbox.flush();
  }

  get #isCurrent(): boolean {
    return this.#isComplete && this.#connection === this.#options.view.outbox.connection;
  }

  /** The next `kick` reads from the beginning. */
  #readAgain(): void {
    this.#restarts += 1;
    this.#isComplete = false;
    this.#after = undefined;
  }

  /** Moves no further entries, which stay in the outbox for the next gateway. Resolves when none is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  #go(): void {
    if (this.#stopped) return;
    this.#wake.resolve();
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    // The caller sets `#running` first, and the end of this method clears it.
    await Promise.resolve();
    while (this.#moving.size > 0 || (!this.#stopped && (this.#hasMore || this.#waiting.length > 0))) {
      this.#wake = Promise.withResolvers();
      if (this.#hasMore && !this.#stopped) await this.#read();
      if (!this.#stopped) this.#moveNext();
      // The end of a move, a push and a kick resolve it.
      if (this.#moving.size > 0) await this.#wake.promise;
    }
    if (this.#stuck.size > 0) this.#readAgain();
    else if (this.#isCurrent && this.#waiting.length === 0) this.#options.view.outbox.recordNoneWaiting();
    this.#stuck.clear();
    // In the same turn of the event loop as the last check of the loop, so that a later kick starts a new run.
    this.#running = undefined;
  }

  async #read(): Promise<void> {
    const { view, logger } = this.#options;
    const { outbox } = view;
    if (this.#connection !== outbox.connection) {
      this.#readAgain();
      // This read counts the entries that Redis still has.
      outbox.recordNoneWaiting();
    }
    this.#connection = outbox.connection;
    // Entries that are pushed during the read must be read as well: put before this page, they would be out of order.
    this.#isComplete = false;
    const restarts = this.#restarts;
    try {
      while (this.#hasMore && this.#waiting.length < MAX_WAITING) {
        this.#hasMore = false;
        const page = await outbox.read(PAGE, this.#after);
        if (restarts !== this.#restarts) {
          // A move or an apply has failed during the read, so entries that were skipped as known may be forgotten by
          // now.
          this.#hasMore = true;
          return;
        }
        for (const entry of page) {
          if (this.#known.has(entry.id) || outbox.isAcknowledged(entry.id)) continue;
          this.#known.add(entry.id);
          this.#waiting.push(entry);
        }
        this.#after = page.at(-1)?.id ?? this.#after;
        this.#hasMore ||= page.length === PAGE;
      }
      this.#isComplete = !this.#hasMore;
    } catch (error) {
      this.#hasMore = false;
      this.#readAgain();
      // The next kick reads the entries again, at the latest in recovery's next check.
      logger.error({ resource: view.name, error: messageOf(error) }, 'the outbox could not be read, trying again');
    }
  }

  /** Begins to move the next entries of each controller that has none under way. */
  #moveNext(): void {
    const batches = new Map<string, OutboxEntry[]>();
    const rest: OutboxEntry[] = [];
    for (const entry of this.#waiting) {
      const { controller, id } = entry;
      const batch = batches.get(controller);
      if (this.#stuck.has(controller)) this.#known.delete(id);
      else if (this.#moving.has(controller) || batch?.length === CONTROLLER_BATCH) rest.push(entry);
      else if (batch) batch.push(entry);
      else batches.set(controller, [entry]);
    }
    this.#waiting = rest;
    for (const [controller, entries] of batches) {
      this.#moving.add(controller);
      void this.#moveFor(controller, entries);
    }
  }

  async #moveFor(controller: string, entries: readonly OutboxEntry[]): Promise<void> {
    const { view, logger } = this.#options;
    try {
      await this.#move(controller, entries);
    } catch (error) {
      this.#stuck.add(controller);
      logger.warn(
        { resource: view.name, controller, error: messageOf(error) },
        'wakeups could not be queued, trying again',
      );
    } finally {
      for (const { id } of entries) this.#known.delete(id);
      this.#moving.delete(controller);
      this.#wake.resolve();
    }
  }

  /** @throws the reason why the controller's queue refuses the wakeups now; they stay in the outbox. */
  async #move(controller: string, entries: readonly OutboxEntry[]): Promise<void> {
    const { view, enqueue, lookupBudget, checkpoint } = this.#options;
    const { connection } = view.outbox;
    let undeliverable: unknown = entries.every(({ wakeup }) => wakeup) ? undefined : UNREADABLE;
    const budget = lookupBudget(controller);
    const resolve = async (wakeup: Wakeup): Promise<KeyWakeup[]> => {
      if ('key' in wakeup) return [wakeup];
      if (!budget) return [];
      try {
        return await this.#lookups.run(tenantOf(controller), () => this.#resolve(wakeup, budget));
      } catch (error) {
        if (!isDataError(error) && !(error instanceof HandlerError)) throw error;
        undeliverable = error;
        return [];
      }
    };
    const wakeups = mergeWakeups(
      entries.flatMap(({ wakeup, atMs }) => (wakeup ? { ...wakeup, ...(atMs === undefined ? {} : { atMs }) } : [])),
    );
    const found = await Promise.all(wakeups.map(resolve));
    await checkpoint('relay:before-add');
    const { absent, failed } = (await enqueue(mergeWakeups(found.flat()))) ?? NOTHING;
    const failure = failed.get(controller);
    if (isDataError(failure) || failure instanceof HandlerError) undeliverable = failure;
    else if (failure !== undefined) throw new Error(messageOf(failure), { cause: failure });
    const isAbsent = absent.includes(controller) || (!budget && wakeups.some((wakeup) => 'lookup' in wakeup));
    // The controller gets all its keys when this gateway runs it again, or when its handlers work again.
    if (isAbsent || undeliverable !== undefined) await view.record.recordMissed(controller);
    await checkpoint('relay:after-add');
    if (view.outbox.connection === connection) view.outbox.acknowledge(entries.map(({ id }) => id));
    // The queue may have lost the keys with the connection, so they are delivered again.
    else this.#readAgain();
    await checkpoint('relay:after-delete');
    if (undeliverable !== undefined) this.#report(controller, undeliverable);
  }

  async #resolve({ lookup, ...wakeup }: LookupWakeup, budget: LookupBudget): Promise<KeyWakeup[]> {
    if ('related' in lookup) return (await budget.related(lookup.related)).map((key) => ({ ...wakeup, key }));
    const view = this.#options.viewAt(lookup.view);
    if (!view) return [];
    const inTurn: Turn = (part) => this.#parts.run(budget.tenant, part);
    return (await resolveLookup(view, lookup, budget, inTurn)).map((key) => ({ ...wakeup, key }));
  }

  #report(controller: string, error: unknown): void {
    const { logger, metrics, onUndeliverable, view } = this.#options;
    metrics.count('levelhook_undeliverable_wakeups_total', { controller });
    // The controller itself logs the errors of its handlers, less often than each batch has them.
    if (!(error instanceof HandlerError)) {
      logger.error(
        { resource: view.name, controller, error: messageOf(error) },
        'a wakeup cannot be delivered: its controller gets all its keys instead',
      );
    }
    onUndeliverable(controller, error);
  }
}

const UNREADABLE = new TypeError('an entry of the outbox cannot be read');
const NOTHING: Enqueued = { absent: [], failed: new Map() };
