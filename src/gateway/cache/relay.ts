import { type Checkpoint, type Logger, messageOf, type Metrics } from '../../core/index.ts';
import { HandlerError, type KeyWakeup, type LookupWakeup, mergeWakeups, type Wakeup } from './change.ts';
import { type LookupBudget, resolveLookup } from './lookup.ts';
import { isDataError } from '../redis/redis.ts';
import type { OutboxEntry } from './outbox.ts';
import type { View } from './view.ts';

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
  /**
   * A wakeup of this controller was taken out of the outbox, since it cannot be delivered: the controller is owed all
   * its keys.
   */
  readonly onUndeliverable: (controller: string, error: unknown) => void;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly checkpoint: Checkpoint;
}

/** Entries read at a time. */
const PAGE = 500;
/** Entries of one controller that are moved at a time. */
const TURN = 500;
/** Entries that are kept here, in the queues of no controller yet. */
const WINDOW = 10_000;
/**
 * Lookups that are resolved at the same time. Each may decode an object of megabytes between two turns of the event
 * loop, and what others do takes a dozen turns.
 */
const AT_ONCE = 2;

/**
 * Moves wakeups from a view's outbox to the queues: add first, acknowledge after, so that a crash in between queues a
 * key twice (where the queue merges it) and never loses one.
 *
 * The applier hands over what each apply has added to the outbox (`push`), so nothing is read on the usual way. The
 * relay reads the outbox where it may hold more than is known here: after the start, a lost connection, a failed apply
 * or read, a queue that could not take its wakeups, and while more wakeups wait than are kept here.
 *
 * Each controller has its own lane, in which its wakeups are moved in order. So a controller with many wakeups, or with
 * a slow queue, does not delay others.
 *
 * The relay removes and counts a wakeup that it cannot deliver because of its data, and the controller gets all its
 * keys. If a queue cannot accept keys now, its wakeups stay in the outbox until the next `kick` of an idle relay, or
 * the next `retry`.
 */
export class Relay {
  readonly #options: RelayOptions;
  readonly #lookups = new Slots(AT_ONCE);
  /** Read, and in no lane yet. In the order of the outbox. */
  #waiting: OutboxEntry[] = [];
  /** Controllers whose wakeups are being moved. */
  readonly #lanes = new Set<string>();
  /** Entries that wait or are in a lane. */
  readonly #known = new Set<string>();
  /** Controllers whose queues could not take their wakeups: further ones are left where they are. */
  readonly #stuck = new Set<string>();
  /** Up to which entry all are known here, or were. */
  #after: string | undefined;
  #running: Promise<void> | undefined;
  /** There may be entries behind `#after`. */
  #isMore = false;
  /** Nothing is in the outbox that was not read or pushed, on this connection. */
  #isComplete = false;
  #connection: number | undefined;
  #wake = Promise.withResolvers<void>();

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** Moves entries that the view's writer has just added to the outbox, in their order; returns at once. */
  push(entries: readonly OutboxEntry[]): void {
    if (this.#isCurrent && this.#waiting.length + entries.length <= WINDOW) {
      for (const entry of entries) {
        this.#known.add(entry.id);
        this.#waiting.push(entry);
      }
      this.#after = entries.at(-1)?.id ?? this.#after;
      this.#go();
      return;
    }
    // They are read in their turn.
    this.#isComplete = false;
    this.#isMore = true;
    this.#go();
  }

  /** Empties the outbox soon; returns at once. Called after each applied chunk and at start. */
  kick(): void {
    if (!this.#isCurrent) this.#isMore = true;
    this.#go();
  }

  /** An apply has failed: it may have added entries all the same. The next `kick` reads them. */
  recordFailedApply(): void {
    this.#readAgain();
  }

  /**
   * The same, from the beginning of the outbox, if anything there may have been left: what could not be queued is tried
   * again. Called by each check of recovery.
   */
  retry(): void {
    if (this.#stuck.size > 0) this.#readAgain();
    this.#stuck.clear();
    this.kick();
  }

  /** Resolves when what was in the outbox at the call is in the queues and deleted, or cannot be queued now. */
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
    this.#isComplete = false;
    this.#after = undefined;
  }

  #go(): void {
    this.#wake.resolve();
    this.#running ??= this.#run();
  }

  async #run(): Promise<void> {
    // It must not be over before `#running` is set.
    await Promise.resolve();
    while (this.#isMore || this.#waiting.length > 0 || this.#lanes.size > 0) {
      this.#wake = Promise.withResolvers();
      if (this.#isMore) await this.#read();
      this.#fillLanes();
      // Each lane that ends, each push and each kick is a reason to look again.
      if (this.#lanes.size > 0) await this.#wake.promise;
    }
    if (this.#stuck.size > 0) this.#readAgain();
    this.#stuck.clear();
    // In the same breath as the last look: a kick that comes later starts anew.
    this.#running = undefined;
  }

  async #read(): Promise<void> {
    const { view, logger } = this.#options;
    const { outbox } = view;
    if (this.#connection !== outbox.connection) this.#readAgain();
    this.#connection = outbox.connection;
    // What is pushed meanwhile is read: before this page it would be out of order.
    this.#isComplete = false;
    try {
      while (this.#isMore && this.#waiting.length < WINDOW) {
        this.#isMore = false;
        const page = await outbox.read(PAGE, this.#after);
        for (const entry of page) {
          if (this.#known.has(entry.id) || outbox.isAcknowledged(entry.id)) continue;
          this.#known.add(entry.id);
          this.#waiting.push(entry);
        }
        this.#after = page.at(-1)?.id ?? this.#after;
        this.#isMore ||= page.length === PAGE;
      }
      this.#isComplete = !this.#isMore;
    } catch (error) {
      this.#isMore = false;
      this.#readAgain();
      // Unread entries stay in the outbox; the next kick reads them, at the latest that of recovery's next check.
      logger.error({ resource: view.name, error: messageOf(error) }, 'the outbox could not be read, trying again');
    }
  }

  /** Gives each controller whose lane is free its next turn. */
  #fillLanes(): void {
    const turns = new Map<string, OutboxEntry[]>();
    const rest: OutboxEntry[] = [];
    for (const entry of this.#waiting) {
      const { controller, id } = entry;
      const turn = turns.get(controller);
      if (this.#stuck.has(controller)) this.#known.delete(id);
      else if (this.#lanes.has(controller) || turn?.length === TURN) rest.push(entry);
      else if (turn) turn.push(entry);
      else turns.set(controller, [entry]);
    }
    this.#waiting = rest;
    for (const [controller, entries] of turns) {
      this.#lanes.add(controller);
      void this.#runLane(controller, entries);
    }
  }

  async #runLane(controller: string, entries: readonly OutboxEntry[]): Promise<void> {
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
      this.#lanes.delete(controller);
      this.#wake.resolve();
    }
  }

  /** @throws what keeps the controller's queue from taking them now: they stay in the outbox. */
  async #move(controller: string, entries: readonly OutboxEntry[]): Promise<void> {
    const { view, enqueue, lookupBudget, checkpoint } = this.#options;
    const { connection } = view.outbox;
    let undeliverable: unknown = entries.every(({ wakeup }) => wakeup) ? undefined : UNREADABLE;
    const budget = lookupBudget(controller);
    const resolve = async (wakeup: Wakeup): Promise<KeyWakeup[]> => {
      if ('key' in wakeup) return [wakeup];
      if (!budget) return [];
      try {
        return await this.#lookups.run(() => this.#resolve(wakeup, budget));
      } catch (error) {
        if (!isDataError(error) && !(error instanceof HandlerError)) throw error;
        undeliverable = error;
        return [];
      }
    };
    const wakeups = mergeWakeups(entries.flatMap(({ wakeup }) => wakeup ?? []));
    const found = await Promise.all(wakeups.map(resolve));
    await checkpoint('relay:before-add');
    const { absent, failed } = (await enqueue(mergeWakeups(found.flat()))) ?? NOTHING;
    const failure = failed.get(controller);
    if (isDataError(failure)) undeliverable = failure;
    else if (failure !== undefined) throw new Error(messageOf(failure), { cause: failure });
    const isAbsent = absent.includes(controller) || (!budget && wakeups.some((wakeup) => 'lookup' in wakeup));
    // It gets all its keys when it is back, or mended.
    if (isAbsent || undeliverable !== undefined) await view.recordMissed(controller);
    await checkpoint('relay:after-add');
    if (view.outbox.connection === connection) view.outbox.acknowledge(entries.map(({ id }) => id));
    // The queue may have lost them with the connection, or not: they are delivered again.
    else this.#readAgain();
    await checkpoint('relay:after-delete');
    if (undeliverable !== undefined) this.#report(controller, undeliverable);
  }

  async #resolve({ controller, lookup, reasons }: LookupWakeup, budget: LookupBudget): Promise<KeyWakeup[]> {
    const view = this.#options.viewAt(lookup.view);
    if (!view) return [];
    return (await resolveLookup(view, lookup, budget)).map((key) => ({ controller, key, reasons }));
  }

  #report(controller: string, error: unknown): void {
    const { logger, metrics, onUndeliverable, view } = this.#options;
    metrics.count('levelhook_undeliverable_wakeups_total', { controller });
    // The controller tells of what it is to blame for, which may come with each turn.
    if (!(error instanceof HandlerError)) {
      logger.error(
        { resource: view.name, controller, error: messageOf(error) },
        'a wakeup cannot be delivered: its controller gets all its keys instead',
      );
    }
    onUndeliverable(controller, error);
  }
}

/** So many pieces of work at a time, begun in the order in which they were given. */
class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}

const UNREADABLE = new TypeError('an entry of the outbox cannot be read');
const NOTHING: Enqueued = { absent: [], failed: new Map() };
