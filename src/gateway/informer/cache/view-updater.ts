import {
  compareResourceVersions,
  formatKind,
  type KubernetesObject,
  messageOf,
  orUndefined,
  type ResourceVersion,
} from '../../../core/index.ts';
import { UnreadableObjectError } from '../../../contract/node/codec.ts';
import { isDataError } from '../../../ground/redis/redis.ts';
import { EventBuffer } from '../reflector/event-buffer.ts';
import type { ListWatch } from '../reflector/list-watch.ts';
import { Reflector, type Refusal } from '../reflector/reflector.ts';
import type { WatchEvent } from '../reflector/watch-event.ts';
import { Applier } from './applier.ts';
import { Backfill, type UserIndexes } from './backfill.ts';
import type { ChangeHandlers } from './change-handlers.ts';
import type { Term } from './gateway-writer.ts';
import type { InformerOptions } from './informer-options.ts';
import type { OutboxEntry } from './outbox.ts';
import { Relay } from './relay.ts';
import { takeBack } from './take-back.ts';
import type { View } from './view.ts';
import { ViewFreshness } from './view-freshness.ts';
import { informerLabels } from './informer-labels.ts';
import { transformOf } from './view-settings.ts';
import { ForeignWriterError } from './view-writer.ts';

export interface ViewUpdaterOptions {
  readonly informer: Omit<InformerOptions, 'client'>;
  readonly listWatch: ListWatch;
  readonly handlers: ChangeHandlers;
  readonly needs: UserNeeds;
  /** The updater works until it ends. */
  readonly term: Term;
  /** The server's version of the resource now; undefined when it does not serve the kind. */
  readonly currentVersion: () => Promise<ResourceVersion | undefined>;
  readonly on: ViewUpdaterEvents;
}

/** The users' needs, which may change while the updater runs. */
export interface UserNeeds {
  /** The indexes that each user reads by. */
  readonly indexes: ReadonlyMap<string, UserIndexes>;
  /** How old the view may be, in milliseconds. A user that takes any age is absent. */
  readonly ageLimits: ReadonlyMap<string, number>;
}

export interface ViewUpdaterEvents {
  /** A list is complete, or the view was found complete (true) or incomplete (false) when it was taken. */
  readonly synced: (isSynced: boolean) => void;
  /** A list was applied. */
  readonly listed: () => void;
  /** The server's objects have another scope than this resource. */
  readonly outdated: () => void;
  /** `refusal` has begun or ended. */
  readonly refusal: () => void;
}

/** Events applied by one script at most, and their size: bounds the time that a script blocks Redis. */
const CHUNK = 200;
const CHUNK_BYTES = 8 * 1024 * 1024;
/** How often the contents of a chunk may fail before the chunk is applied event by event. */
const ATTEMPTS = 3;
/**
 * The least time between two lists that bring back objects left out for lack of memory, because they may fail again.
 */
const TAKE_BACK_MS = 60_000;
/** Between two calls that marks have changed. */
const MARKS_MS = 30_000;
const HEARD_MS = 3000;
const HEARD_AGAIN_MS = 10;
/** How long a stop waits for a Redis that does not answer. */
const STOP_TIMEOUT_MS = 1000;

/**
 * Keeps one view in line with the apiserver while this gateway leads: reflector, buffer, applier, outbox and relay. It
 * takes the view, continues from the view's version, and ends with the term; then another gateway's updater continues.
 */
export class ViewUpdater {
  readonly #options: ViewUpdaterOptions;
  readonly #view: View;
  readonly #buffer: EventBuffer;
  readonly #reflector: Reflector;
  readonly #applier: Applier;
  readonly #relay: Relay;
  readonly #backfill: Backfill;
  readonly #freshness: ViewFreshness;
  readonly #stop = new AbortController();
  /** Of the term, or of `stop`. */
  readonly #signal: AbortSignal;
  readonly #taken = Promise.withResolvers<void>();
  #running: Promise<unknown> = Promise.resolve();
  #isTaken = false;
  #begun = false;
  /** All users that received the last changes have handlers here, or are not waited for any longer. */
  #hearsAll = false;
  #filledFromNothing = false;
  #isSynced = false;
  #isOutdated = false;
  /** The number of the last list applied; -1 before the first. */
  #listApplied = -1;
  /** How many wait for a list. */
  #relists = 0;
  /** The chunk under way. */
  #applying: Promise<void> = Promise.resolve();
  /** When the oldest event of the chunk under way was read, and how many events the chunk has. */
  #applyingSinceMs: number | undefined;
  #applyingEvents = 0;
  #discarding: Promise<void> | undefined;
  /** The record may have lost the name of the key that encrypts the view. */
  #mayLackKey = false;
  /** Not before this time. */
  #takeBackAtMs = 0;
  /** `#tellOfMarks` runs. */
  #tellsOfMarks = false;

  constructor(options: ViewUpdaterOptions) {
    const { informer, listWatch, handlers, needs, term } = options;
    const { ageLimits: limits, indexes } = needs;
    const { listeners, resource, runtime, settings, view, viewAt } = informer;
    const { clock, logger, metrics, checkpoint } = runtime;
    const { enqueue, lookupBudget, onUndeliverable } = listeners;
    this.#options = options;
    this.#view = view;
    this.#signal = AbortSignal.any([term.signal, this.#stop.signal]);
    this.#buffer = new EventBuffer(clock);
    this.#reflector = new Reflector({
      resource,
      listWatch,
      buffer: this.#buffer,
      runtime,
      random: Math.random,
      transform: transformOf(settings, formatKind(resource)),
      onRefusal: () => options.on.refusal(),
    });
    const wakeups = { enqueue, lookupBudget, onUndeliverable };
    this.#relay = new Relay({ view, viewAt, ...wakeups, logger, metrics, checkpoint });
    const onWakeups = (entries: readonly OutboxEntry[]): void => {
      const atMs = this.#applyingSinceMs ?? clock.now();
      this.#relay.push(entries.map((entry) => ({ ...entry, atMs })));
    };
    this.#applier = new Applier({ view, handlers, onWakeups, logger, metrics, checkpoint });
    this.#backfill = new Backfill({
      view,
      indexes,
      started: this.#taken.promise,
      applied: () => this.#applying,
      clock,
      logger,
      signal: this.#signal,
    });
    this.#freshness = new ViewFreshness({
      record: view.record,
      limits,
      currentVersion: options.currentVersion,
      requestProgress: () => this.#reflector.requestProgress(),
      isFrozen: () => this.#applier.isFrozen,
      clock,
      signal: this.#signal,
    });
    view.objects.onUnreadable((error) => this.#discard(error));
  }

  /** The view held nothing when it was taken: everything in it was listed since. */
  get filledFromNothing(): boolean {
    return this.#filledFromNothing;
  }

  get isTaken(): boolean {
    return this.#isTaken;
  }

  /** It does not watch yet, because users of the view are still starting. */
  get waitsForUsers(): boolean {
    return this.#begun && !this.#hearsAll;
  }

  /** See `Reflector.refusal`. */
  get refusal(): Refusal | undefined {
    return this.#reflector.refusal;
  }

  /** Since when the oldest event that was read waits for being in the cache; undefined when none does. */
  get unappliedSinceMs(): number | undefined {
    return this.#applyingSinceMs ?? this.#buffer.oldestAtMs;
  }

  /** How many events were read and are not in the cache yet. */
  get unapplied(): number {
    return this.#buffer.length + this.#applyingEvents;
  }

  /** Resolves when the chunk that is being applied now is in the view. */
  get applied(): Promise<void> {
    return this.#applying;
  }

  /** Takes the view. Nothing else happens to it before `begin`. */
  async take(): Promise<void> {
    const view = this.#view;
    await view.writer.claim(this.#options.term.writerId);
    // The process may have stood still between the decision and the claim.
    this.#signal.throwIfAborted();
    if (this.#options.term.isOver()) throw new Error('another gateway may lead by now');
    this.#isTaken = true;
    await this.#reencrypt();
    await view.indexer.recount();
    const { version, rewound } = await view.record.state();
    this.#filledFromNothing = version === undefined;
    view.indexer.maintain(await view.indexer.complete());
    this.#markSynced(version !== undefined && !rewound);
    this.#taken.resolve();
  }

  /** Begins to fill the view, or goes on where the last writer stopped; does nothing the second time. */
  async begin(): Promise<void> {
    if (this.#begun) return;
    this.#begun = true;
    const view = this.#view;
    const { version, rewound, isServed } = await view.record.state();
    // Only a complete list removes the mark, and restores the data that was cleared with it.
    if (rewound || !isServed) this.#applier.freezeUntil(this.#reflector.relist(rewound));
    const from = rewound ? undefined : version;
    const newest = from === undefined ? undefined : await view.objects.newest();
    const knownObject = newest && { key: newest.key, uid: newest.entry.uid, version: newest.entry.resourceVersion };
    this.#running = this.#untilHeard().then(() => {
      if (this.#signal.aborted) return undefined;
      this.#hearsAll = true;
      this.#relay.kick();
      return Promise.all([this.#reflector.run(from, this.#signal, knownObject), this.#applyLoop()]);
    });
    this.#freshness.start();
  }

  /**
   * Waits up to three seconds until all users that received the last changes have handlers here: a user that is still
   * starting would miss a change, or a wakeup that waits in the outbox, and run all of its keys. Never rejects.
   */
  async #untilHeard(): Promise<void> {
    const { handlers, informer } = this.#options;
    const { clock } = informer.runtime;
    const untilMs = clock.now() + HEARD_MS;
    const before = await this.#view.record.hearers().catch(() => []);
    const isMissing = (user: string): boolean => !handlers.users.includes(user);
    while (before.some(isMissing) && clock.now() < untilMs && !this.#signal.aborted) {
      await clock.sleep(HEARD_AGAIN_MS, this.#signal);
    }
  }

  /** Ends the work and gives the view up. Resolves when no work is under way. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#taken.resolve();
    await Promise.all([this.#running, this.#backfill.finished]);
    this.#buffer.end();
    // Before the connection to Redis ends: a wakeup under way would be logged as refused.
    await this.#atMost(this.#relay.stop());
    await this.#atMost(this.#view.outbox.flush());
    this.#view.writer.release();
  }

  /** The limits of its age have changed. */
  keepFresh(): void {
    if (this.#begun) this.#freshness.start();
  }

  /** The indexes have changed. */
  fillIndexes(): void {
    this.#backfill.start();
  }

  /**
   * Reads the namespaces again whose objects were left out for want of memory, and are no longer. Not the whole kind: a
   * tenant may have a gigabyte of objects that are left out, and the changes of all others would wait behind a list.
   */
  async takeBack(): Promise<void> {
    const { clock } = this.#options.informer.runtime;
    if (!this.#begun || clock.now() < this.#takeBackAtMs) return;
    const leftOut = await this.#view.indexer.leftOutNamespaces();
    const places = leftOut.filter((each) => this.#view.leftOut(this.#view.payerOf(each || undefined)) === undefined);
    if (places.length === 0 || clock.now() < this.#takeBackAtMs) return;
    this.#takeBackAtMs = Infinity;
    const failures: unknown[] = [];
    const { informer, listWatch } = this.#options;
    const transform = transformOf(informer.settings, formatKind(informer.resource));
    const parts = { view: this.#view, buffer: this.#buffer, listWatch, transform, signal: this.#signal };
    for (const namespace of places) await takeBack(namespace, parts).catch((error: unknown) => failures.push(error));
    this.#takeBackAtMs = clock.now() + TAKE_BACK_MS;
    if (failures.length > 0 && !this.#signal.aborted) throw failures[0];
  }

  /** Sends what may be left in the outbox. */
  drainOutbox(): void {
    if (this.#hearsAll) this.#relay.retry();
  }

  requestProgress(): void {
    this.#reflector.requestProgress();
  }

  /**
   * Takes the view again and begins to read the server again as a diff.
   * @returns whether that is applied, for the caller to wait.
   */
  async relist(): Promise<{ readonly isApplied: () => boolean; readonly end: () => void }> {
    this.#relists += 1;
    const end = (): void => void (this.#relists -= 1);
    try {
      const list = await this.#reclaim();
      return { isApplied: () => this.#listApplied >= list, end };
    } catch (error) {
      end();
      throw error;
    }
  }

  async #reclaim(): Promise<number> {
    const view = this.#view;
    const { version, rewound, isServed } = await view.record.state();
    // Redis may have come back with data from before the server's data was restored. If an event was applied to it
    // since, that set the view's version, but not the versions of the other objects.
    const newest = rewound ? undefined : (await view.objects.newest())?.entry.resourceVersion;
    // Asked last: versions of this server's history that the view holds cannot be above it.
    const current = await orUndefined(this.#options.currentVersion());
    const isAbove = (each: ResourceVersion | undefined): boolean =>
      each !== undefined && current !== undefined && compareResourceVersions(each, current) > 0;
    // After a 404 that the view does not explain, the list must not trust any version of the view.
    const isAhead = (current === undefined && isServed) || isAbove(version) || isAbove(newest);
    const list = this.#reflector.relist(rewound || isAhead, current);
    this.#signal.throwIfAborted();
    this.#applier.freezeUntil(list);
    await view.writer.reclaim();
    this.#mayLackKey = true;
    return list;
  }

  /** Waits for work that ends with an answer of Redis, or never. Never rejects. */
  async #atMost(work: Promise<unknown>): Promise<void> {
    const timeout = new AbortController();
    const ended = work.catch(() => {});
    await Promise.race([ended, this.#options.informer.runtime.clock.sleep(STOP_TIMEOUT_MS, timeout.signal)]);
    timeout.abort();
  }

  async #applyLoop(): Promise<void> {
    const { clock, metrics } = this.#options.informer.runtime;
    while (!this.#signal.aborted) {
      await this.#buffer.filled(this.#signal);
      this.#applyingSinceMs = this.#buffer.oldestAtMs;
      const events = await this.#buffer.take(CHUNK, this.#signal, CHUNK_BYTES);
      if (events.length === 0) continue;
      const takenMs = clock.now();
      this.#applyingEvents = events.length;
      this.#applying = this.#apply(events, this.#applyingSinceMs);
      await this.#applying;
      if (!this.#signal.aborted) {
        metrics.observe(
          'informer_processing_latency_seconds',
          informerLabels(this.#view),
          (clock.now() - takenMs) / 1000,
        );
      }
      this.#applyingSinceMs = undefined;
      this.#applyingEvents = 0;
    }
    this.#buffer.end();
    await this.#applier.waitForPendingWrite();
  }

  /**
   * Applies a chunk, and retries until it succeeds; applying a chunk twice is harmless. A chunk that fails because of
   * its data is applied event by event.
   */
  async #apply(events: readonly WatchEvent[], readMs: number | undefined): Promise<void> {
    const { clock, logger } = this.#options.informer.runtime;
    const resource = this.#view.name;
    if (!this.#isOutdated && events.some((event) => 'object' in event && !this.#isInScope(event.object))) {
      this.#isOutdated = true;
      this.#options.on.outdated();
    }
    let dataErrors = 0;
    while (!this.#signal.aborted) {
      try {
        if (this.#mayLackKey) {
          await this.#view.objects.reencrypt();
          this.#mayLackKey = false;
        }
        const each = dataErrors >= ATTEMPTS;
        const result = await (each ? this.#applier.applyEach(events, readMs) : this.#applier.apply(events, readMs));
        this.#relay.kick();
        void this.#tellOfMarks();
        if (result === 'contradiction') {
          logger.warn({ resource }, 'the apiserver has other or older data than the cache: listing anew');
          this.#reflector.relist(true);
        }
        this.#recordLists(events);
        return;
      } catch (error) {
        if (this.#signal.aborted) return;
        this.#relay.recordFailedApply();
        // A stored object that cannot be read is no fault of the events: the view is discarded and listed again.
        if (isDataError(error) && !(error instanceof UnreadableObjectError)) dataErrors += 1;
        if (error instanceof ForeignWriterError) await this.#onForeignWriter();
        else logger.error({ resource, error: messageOf(error) }, 'a chunk could not be applied');
        await clock.sleep(200, this.#signal);
      }
    }
  }

  /**
   * Tells the users of the view that marks have come or gone: at once, and then not for a while. Those of one tenant
   * may come and go all the time, and each user writes a status for it.
   */
  async #tellOfMarks(): Promise<void> {
    if (this.#tellsOfMarks) return;
    this.#tellsOfMarks = true;
    const { handlers, informer } = this.#options;
    const { listeners, runtime } = informer;
    try {
      while (!this.#signal.aborted && this.#applier.resetMarksChanged()) {
        listeners.onViewChanged(handlers.users);
        await runtime.clock.sleep(MARKS_MS, this.#signal);
      }
    } finally {
      this.#tellsOfMarks = false;
    }
  }

  #isInScope({ metadata }: KubernetesObject): boolean {
    return (metadata.namespace !== undefined) === this.#options.informer.resource.namespaced;
  }

  #recordLists(events: readonly WatchEvent[]): void {
    for (const event of events) {
      // A resource that is no longer served has no objects: that, too, answers a caller that waits for a list.
      if (event.kind !== 'init-done' && event.kind !== 'gone') continue;
      this.#listApplied = Math.max(this.#listApplied, event.list);
      this.#markSynced(true);
      // The entries of indexes may have been lost with the other data.
      this.#backfill.start();
      const { lastList } = this.#reflector;
      // For people alone. A view that has another writer is noticed by the next apply.
      if (lastList) void this.#view.record.recordList(lastList).catch(() => {});
    }
    this.#options.on.listed();
  }

  #markSynced(synced: boolean): void {
    this.#isSynced = synced;
    this.#options.on.synced(synced);
  }

  /** Removes objects that the present keys cannot decrypt, before they are read, so that they are listed again. */
  async #reencrypt(): Promise<void> {
    const view = this.#view;
    try {
      await view.objects.reencrypt();
    } catch (error) {
      if (!(error instanceof UnreadableObjectError)) throw error;
      // The listener has seen to it.
      await this.#discarding;
      await view.writer.reclaim();
      await view.objects.reencrypt();
    }
  }

  /**
   * An object of the view cannot be read: it was altered, or written by a later build. Drops the whole view; recovery
   * refills it. A relist alone would skip the unreadable object, because its version has not changed.
   */
  #discard(error: UnreadableObjectError): void {
    // The leader discards the view.
    if (this.#signal.aborted) return;
    this.#discarding ??= this.#discardNow(error);
  }

  async #discardNow(error: UnreadableObjectError): Promise<void> {
    const { logger } = this.#options.informer.runtime;
    const resource = this.#view.name;
    logger.error({ resource, error: error.message }, 'the view cannot be read: listing it anew');
    try {
      await this.#view.discard();
    } catch (reason) {
      // The next read of the object tries again.
      logger.error({ resource, error: messageOf(reason) }, 'the view could not be removed');
    } finally {
      this.#discarding = undefined;
    }
  }

  async #onForeignWriter(): Promise<void> {
    void this.#options.informer.writer.check(this.#view);
    // The ID was lost in the middle of the first list, which recovery does not check yet, or of a list that recovery
    // waits for.
    if (this.#isSynced && this.#relists === 0) return;
    const state = await this.#view.record.state().catch(() => undefined);
    if (state && state.writerId === undefined) await this.#reclaim().catch(() => {});
  }
}
