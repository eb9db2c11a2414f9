import { randomUUID } from 'node:crypto';
import {
  type Checkpoint,
  formatKind,
  formatObjectKey,
  keyOf,
  type Logger,
  messageOf,
  type Metrics,
  objectNamed,
  originOf,
  type ResourceVersion,
} from '../../../core/index.ts';
import { cachedKey } from '../../../contract/node/cached-name.ts';
import { decodeEntry, type ObjectEntry } from '../../../contract/cache-layout.ts';
import type { WatchEvent } from '../reflector/watch-event.ts';
import { lengthOf, mergeWakeups, type Wakeup } from './change.ts';
import type { ChangeHandlers } from './change-handlers.ts';
import { EventComparer, isObjectEvent, type ObjectEvent } from './event-comparer.ts';
import { Listing } from './listing.ts';
import { isDataError } from '../../../ground/redis/redis.ts';
import type { OutboxEntry } from './outbox.ts';
import {
  bytesOfEntries,
  type Chunk,
  costOf,
  costOfEntries,
  costOfWakeups,
  MAX_ENTRIES,
  type ViewOperation,
} from './chunk.ts';
import type { View } from './view.ts';

interface ChunkInProgress {
  /** The argument of `apply`: a second call with the same events continues this chunk. */
  readonly given: readonly WatchEvent[];
  /** `given`, preceded by the events of a pending write that has failed. */
  events: readonly WatchEvent[];
  /** How many of `events` are applied. A second attempt continues there. */
  done: number;
  contradicted: boolean;
}

/** A write that Redis has not answered yet. */
interface PendingWrite {
  readonly events: readonly WatchEvent[];
  readonly written: Promise<void>;
}

/** The oldest version there can be. */
const BEFORE_ALL = '1';
/** Deleted objects that are read at a time: each may have megabytes. */
const DELETE_PAGE = 50;

export interface ApplierOptions {
  readonly view: View;
  readonly handlers: ChangeHandlers;
  /** Called with the wakeups that an apply has just added to the outbox. Default: the wakeups stay in the outbox. */
  readonly onWakeups?: (entries: readonly OutboxEntry[]) => void;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly checkpoint: Checkpoint;
}

/**
 * The only writer of a view. Takes the reflector's events in chunks, compares each event with the cached object, asks
 * the handler which keys the change wakes, and then applies objects, indexes, wakeups and version with one script. A
 * crash before the script leaves everything as it was, and the watch resumes from the view's version; a crash after it
 * leaves the wakeups in the outbox.
 */
export class Applier {
  readonly #options: ApplierOptions;
  readonly #comparer: EventComparer;
  /** In the first list of an empty view, the applier prepares the next write while this one is on its way to Redis. */
  #pendingWrite: PendingWrite | undefined;
  #listing: Listing | undefined;
  #chunk: ChunkInProgress | undefined;
  /** The view's version stays where it is until this list, or a later one, is complete. */
  #frozenUntil: number | undefined;
  /** When the oldest event of the chunk was read. */
  #readMs: number | undefined;

  constructor(options: ApplierOptions) {
    this.#options = options;
    this.#comparer = new EventComparer(options);
  }

  /**
   * The view may have lost data, so its version does not move until that list is complete. Otherwise the next event
   * would move the version past changes that the view lacks.
   */
  freezeUntil(list: number): void {
    this.#frozenUntil = list;
  }

  /** Whether the view's version stays where it is. */
  get isFrozen(): boolean {
    return this.#frozenUntil !== undefined;
  }

  /** Whether marks of objects that are kept out may have come or gone since the last call. */
  resetMarksChanged(): boolean {
    return this.#comparer.resetMarksChanged();
  }

  /**
   * Applies events in their order. Called again with the same events after a failure, it continues at the failed event,
   * because events before the start of a list must not count as a part of the list. In the first list of an empty view
   * the last write may be pending when this resolves. If that write fails, the next call throws, and the call after it
   * applies its events again.
   * @param readMs when the oldest of the events was read. Default: the view's time (`ViewState.shownMs`) stays.
   * @returns `contradiction` when a list contradicts the cache (`Listing.recordContradiction`): the server's data was
   *   rewound and must be listed again as such.
   * @throws ForeignWriterError when another gateway has taken the view.
   */
  async apply(events: readonly WatchEvent[], readMs?: number): Promise<'applied' | 'contradiction'> {
    this.#readMs = readMs;
    const chunk = this.#begin(events);
    while (chunk.done < chunk.events.length) await this.#applyNext(chunk);
    this.#chunk = undefined;
    return chunk.contradicted ? 'contradiction' : 'applied';
  }

  #begin(events: readonly WatchEvent[]): ChunkInProgress {
    if (this.#chunk?.given !== events) this.#chunk = { given: events, events, done: 0, contradicted: false };
    return this.#chunk;
  }

  /** Resolves when no write is pending any more, whether it succeeded or failed. */
  async waitForPendingWrite(): Promise<void> {
    await this.#pendingWrite?.written.catch(() => {});
  }

  /** Waits for the pending write. @throws if it failed; the chunk then begins with the events of that write. */
  async #finishPendingWrite(chunk: ChunkInProgress): Promise<void> {
    const pending = this.#pendingWrite;
    try {
      await pending?.written;
    } catch (error) {
      chunk.events = [...(pending?.events ?? []), ...chunk.events.slice(chunk.done)];
      chunk.done = 0;
      throw error;
    } finally {
      this.#pendingWrite = undefined;
    }
  }

  /**
   * Applies the next frame event of the chunk, or all events before it: the rules of a list begin and end with a frame.
   */
  async #applyNext(chunk: ChunkInProgress): Promise<void> {
    const next = chunk.events[chunk.done];
    if (!this.#listing?.fromNothing || (next && isFrame(next))) await this.#finishPendingWrite(chunk);
    const { events } = chunk;
    const event = events[chunk.done];
    if (event?.kind === 'init') await this.#beginList(event.rewound);
    else if (event?.kind === 'gone') await this.#clear(event.list);
    else if (event?.kind === 'unserved') await this.#options.view.record.markServed(false);
    else if (event?.kind === 'init-done') chunk.contradicted = (await this.#endList(event)) || chunk.contradicted;
    else {
      const frame = events.findIndex((each, at) => at > chunk.done && isFrame(each));
      const end = frame < 0 ? events.length : frame;
      await this.#applyPiece(events.slice(chunk.done, end), chunk);
      chunk.done = end;
      return;
    }
    chunk.done += 1;
  }

  /**
   * Continues a chunk that failed several times because of the data of an event, one event at a time. The view gets a
   * mark in place of an object that Redis cannot store. The applier counts and leaves out an event that it cannot apply
   * at all, so that the others are applied.
   */
  async applyEach(events: readonly WatchEvent[], readMs?: number): Promise<'applied' | 'contradiction'> {
    this.#readMs = readMs;
    const chunk = this.#begin(events);
    await this.#finishPendingWrite(chunk);
    for (let event = chunk.events[chunk.done]; event; event = chunk.events[chunk.done]) {
      if (isFrame(event)) {
        await this.#applyNext(chunk);
        continue;
      }
      await this.#applyAlone(event);
      chunk.done += 1;
    }
    this.#chunk = undefined;
    return chunk.contradicted ? 'contradiction' : 'applied';
  }

  async #applyAlone(event: WatchEvent): Promise<void> {
    try {
      return await this.#applyPiece([event]);
    } catch (error) {
      if (!isDataError(error) || !isObjectEvent(event)) throw error;
      const { handlers, view, logger, metrics } = this.#options;
      const key = cachedKey(keyOf(event.object));
      logger.error({ resource: view.name, key, error: messageOf(error) }, 'an object cannot be written to the cache');
      try {
        const mark: ObjectEvent = { ...event, keptOut: 'it cannot be written' };
        return await this.#applyPiece([mark]);
      } catch (reason) {
        if (!isDataError(reason)) throw reason;
        metrics.count('levelhook_cache_skipped_events_total', { resource: formatKind(view.resource) });
        logger.error(
          { resource: view.name, key, error: messageOf(reason) },
          'an event is left out: the cache lacks it',
        );
        for (const user of handlers.failAll(reason, event.object)) await view.record.recordMissed(user);
      }
    }
  }

  async #beginList(rewound: boolean): Promise<void> {
    const { view } = this.#options;
    const silent = (await view.record.state()).version === undefined;
    const fromNothing = silent && (await view.objects.size()) === 0;
    if (rewound) await view.record.markRewound();
    this.#listing = new Listing({ rewound, silent, fromNothing }, this.#readMs);
    await this.#options.checkpoint('list:begun');
  }

  /** @returns whether the list contradicted the cache. */
  async #endList({ version, list }: { version: ResourceVersion; list: number }): Promise<boolean> {
    const { checkpoint, view } = this.#options;
    const listing = this.#listing;
    if (!listing) return false;
    await checkpoint('list:before-deletes');
    await this.#deleteAll((key, entry) => listing.isGone(key, entry, version));
    await checkpoint('list:before-version');
    this.#thaw(list);
    if (!(await view.record.state()).isServed) await view.record.markServed(true);
    await this.#write({
      version,
      shownMs: listing.sinceMs,
      incomparable: listing.rewound,
      ...(listing.rewound ? { incarnation: randomUUID() } : {}),
      operations: [],
      users: [],
      failed: [],
      wakeups: [],
    });
    this.#listing = undefined;
    return listing.isContradicted(version);
  }

  /** The resource is no longer served, so none of its objects exist. */
  async #clear(list: number): Promise<void> {
    const { view } = this.#options;
    this.#listing = new Listing({ rewound: true });
    await this.#deleteAll(() => true);
    this.#listing = undefined;
    this.#thaw(list);
    // A view that has lost its version is complete, too: it holds all there is. Below every version of the server, so
    // that the next list is a diff, which wakes, and not the silent first one.
    const nothing = { incomparable: false, operations: [], users: [], failed: [], wakeups: [] };
    if ((await view.record.state()).version === undefined) await this.#write({ ...nothing, version: BEFORE_ALL });
    await view.record.markServed(false);
  }

  /**
   * Deletes the objects that `gone` selects. Handlers get the last known object, as client-go's tombstones carry it.
   */
  async #deleteAll(gone: (key: string, entry: ObjectEntry) => boolean): Promise<void> {
    const { view } = this.#options;
    const incomparable = this.#listing?.rewound ?? false;
    for await (const keys of view.objects.keys()) {
      const entries = await view.objects.entries(keys);
      const operations: { operation: ViewOperation; cost: number }[] = [];
      keys.forEach((key, at) => {
        const entry = entries[at];
        if (!entry || !gone(key, entry)) return;
        const cost = costOfEntries(key, entry.indexEntries);
        operations.push({ operation: this.#comparer.deletionOf(key, entry), cost });
      });
      for (const some of pagesOf(operations)) {
        let heard = this.#options.handlers.begin();
        let [from, to] = [0, 0];
        let wakeups: Wakeup[] = [];
        let cost = 0;
        const slice = view.objects.newSlice();
        const names = some.map(({ key }) => key);
        for await (const { object } of view.objects.each(names, slice)) {
          to += 1;
          const change = object && ({ type: 'deleted', object } as const);
          const woken = change ? await this.#comparer.wake(change, { listing: this.#listing, slice }) : [];
          for (const wakeup of woken) wakeups.push(wakeup);
          cost += costOfWakeups(woken);
          if (cost < MAX_ENTRIES) continue;
          await this.#run({ incomparable, operations: some.slice(from, to), ...heard(), wakeups });
          heard = this.#options.handlers.begin();
          [from, wakeups, cost] = [to, [], 0];
        }
        await this.#run({ incomparable, operations: some.slice(from), ...heard(), wakeups });
      }
    }
  }

  /**
   * Applies events between two frames.
   * @param chunk the events' chunk. In the first list of an empty view the last write is pending when this resolves,
   *   unless the events were tried before. Default: every write has finished when this resolves.
   */
  async #applyPiece(given: readonly WatchEvent[], chunk?: ChunkInProgress): Promise<void> {
    if (given.length === 0) return;
    const slice = this.#options.view.objects.newSlice();
    const listing = this.#listing;
    const events: WatchEvent[] = [];
    for (const event of given) {
      events.push(isObjectEvent(event) ? this.#comparer.keepOutUnhandled(event) : event);
      if (slice.isOver) await slice.next();
    }
    let heard = this.#options.handlers.begin();
    const cached = await this.#comparer.readCached(events.filter(isObjectEvent), { listing, slice });
    const operations = new Map<string, ViewOperation>();
    const sent = new Map<string, ObjectEvent>();
    const wakeups: Wakeup[] = [];
    const fromNothing = listing?.fromNothing ?? false;
    // A change that was read late, after the watch was closed for a while, says nothing of those behind it.
    const hasBookmark = given.some(({ kind }) => kind === 'bookmark');
    const isPipelined = fromNothing && chunk !== undefined && chunk.events === chunk.given;
    const write = async (): Promise<void> => {
      await this.#reserveMemory(operations, sent, wakeups);
      const part: Chunk = {
        ...(listing || version === undefined ? {} : { version, shownMs: hasBookmark ? this.#readMs : undefined }),
        incomparable: listing?.rewound ?? false,
        onlyNew,
        operations: [...operations.values()],
        ...heard(),
        wakeups: [...wakeups],
      };
      if (chunk) await this.#finishPendingWrite(chunk);
      const written = this.#run(part);
      if (!isPipelined) return written;
      // `#finishPendingWrite` throws the error.
      written.catch(() => {});
      this.#pendingWrite = { events: given, written };
    };
    let onlyNew = fromNothing;
    let version: ResourceVersion | undefined;
    let cost = 0;
    slice.restart();
    for (const event of events) {
      if (event.kind === 'bookmark') version = event.version;
      if (!isObjectEvent(event)) continue;
      if (event.kind !== 'back') version = event.object.metadata.resourceVersion;
      onlyNew &&= event.kind !== 'deleted' && !listing?.names(formatObjectKey(keyOf(event.object)));
      const key = formatObjectKey(keyOf(event.object));
      const entriesBefore = cached.get(key)?.entry.indexEntries ?? [];
      const woken: Wakeup[] = [];
      const operation = await this.#comparer.operationFor(event, { cached, wakeups: woken, listing, slice });
      const entriesAfter = cached.get(key)?.entry.indexEntries ?? [];
      for (const wakeup of woken) wakeups.push(wakeup);
      cost += costOfEntries(key, entriesBefore) + costOfEntries(key, entriesAfter) + costOfWakeups(woken);
      if (operation) operations.set(operation.key, operation);
      if (operation) cost += costOf(operation);
      sent.set(key, event);
      if (slice.isOver) await slice.next();
      if (cost < MAX_ENTRIES) continue;
      await write();
      slice.restart();
      operations.clear();
      sent.clear();
      wakeups.length = 0;
      cost = 0;
      onlyNew = fromNothing;
      heard = this.#options.handlers.begin();
    }
    await write();
  }

  /** Asks for the memory of a write. Objects of namespaces that have no more of it are replaced by marks. */
  async #reserveMemory(
    operations: Map<string, ViewOperation>,
    sent: ReadonlyMap<string, ObjectEvent>,
    wakeups: readonly Wakeup[],
  ): Promise<void> {
    const { view } = this.#options;
    const ownerOf = (key: string): string | undefined => {
      const event = sent.get(key);
      return event && view.payerOf(event.object.metadata.namespace);
    };
    await view.reserve(() => [
      ...[...operations.values()].map((each) => [ownerOf(each.key), sizeOf(each)] as const),
      ...wakeups.map((each) => [payerOf(each), lengthOf(each)] as const),
    ]);
    for (const [key, operation] of operations) {
      const event = sent.get(key);
      if (operation.kind !== 'S' || !event || event.keptOut !== undefined) continue;
      const reason = view.leftOut(view.payerOf(event.object.metadata.namespace));
      if (reason !== undefined) operations.set(key, this.#comparer.leftOutOperation(event, reason));
    }
  }

  async #run(chunk: Chunk): Promise<void> {
    const { checkpoint } = this.#options;
    await checkpoint('apply:before-script');
    await this.#write({ ...chunk, wakeups: mergeWakeups(chunk.wakeups) });
    await checkpoint('apply:after-script');
  }

  #thaw(list: number): void {
    if (this.#frozenUntil !== undefined && list >= this.#frozenUntil) this.#frozenUntil = undefined;
  }

  async #write(chunk: Chunk): Promise<void> {
    const { view, onWakeups } = this.#options;
    const { version: _, incarnation: __, ...withoutVersion } = chunk;
    // Checked just before the write, because recovery may have frozen the version during this method. The incarnation
    // stays, too, and with it the field that marks the view as rewound.
    const entries = await view.apply(this.#frozenUntil === undefined ? chunk : withoutVersion);
    if (entries.length > 0) onWakeups?.(entries);
  }
}

/** Parts with few objects and few index entries each, of one object at least. */
function* pagesOf(operations: readonly { operation: ViewOperation; cost: number }[]): Generator<ViewOperation[]> {
  let page: ViewOperation[] = [];
  let left = MAX_ENTRIES;
  for (const { operation, cost } of operations) {
    if (page.length === DELETE_PAGE || (page.length > 0 && cost > left)) {
      yield page;
      page = [];
      left = MAX_ENTRIES;
    }
    page.push(operation);
    left -= cost;
  }
  if (page.length > 0) yield page;
}

/** The namespace that a wakeup counts for; undefined: its controller is of no namespace. */
function payerOf({ controller }: Wakeup): string | undefined {
  return originOf(controller) === 'declared' ? objectNamed(controller).namespace : undefined;
}

/** The size that an operation adds to Redis, about. */
function sizeOf(operation: ViewOperation): number {
  if (operation.kind === 'D') return 0;
  const { key, entry, object } = operation;
  return object.length + entry.length + bytesOfEntries(key, decodeEntry(entry).indexEntries);
}

function isFrame({ kind }: WatchEvent): boolean {
  return kind === 'init' || kind === 'init-done' || kind === 'gone' || kind === 'unserved';
}
