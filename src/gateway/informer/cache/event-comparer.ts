import {
  formatJson,
  formatKind,
  formatObjectKey,
  keyOf,
  type KubernetesObject,
  LimitedLines,
  type Logger,
  type Metrics,
  systemClock,
} from '../../../core/index.ts';
import { cachedKey } from '../../../contract/node/cached-name.ts';
import { encodeEntry, KEPT_OUT_INDEX, LEFT_OUT_INDEX, type ObjectEntry } from '../../../contract/cache-layout.ts';
import type { SentObject, WatchEvent } from '../reflector/watch-event.ts';
import type { TimeSlice } from '../../../ground/time-slice.ts';
import { type CachedObject, CachedObjects, changesOf, compareCached } from './cached-objects.ts';
import type { Change, Wakeup } from './change.ts';
import type { ChangeHandlers } from './change-handlers.ts';
import type { ViewOperation } from './chunk.ts';
import { leastMetadataOf, MAX_LENGTH, metadataOf, unhandledReason } from './kept-out.ts';
import type { Listing } from './listing.ts';
import type { View } from './view.ts';

/** An object event of a watch or a list, and the reason why the view has a mark in place of the object, if it has. */
export type ObjectEvent = WatchEvent &
  SentObject & {
    readonly keptOut?: string;
    /** There is no memory for the object now: the view has the least of its metadata. Default: there is. */
    readonly isLeftOut?: boolean;
  };

export interface EventComparerOptions {
  readonly view: View;
  readonly handlers: ChangeHandlers;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The list and the time slice that an event is compared in. */
export interface ComparisonContext {
  /** The list that is being applied. */
  readonly listing: Listing | undefined;
  readonly slice: TimeSlice;
}

/**
 * Compares events with the cached objects. It says which operation on the view an event means, and asks the handlers
 * which keys the change wakes. It writes nothing.
 */
export class EventComparer {
  readonly #options: EventComparerOptions;
  /** By namespace: who writes objects causes them. */
  readonly #lines = new LimitedLines(systemClock);
  #marksChanged = false;

  constructor(options: EventComparerOptions) {
    this.#options = options;
  }

  /** See `Applier.resetMarksChanged`. */
  resetMarksChanged(): boolean {
    const changed = this.#marksChanged;
    this.#marksChanged = false;
    return changed;
  }

  /**
   * The event itself, or an event with nothing but metadata if the gateway cannot handle the object: one object must
   * not stop the rest of the view.
   */
  keepOutUnhandled(event: ObjectEvent): ObjectEvent {
    const { object } = event;
    const { namespace = '' } = object.metadata;
    const reason = event.keptOut ?? unhandledReason(event);
    const { logger, metrics, view } = this.#options;
    const leftOut = event.kind === 'deleted' ? undefined : view.leftOut(view.payerOf(object.metadata.namespace));
    if (reason === undefined) return leftOut === undefined ? event : this.#leaveOut(event, leftOut);
    const resource = formatKind(view.resource);
    metrics.count('levelhook_cache_kept_out_total', { resource });
    const fields = { resource: view.name, key: cachedKey(keyOf(object)), reason };
    this.#lines.write(namespace, (more) => logger.warn({ ...fields, ...more }, 'an object is kept out of the cache'));
    if (leftOut !== undefined) {
      return { ...event, object: leastMetadataOf(object), json: undefined, keptOut: reason, isLeftOut: true };
    }
    return { ...event, object: metadataOf(object), json: undefined, keptOut: reason };
  }

  #leaveOut(event: ObjectEvent, reason: string): ObjectEvent {
    const { metrics, view } = this.#options;
    metrics.count('levelhook_cache_kept_out_total', { resource: formatKind(view.resource) });
    return { ...event, object: leastMetadataOf(event.object), json: undefined, keptOut: reason, isLeftOut: true };
  }

  /** The operation that writes a mark in place of an object that was left out for lack of memory. */
  leftOutOperation(event: ObjectEvent, reason: string): ViewOperation {
    this.#marksChanged = true;
    return this.#storing(this.#leaveOut(event, reason), '').operation;
  }

  /** The cached objects of these events; whole objects only where a handler or the comparison needs them. */
  async readCached(events: readonly ObjectEvent[], { listing, slice }: ComparisonContext): Promise<CachedObjects> {
    // The view is empty and no handler receives such a list. The script itself compares objects that come twice.
    const compared = listing?.fromNothing ? [] : events;
    const needsOld = (event: ObjectEvent, entry: ObjectEntry): boolean => this.#needsOld(event, entry, listing);
    return CachedObjects.read(this.#options.view, compared, needsOld, slice);
  }

  /**
   * The operation that an event means; undefined when the cache has the same or a newer state already. Adds the keys
   * that the change wakes to `wakeups`, and the new state to `cached`.
   */
  async operationFor(
    event: ObjectEvent,
    context: ComparisonContext & { readonly cached: CachedObjects; readonly wakeups: Wakeup[] },
  ): Promise<ViewOperation | undefined> {
    const before = await context.cached.next(formatObjectKey(keyOf(event.object)));
    return this.#operationAfter(before, event, context);
  }

  async #operationAfter(
    before: CachedObject | undefined,
    event: ObjectEvent,
    context: ComparisonContext & { readonly cached: CachedObjects; readonly wakeups: Wakeup[] },
  ): Promise<ViewOperation | undefined> {
    const { object, keptOut: reason } = event;
    const { cached, wakeups, listing } = context;
    const { resourceVersion } = object.metadata;
    const key = formatObjectKey(keyOf(object));
    const ahead = compareCached(before, object, listing?.rewound ?? false);
    if (reason !== undefined || (before && isMark(before.entry))) this.#marksChanged = true;
    if (event.kind === 'deleted') {
      listing?.delete(key);
      // The cached object is newer than this deletion: the object was created again.
      if (ahead > 0) return undefined;
      // Handlers receive every deletion: its wakeup must not depend on whether the cache has the object.
      for (const wakeup of await this.wake({ type: 'deleted', object }, context)) wakeups.push(wakeup);
      cached.set(key, undefined);
      return { kind: 'D', key, version: resourceVersion };
    }
    const isBack = ahead === 0 && !event.isLeftOut && before !== undefined && isLeftOut(before.entry);
    if (event.kind !== 'back') listing?.add(key);
    else if (!isBack) return undefined;
    if (before && ahead >= 0) {
      if (event.kind === 'listed' && (ahead > 0 || isOtherObject(before.entry, object))) {
        listing?.recordContradiction(before.entry.resourceVersion);
      }
      if (!isBack) return undefined;
    }
    // The reflector has measured the text of a watch event. A listed object has no text before this line.
    const json = event.json ?? (reason === undefined ? formatJson(object) : '');
    const isTooLong = event.json === undefined && json.length > MAX_LENGTH;
    if (isTooLong) return this.#operationAfter(before, this.keepOutUnhandled({ ...event, json }), context);
    for (const change of changesOf(before, object)) {
      for (const wakeup of await this.wake(change, context)) wakeups.push(wakeup);
    }
    const { operation, entry } = this.#storing(event, json);
    cached.set(key, { entry, object });
    return operation;
  }

  #storing(
    { object, keptOut: reason, isLeftOut: isShort = false }: ObjectEvent,
    json: string,
  ): { readonly operation: ViewOperation; readonly entry: ObjectEntry } {
    const { view } = this.#options;
    const key = formatObjectKey(keyOf(object));
    const marks = reason === undefined ? [] : [KEPT_OUT_INDEX, ...(isShort ? [LEFT_OUT_INDEX] : [])];
    const entry = view.indexer.entryOf(object, marks, json.length);
    const stored =
      reason === undefined ? view.objects.encode(key, json) : view.objects.encodeMark(key, { reason, object });
    const observed = view.observations.valuesOf(object, json.length);
    return { entry, operation: { kind: 'S', key, entry: encodeEntry(entry), object: stored, observed } };
  }

  /** The operation that deletes a cached object. */
  deletionOf(key: string, entry: ObjectEntry): ViewOperation {
    if (isMark(entry)) this.#marksChanged = true;
    return { kind: 'D', key, version: entry.resourceVersion };
  }

  /** The keys that a change wakes. */
  async wake(change: Change, { listing, slice }: ComparisonContext): Promise<readonly Wakeup[]> {
    const { handlers, metrics, view } = this.#options;
    metrics.count('levelhook_cache_changes_total', { resource: formatKind(change.object), type: change.type });
    // All keys are queued after a view's first list. Deleted objects are not among them, and may have had work before.
    return listing?.silent && change.type !== 'deleted'
      ? []
      : handlers.handle(change, slice, (tenant) => view.outbox.isFull(tenant));
  }

  #needsOld({ kind, object }: ObjectEvent, entry: ObjectEntry, listing: Listing | undefined): boolean {
    if (kind === 'deleted') return false;
    if (listing?.rewound || entry.uid !== object.metadata.uid) return true;
    return !listing?.silent && this.#options.handlers.needsOld(object, entry);
  }
}

export function isObjectEvent(event: WatchEvent): event is ObjectEvent {
  return 'object' in event;
}

/** Whether the cache has another object of this name. An entry without a UID says nothing about that. */
function isOtherObject({ uid }: ObjectEntry, { metadata }: KubernetesObject): boolean {
  return uid !== '' && uid !== metadata.uid;
}

function isLeftOut({ indexEntries }: ObjectEntry): boolean {
  return indexEntries.at(-1) === LEFT_OUT_INDEX;
}

function isMark({ indexEntries }: ObjectEntry): boolean {
  return indexEntries.includes(KEPT_OUT_INDEX);
}
