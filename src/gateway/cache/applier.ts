import { randomUUID } from 'node:crypto';
import {
  type Checkpoint,
  formatKind,
  formatObjectKey,
  keyOf,
  type Logger,
  messageOf,
  type Metrics,
  type ResourceVersion,
} from '../../core/index.ts';
import { encodeEntry, KEPT_OUT_INDEX, type ObjectEntry } from '../../contract/cache-layout.ts';
import type { SentObject, WatchEvent } from '../reflector/watch-event.ts';
import { type CachedObject, changesOf, compareCached, readCached } from './cached-object.ts';
import { type Change, mergeWakeups, type Wakeup } from './change.ts';
import type { ChangeHandlers } from './change-handlers.ts';
import { MAX_LENGTH, metadataOf, unhandledReason } from './kept-out.ts';
import { Listing } from './listing.ts';
import { isDataError } from '../redis/redis.ts';
import { TimeSlice } from '../time-slice.ts';
import type { OutboxEntry } from './outbox.ts';
import type { Chunk, ViewOperation } from './chunk.ts';
import type { View } from './view.ts';

/** An object event of a watch or a list, and why the object is kept out of the view, if it is. */
type ObjectEvent = WatchEvent & SentObject & { readonly keptOut?: string };

interface ChunkInProgress {
  /** As they were given. */
  readonly given: readonly WatchEvent[];
  /** The same, and before them those of a piece that could not be written after all. */
  events: readonly WatchEvent[];
  done: number;
  contradicted: boolean;
}

/** The oldest version there can be. */
const BEFORE_ALL = '1';
/** A piece with more of them, or with longer objects together, is written in several: a large script blocks Redis. */
const MOST_WAKEUPS = 10_000;
const MOST_BYTES = 8 * 1024 * 1024;
/** Objects that are deleted are read so many at a time: each may have megabytes. */
const DELETES = 50;

export interface ApplierOptions {
  readonly view: View;
  readonly handlers: ChangeHandlers;
  /** Called with the wakeups that an apply has just added to the outbox. Default: whoever reads the outbox has them. */
  readonly onWakeups?: (entries: readonly OutboxEntry[]) => void;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly checkpoint: Checkpoint;
}

/**
 * The only writer of a view. Takes the reflector's events in chunks, compares each with what the cache holds, asks the
 * handler which keys the change wakes, and then applies objects, indexes, wakeups and version with one script. A crash
 * before the script leaves everything as it was, and the watch resumes from the view's version; a crash after it leaves
 * the wakeups in the outbox.
 */
export class Applier {
  readonly #options: ApplierOptions;
  /** The last piece of a list from nothing, on its way to Redis while the next one is made. */
  #inFlight: { readonly events: readonly WatchEvent[]; readonly written: Promise<void> } | undefined;
  #listing: Listing | undefined;
  /** The chunk under way, and how many of its events are applied: where a second attempt goes on. */
  #chunk: ChunkInProgress | undefined;
  /** The view's version stays where it is until this list, or a later one, is complete. */
  #frozenUntil: number | undefined;
  #marksChanged = false;

  constructor(options: ApplierOptions) {
    this.#options = options;
  }

  /**
   * The view may have lost data: its version promises nothing, and does not move, until that list is complete.
   * Otherwise the next event would move it past what is missing.
   */
  freezeUntil(list: number): void {
    this.#frozenUntil = list;
  }

  /** Whether marks of objects that are kept out may have come or gone since this was asked last. */
  resetMarksChanged(): boolean {
    const changed = this.#marksChanged;
    this.#marksChanged = false;
    return changed;
  }

  /**
   * Applies events in their order. Called again with the same events after a failure, it continues at the failed event,
   * because events before the start of a list must not count as a part of the list. The last events of a view's first
   * list may still be on their way to Redis when this resolves; if they cannot be written, the next call throws, and
   * applies them again.
   * @returns `contradiction` when a list has an older version of an object than the cache, although the list is newer
   *   than the cached version: the server's data was rewound and must be listed again as such.
   * @throws ForeignWriterError when another gateway has taken the view.
   */
  async apply(events: readonly WatchEvent[]): Promise<'applied' | 'contradiction'> {
    const chunk = this.#begin(events);
    while (chunk.done < chunk.events.length) await this.#applyNext(chunk);
    this.#chunk = undefined;
    return chunk.contradicted ? 'contradiction' : 'applied';
  }

  #begin(events: readonly WatchEvent[]): ChunkInProgress {
    if (this.#chunk?.given !== events) this.#chunk = { given: events, events, done: 0, contradicted: false };
    return this.#chunk;
  }

  /** Resolves when nothing is on its way to Redis any more, written or not. */
  async settled(): Promise<void> {
    await this.#inFlight?.written.catch(() => {});
  }

  /** Waits for the piece in flight. @throws where it was not written; then the chunk begins with its events. */
  async #land(chunk: ChunkInProgress): Promise<void> {
    const inFlight = this.#inFlight;
    try {
      await inFlight?.written;
    } catch (error) {
      chunk.events = [...(inFlight?.events ?? []), ...chunk.events.slice(chunk.done)];
      chunk.done = 0;
      throw error;
    } finally {
      this.#inFlight = undefined;
    }
  }

  /** A list's frame changes the rules, so a chunk is applied in the pieces between frames. */
  async #applyNext(chunk: ChunkInProgress): Promise<void> {
    const next = chunk.events[chunk.done];
    if (!this.#listing?.fromNothing || (next && isFrame(next))) await this.#land(chunk);
    const { events } = chunk;
    const event = events[chunk.done];
    if (event?.kind === 'init') await this.#beginList(event.rewound);
    else if (event?.kind === 'gone') await this.#clear(event.list);
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
   * Goes on with a chunk that failed again and again for what its events hold, one event at a time: an object that
   * cannot be written is kept out of the view, and an event that cannot be applied at all is counted and left out, so
   * that the others arrive.
   */
  async applyEach(events: readonly WatchEvent[]): Promise<'applied' | 'contradiction'> {
    const chunk = this.#begin(events);
    await this.#land(chunk);
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
      const key = formatObjectKey(keyOf(event.object));
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
        for (const user of handlers.failAll(reason, event.object)) await view.recordMissed(user);
      }
    }
  }

  async #beginList(rewound: boolean): Promise<void> {
    const { view } = this.#options;
    const silent = (await view.state()).version === undefined;
    const fromNothing = silent && (await view.size()) === 0;
    if (rewound) await view.markRewound();
    this.#listing = new Listing({ rewound, silent, fromNothing });
    await this.#options.checkpoint('list:begun');
  }

  /** @returns whether the list contradicted the cache. */
  async #endList({ version, list }: { version: ResourceVersion; list: number }): Promise<boolean> {
    const { checkpoint } = this.#options;
    const listing = this.#listing;
    if (!listing) return false;
    await checkpoint('list:before-deletes');
    await this.#deleteAll((key, entry) => listing.isGone(key, entry, version));
    await checkpoint('list:before-version');
    this.#thaw(list);
    await this.#write({
      version,
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
    if ((await view.state()).version !== undefined) return;
    await this.#write({ version: BEFORE_ALL, incomparable: false, operations: [], users: [], failed: [], wakeups: [] });
  }

  /** Deletes what `gone` names, each with its last known object as client-go's tombstones carry it. */
  async #deleteAll(gone: (key: string, entry: ObjectEntry) => boolean): Promise<void> {
    const { view } = this.#options;
    const incomparable = this.#listing?.rewound ?? false;
    for await (const keys of view.keys()) {
      const entries = await view.entries(keys);
      const operations: ViewOperation[] = [];
      keys.forEach((key, at) => {
        const entry = entries[at];
        if (!entry || !gone(key, entry)) return;
        if (isMark(entry)) this.#marksChanged = true;
        operations.push({ kind: 'D', key, version: entry.resourceVersion });
      });
      for (let from = 0; from < operations.length; from += DELETES) {
        const some = operations.slice(from, from + DELETES);
        const heard = this.#options.handlers.begin();
        const wakeups: Wakeup[] = [];
        const slice = new TimeSlice();
        for await (const { object } of view.each(
          some.map(({ key }) => key),
          slice,
        )) {
          if (!object) continue;
          for (const wakeup of await this.#wake({ type: 'deleted', object }, slice)) wakeups.push(wakeup);
        }
        await this.#run({ incomparable, operations: some, ...heard(), wakeups });
      }
    }
  }

  /**
   * @param chunk of which the events are a piece. In a list from nothing its write goes on when this resolves, unless
   *   it was tried before. Default: the events are written when this resolves.
   */
  async #applyPiece(given: readonly WatchEvent[], chunk?: ChunkInProgress): Promise<void> {
    if (given.length === 0) return;
    const slice = new TimeSlice();
    const events: WatchEvent[] = [];
    for (const event of given) {
      events.push(isObjectEvent(event) ? this.#handleable(event) : event);
      if (slice.isOver) await slice.next();
    }
    let heard = this.#options.handlers.begin();
    const cached = await this.#cached(events.filter(isObjectEvent));
    const operations = new Map<string, ViewOperation>();
    const wakeups: Wakeup[] = [];
    const fromNothing = this.#listing?.fromNothing ?? false;
    const write = async (): Promise<void> => {
      const part: Chunk = {
        ...(this.#listing || version === undefined ? {} : { version }),
        incomparable: this.#listing?.rewound ?? false,
        onlyNew,
        operations: [...operations.values()],
        ...heard(),
        wakeups: [...wakeups],
      };
      if (chunk) await this.#land(chunk);
      const written = this.#run(part);
      if (!fromNothing || chunk?.events !== chunk?.given || !chunk) return written;
      // The next piece is made meanwhile, and sent once this one is written.
      written.catch(() => {});
      this.#inFlight = { events: given, written };
    };
    let onlyNew = fromNothing;
    let version: ResourceVersion | undefined;
    let bytes = 0;
    slice.restart();
    for (const event of events) {
      if (event.kind === 'bookmark') version = event.version;
      if (!isObjectEvent(event)) continue;
      version = event.object.metadata.resourceVersion;
      onlyNew &&= event.kind !== 'deleted' && !this.#listing?.names(formatObjectKey(keyOf(event.object)));
      const operation = await this.#operationFor(event, cached, wakeups, slice);
      if (operation) operations.set(operation.key, operation);
      if (operation?.kind === 'S') bytes += operation.object.length;
      if (slice.isOver) await slice.next();
      if (wakeups.length < MOST_WAKEUPS && bytes < MOST_BYTES) continue;
      await write();
      slice.restart();
      operations.clear();
      wakeups.length = 0;
      bytes = 0;
      onlyNew = fromNothing;
      heard = this.#options.handlers.begin();
    }
    await write();
  }

  /**
   * The event, or the same with nothing but metadata when its object cannot be handled: the rest of the view must not
   * suffer.
   */
  #handleable(event: ObjectEvent): ObjectEvent {
    const reason = event.keptOut ?? unhandledReason(event);
    if (reason === undefined) return event;
    const { logger, metrics, view } = this.#options;
    const resource = formatKind(view.resource);
    metrics.count('levelhook_cache_kept_out_total', { resource });
    logger.warn(
      { resource: view.name, key: formatObjectKey(keyOf(event.object)), reason },
      'an object is kept out of the cache',
    );
    return { ...event, object: metadataOf(event.object), json: undefined, keptOut: reason };
  }

  /** What one event does to the view; undefined when the cache has it already. */
  async #operationFor(
    event: ObjectEvent,
    cached: Map<string, CachedObject>,
    wakeups: Wakeup[],
    slice: TimeSlice,
  ): Promise<ViewOperation | undefined> {
    const { object, keptOut: reason } = event;
    const { resourceVersion } = object.metadata;
    const key = formatObjectKey(keyOf(object));
    const before = cached.get(key);
    const ahead = compareCached(before, object, this.#listing?.rewound ?? false);
    if (reason !== undefined || (before && isMark(before.entry))) this.#marksChanged = true;
    if (event.kind === 'deleted') {
      this.#listing?.delete(key);
      // The cache holds something newer than this deletion: the object was made again.
      if (ahead > 0) return undefined;
      // Known or not, handlers hear of it: the wakeup of a deletion must not depend on what the cache happens to hold.
      for (const wakeup of await this.#wake({ type: 'deleted', object }, slice)) wakeups.push(wakeup);
      cached.delete(key);
      return { kind: 'D', key, version: resourceVersion };
    }
    this.#listing?.add(key);
    if (before && ahead >= 0) {
      if (ahead > 0 && event.kind === 'listed') this.#listing?.recordAhead(before.entry.resourceVersion);
      return undefined;
    }
    // The text of a watch event was measured on arrival; the text of a listed object exists only from here on.
    const json = event.json ?? (reason === undefined ? JSON.stringify(object) : '');
    const isTooLong = event.json === undefined && json.length > MAX_LENGTH;
    if (isTooLong) return this.#operationFor(this.#handleable({ ...event, json }), cached, wakeups, slice);
    for (const change of changesOf(before, object)) {
      for (const wakeup of await this.#wake(change, slice)) wakeups.push(wakeup);
    }
    const { view } = this.#options;
    const entry = view.indexer.entryOf(object, reason !== undefined);
    cached.set(key, { entry, object });
    const stored = reason === undefined ? view.encode(key, json) : view.encodeMark(key, { reason, object });
    return { kind: 'S', key, entry: encodeEntry(entry), object: stored };
  }

  async #wake(change: Change, slice: TimeSlice): Promise<readonly Wakeup[]> {
    const { handlers, metrics } = this.#options;
    metrics.count('levelhook_cache_changes_total', { resource: formatKind(change.object), type: change.type });
    // The keys that are queued after the list do not include deleted objects, which may have had work before it.
    return this.#listing?.silent && change.type !== 'deleted' ? [] : handlers.handle(change, slice);
  }

  /** What the cache has of the events' objects, the objects only where a handler or the comparison needs them. */
  async #cached(events: readonly ObjectEvent[]): Promise<Map<string, CachedObject>> {
    // No handler hears of such a list, and the script itself compares objects that come twice.
    if (this.#listing?.fromNothing) return new Map();
    return readCached(this.#options.view, events, (event, entry) => this.#needsOld(event, entry));
  }

  #needsOld({ kind, object }: ObjectEvent, entry: ObjectEntry): boolean {
    if (kind === 'deleted') return false;
    if (this.#listing?.rewound || entry.uid !== object.metadata.uid) return true;
    return !this.#listing?.silent && this.#options.handlers.needsOld(object, entry);
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
    const { version: _, incarnation: __, ...still } = chunk;
    // Asked at the last moment: the freeze may have come meanwhile. With the version stays what says that it is wrong.
    const entries = await view.apply(this.#frozenUntil === undefined ? chunk : still);
    if (entries.length > 0) onWakeups?.(entries);
  }
}

function isFrame({ kind }: WatchEvent): boolean {
  return kind === 'init' || kind === 'init-done' || kind === 'gone';
}

function isMark({ indexEntries }: ObjectEntry): boolean {
  return indexEntries.includes(KEPT_OUT_INDEX);
}

function isObjectEvent(event: WatchEvent): event is ObjectEvent {
  return 'object' in event;
}
