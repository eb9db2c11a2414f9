import {
  ApiError,
  compareResourceVersions,
  formatKind,
  isConnectionRefused,
  isExpired,
  isTooLargeResourceVersion,
  type KubernetesObject,
  messageOf,
  type Resource,
  type ResourceVersion,
  type Runtime,
} from '../../../core/index.ts';
import { weightOf } from '../../../ground/json-weight.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import { RemovedResource } from './removed-resource.ts';
import { Backoff } from './backoff.ts';
import type { EventBuffer } from './event-buffer.ts';
import { lines } from './lines.ts';
import type { KnownObject, ListWatch } from './list-watch.ts';
import type { SentObject, Transform } from './watch-event.ts';
import { decodeWatchLine, endOf, type WatchEnd } from './watch-line.ts';

export interface ReflectorOptions {
  readonly resource: Resource;
  readonly listWatch: ListWatch;
  readonly buffer: EventBuffer;
  readonly runtime: Pick<Runtime, 'clock' | 'logger' | 'metrics'>;
  /** 0 to 1, as Math.random: jitter of backoff and of the server's timeout. */
  readonly random: () => number;
  /** Leaves out parts of each object before it is buffered. */
  readonly transform: Transform;
  /** A watch without a byte for this long is taken for dead; bookmarks come about once a minute. Default 150 s. */
  readonly silenceMs?: number;
  /** `refusal` has begun or ended. Default: nothing happens. */
  readonly onRefusal?: () => void;
}

/** The apiserver's answer to a gateway without the right to list or watch a resource. */
export interface Refusal {
  readonly verb: 'list' | 'watch';
  /** The apiserver's own. */
  readonly message: string;
}

/** The reflector's task until it succeeds or the state changes: see `Reflector`. */
type State = { readonly kind: 'watching' } | Listing;

interface Listing {
  readonly kind: 'listing';
  /** Why the server is listed again, for people. */
  readonly why: string;
  /** The number of the list, which tells its caller when the list is applied. */
  readonly list: number;
  readonly rewound: boolean;
  /** Ask for the newest data: our version has expired, or is newer than the server's data. */
  readonly newest: boolean;
  /** The list must be at least this new. Default: the last version. */
  readonly atLeast?: ResourceVersion | undefined;
}

/** A list that was read to its end. */
export interface PastList {
  readonly atMs: number;
  /** Why it was read, as a phrase for people. */
  readonly reason: string;
}

/** The purpose of a stream. */
interface Reading {
  /** The list that it still has to complete; undefined as soon as, and as long as, it is a watch. */
  listing: Listing | undefined;
}

/** A progress request while one runs would only cut it off before its bookmark. */
const PROGRESS_EVERY_MS = 4000;
/** The same once the bookmark has come: each request is a new watch for the apiserver. */
const ANSWERED_EVERY_MS = 2500;

/** While a resource is gone, it is asked for at least this often: a definition may be created at any time. */
const GONE_WAIT_MS = 5000;

/**
 * Turns one resource of the apiserver into an ordered stream of events: client-go's Reflector
 * (tools/cache/reflector.go) on raw JSON. It lists by stream if the server supports that, otherwise by pages. After a
 * watch ends it resumes from the last version if possible. It lists again when the version has expired or when the
 * server's data is older than the cache.
 *
 * States:
 *
 * - `listing`, from the start if the view has never been listed, until a list is complete. An expired version changes
 *   it to a list of the newest data.
 * - `watching`, from the last version, until that version expires, the resource is gone, the server has another history
 *   than ours, or `relist` asks for a list.
 *
 * Lost connections and errors change no state: the reflector waits and tries again. The reflector's version covers the
 * events that it has *read*; the view's version covers the changes that are *applied*.
 */
export class Reflector {
  readonly #options: ReflectorOptions;
  readonly #name: string;
  readonly #backoff: Backoff;
  readonly #removedResource: RemovedResource;
  #state: State = { kind: 'watching' };
  #version: ResourceVersion | undefined;
  /**
   * The state to compare with the server before anything more is read, because the server may have gone back in time
   * since we last knew its version, for example while we waited without a watch. First an object that an earlier
   * gateway has seen, later the version alone. Undefined: nothing to compare.
   */
  #unverified: KnownObject | 'version' | undefined;
  #streamingRefused = false;
  #lists = 0;
  #progressWanted = false;
  #progressAt = 0;
  /** A bookmark has come since the last progress request. */
  #progressAnswered = false;
  #endWatch: (() => void) | undefined;
  #lastList: PastList | undefined;
  #refusal: Refusal | undefined;

  constructor(options: ReflectorOptions) {
    this.#options = options;
    this.#name = formatKind(options.resource);
    this.#backoff = new Backoff(options.runtime.clock, options.random);
    const { listWatch, runtime } = options;
    const versionsServed = (signal: AbortSignal): Promise<string[]> => listWatch.versionsServed(signal);
    this.#removedResource = new RemovedResource(versionsServed, runtime.logger.child({ resource: this.#name }));
  }

  /** The last list that was read; undefined when there was none. */
  get lastList(): PastList | undefined {
    return this.#lastList;
  }

  /** Why the apiserver refuses to list or watch the resource; undefined when it does not, and while it is away. */
  get refusal(): Refusal | undefined {
    return this.#refusal;
  }

  /**
   * Runs until `signal` is aborted; it never rejects.
   * @param knownObject the newest object of the view: shows whether the server still has the history that we followed.
   * @param stored the version that the view is complete up to; undefined for a view that has never been listed.
   */
  async run(stored: ResourceVersion | undefined, signal: AbortSignal, knownObject?: KnownObject): Promise<void> {
    this.#version = stored;
    if (stored === undefined) this.#listAgain('the cache had no list of it');
    else this.#unverified = knownObject ?? 'version';
    while (!signal.aborted) {
      try {
        // A list is compared after its answer; a watch is opened before the comparison.
        if (this.#state.kind === 'listing') await this.#checkTime(signal);
        const state = this.#state;
        const end = state.kind === 'listing' ? await this.#list(state, signal) : await this.#watch(signal);
        if (signal.aborted) return;
        await this.#afterWatch(end, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#unverified = this.#version === undefined ? undefined : (this.#unverified ?? 'version');
        const state = this.#state;
        const isOfVersion = isExpired(error) || isTooLargeResourceVersion(error);
        if (state.kind === 'listing' && !state.newest && isOfVersion) {
          // At once: the server is well, and only the version that we asked for is of no use.
          this.#state = { ...state, newest: true };
          continue;
        }
        await this.#wait(error, signal);
      }
    }
  }

  /**
   * Lists the server again as soon as possible, as a diff, in place. Used when data in Redis may have been lost.
   * @param rewound the server's versions cannot be compared with those in the cache.
   * @param atLeast a version that the server has: the list shows every write up to it. Default: the last version.
   * @returns the number that the `init-done` of that list, or of a later one, will carry. A list that already runs does
   *   not count: Redis may have lost the objects that it has read.
   */
  relist(rewound = false, atLeast?: ResourceVersion): number {
    this.#lists += 1;
    const before = this.#state.kind === 'listing' ? this.#state : undefined;
    const isRewound = rewound || (before?.rewound ?? false);
    if (isRewound) this.#version = undefined;
    const newest = before?.newest ?? false;
    const why = isRewound
      ? REWOUND
      : 'the gateway asked for it: data was lost in Redis, or no event came after a write';
    this.#state = { kind: 'listing', why, list: this.#lists, rewound: isRewound, newest, atLeast };
    this.#endWatch?.();
    return this.#lists;
  }

  /**
   * Makes the version move soon even if nothing happens: the watch is opened again for three seconds, and before its
   * end the apiserver sends a bookmark at its current version (measured: after 0.95 and 2.2 s; with one or two seconds
   * none comes).
   */
  requestProgress(): void {
    const now = this.#options.runtime.clock.now();
    const everyMs = this.#progressAnswered ? ANSWERED_EVERY_MS : PROGRESS_EVERY_MS;
    if (this.#state.kind === 'listing' || now - this.#progressAt < everyMs) return;
    this.#progressAt = now;
    this.#progressAnswered = false;
    this.#progressWanted = true;
    this.#endWatch?.();
  }

  /** Begins a list, unless one is under way. */
  #listAgain(why: string): void {
    if (this.#state.kind === 'listing') return;
    this.#state = { kind: 'listing', why, list: this.#lists, rewound: false, newest: false };
  }

  /** A version of the server below ours means that its data was restored from an older state. */
  async #checkTime(signal: AbortSignal): Promise<void> {
    const unverified = this.#unverified;
    if (unverified === undefined || this.#version === undefined) return;
    const { listWatch } = this.#options;
    const { version: current, history } =
      unverified === 'version'
        ? { version: await listWatch.currentVersion(signal), history: 'same' }
        : await listWatch.checkHistory(unverified, signal);
    this.#unverified = undefined;
    // In doubt a list as a diff repairs the view; a contradiction in the list shows a restore.
    if (history === 'unknown') this.#listAgain('the server may have another history than the cache');
    if (this.#version === undefined) return;
    if (history !== 'other' && compareResourceVersions(current, this.#version) >= 0) return;
    this.#log('warn', { version: this.#version, current }, 'the apiserver has older data than the cache: listing anew');
    this.#state = { kind: 'listing', why: REWOUND, list: this.#lists, rewound: true, newest: false };
    this.#version = undefined;
  }

  async #afterWatch(end: WatchEnd, signal: AbortSignal): Promise<void> {
    const { buffer, runtime } = this.#options;
    const { clock, metrics } = runtime;
    metrics.count('levelhook_reflector_watch_ends_total', { resource: this.#name, reason: end.kind });
    switch (end.kind) {
      case 'closed':
        if (!buffer.full) break;
        this.#unverified ??= 'version';
        await buffer.drained(signal);
        break;
      case 'expired':
        this.#listAgain('the server has no events any more from the version of the cache on');
        break;
      case 'throttled':
        this.#unverified ??= 'version';
        await clock.sleep(Math.max(end.retryAfterMs ?? 0, this.#backoff.next()), signal);
        break;
      case 'failed':
        this.#unverified ??= 'version';
        await this.#wait(end.error, signal);
        break;
    }
  }

  async #wait(error: unknown, signal: AbortSignal): Promise<void> {
    if (error instanceof ApiError) {
      const verb = this.#state.kind === 'listing' ? 'list' : 'watch';
      this.#setRefusal(error.code === 403 ? { verb, message: error.message } : undefined);
    }
    const presence = await this.#removedResource.check(error, this.#lists, signal);
    if (presence === 'gone') {
      this.#options.buffer.push({ kind: 'gone', list: this.#lists }, 0);
      this.#version = undefined;
      this.#listAgain('the server did not serve the kind for a while');
    }
    if (presence === 'unserved') {
      this.#options.buffer.push({ kind: 'unserved' }, 0);
      this.#listAgain('the server did not serve this version for a while');
    }
    const waitMs = this.#backoff.next();
    const named = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
    const wait = Math.round(Math.max(presence === 'found' ? waitMs : Math.min(waitMs, GONE_WAIT_MS), named));
    // A removed resource may never come back, so this is logged once and not every few seconds.
    const level = this.#removedResource.isLasting ? 'debug' : 'warn';
    this.#log(level, { error: messageOf(error), waitMs: wait }, 'list or watch failed, trying again');
    await this.#options.runtime.clock.sleep(wait, signal);
  }

  /** Streams the list when the server can, and in the same round by pages when it refuses or the stream breaks off. */
  async #list(listing: Listing, signal: AbortSignal): Promise<WatchEnd> {
    if (!this.#streamingRefused) {
      try {
        return await this.#watch(signal, listing);
      } catch (error) {
        if (signal.aborted || !fallsBackToPages(error)) throw error;
        this.#streamingRefused = error instanceof ApiError && (error.code === 400 || error.code === 422);
        this.#log('info', { error: messageOf(error) }, 'no streaming list, listing by pages');
      }
    }
    await this.#listByPages(listing, signal);
    return { kind: 'closed' };
  }

  async #listByPages(listing: Listing, signal: AbortSignal): Promise<void> {
    const { buffer, listWatch } = this.#options;
    const { metrics } = this.#options.runtime;
    metrics.count('levelhook_reflector_lists_total', { resource: this.#name, form: 'paged' });
    // "0" is any data the server has cached, which may be older than ours: only for a view that has nothing.
    const from = listing.newest || listing.rewound ? '' : (this.#oldest(listing) ?? '0');
    buffer.push({ kind: 'init', rewound: listing.rewound }, 0);
    let version: ResourceVersion | undefined;
    for await (const page of listWatch.pages(from, signal)) {
      version = page.version;
      const bytes = Math.ceil(page.bytes / page.items.length);
      const weight = Math.ceil(page.weight / page.items.length);
      for (const object of page.items) buffer.push({ kind: 'listed', ...this.#transform(object) }, bytes, weight);
      // While the buffer drains, no watch is open that a restore of the server would break.
      if (await buffer.low(signal)) this.#unverified ??= 'version';
    }
    if (version !== undefined) this.#listDone(listing, version, 0);
  }

  /** The oldest version that a list or a watch may begin with; undefined: any, for a stream the newest. */
  #oldest(list: Listing | undefined): ResourceVersion | undefined {
    const version = this.#version;
    if (list?.atLeast === undefined || list.rewound) return version;
    return version === undefined || compareResourceVersions(list.atLeast, version) > 0 ? list.atLeast : version;
  }

  #listDone(listing: Listing, version: ResourceVersion, bytes: number): void {
    this.#options.buffer.push({ kind: 'init-done', version, list: listing.list }, bytes);
    this.#version = version;
    this.#lastList = { atMs: this.#options.runtime.clock.now(), reason: listing.why };
    this.#removedResource.reset();
    this.#setRefusal(undefined);
    // `relist` may have asked for another list during this one, which this one does not settle.
    if (this.#state === listing) this.#state = { kind: 'watching' };
    else if (this.#state.kind === 'listing') this.#state = { ...this.#state, newest: false };
  }

  /**
   * One watch, from the last version, or with `list` as a streaming list that goes on as a watch.
   * @throws when a streaming list could not be opened, or broke off before it was complete.
   */
  async #watch(signal: AbortSignal, list?: Listing): Promise<WatchEnd> {
    const { listWatch, random, silenceMs = 150_000 } = this.#options;
    const { clock, metrics } = this.#options.runtime;
    const abort = new AbortController();
    const stop = (): void => abort.abort();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const silence = setTimeout(() => abort.abort(new Error(`nothing came for ${silenceMs / 1000} s`)), silenceMs);
    const reading: Reading = { listing: list };
    let ended = false;
    // Set before the answer arrives: otherwise a relist that is requested before it would wait for minutes.
    this.#endWatch = () => {
      ended = true;
      abort.abort();
    };
    try {
      const openedAt = clock.now();
      const timeoutSeconds = this.#progressWanted && !list ? 3 : 300 + Math.floor(random() * 300);
      this.#progressWanted = false;
      const stream = await listWatch.watch(
        {
          resourceVersion: (list?.newest ? undefined : this.#oldest(list)) ?? '',
          timeoutSeconds,
          ...(list ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' } : {}),
        },
        abort.signal,
      );
      if (list) {
        metrics.count('levelhook_reflector_lists_total', { resource: this.#name, form: 'streaming' });
        this.#options.buffer.push({ kind: 'init', rewound: list.rewound }, 0);
      } else {
        // Compared while the watch is open: a server that is restored after this comparison breaks the watch. If the
        // watch were opened later, a restore in between would go unnoticed.
        stream.on('error', ignore);
        await this.#checkTime(abort.signal);
        if (this.#state.kind === 'listing') return { kind: 'closed' };
        this.#setRefusal(undefined);
      }
      const { end, events } = await this.#read(stream, reading, abort.signal, () => silence.refresh());
      if (events === 0 && end.kind === 'closed' && clock.now() - openedAt < 1000) {
        return { kind: 'failed', error: new Error('the watch was closed at once, without an event') };
      }
      return end;
    } catch (error) {
      if (ended) return { kind: 'closed' };
      // A complete list stays complete: a later failure is one of the watch.
      if (reading.listing || signal.aborted) throw error;
      return endOf(abort.signal.aborted ? (abort.signal.reason as unknown) : error);
    } finally {
      this.#endWatch = undefined;
      clearTimeout(silence);
      signal.removeEventListener('abort', stop);
      abort.abort();
    }
  }

  /**
   * The read loop. A watch waits for nothing but the next bytes, and after a large object for its share of the thread:
   * an apiserver ends it when it is read slowly.
   */
  async #read(
    stream: Parameters<typeof lines>[0],
    reading: Reading,
    signal: AbortSignal,
    heard: () => void,
  ): Promise<{ end: WatchEnd; events: number }> {
    let events = 0;
    for await (const batch of lines(stream)) {
      heard();
      const { listing } = reading;
      const slice = new TimeSlice(`view ${this.#name}`);
      for (const line of batch) {
        const taken = this.#handleLine(line, reading.listing);
        if (taken === 'listed') reading.listing = undefined;
        else if (taken) {
          if (reading.listing) throw errorOf(taken);
          return { end: taken, events };
        }
        if (!slice.isOver) continue;
        await slice.next();
        // After a relist that was requested in between, no later version may be reported.
        signal.throwIfAborted();
      }
      events += batch.length;
      // A list waits, with its last bytes too, because to break it off means to begin again. If the apiserver ends a
      // list that waits too long, pages follow.
      if (listing) await this.#options.buffer.low(signal);
      else if (this.#options.buffer.full) return { end: { kind: 'closed' }, events };
    }
    if (reading.listing) throw new Error('the stream of a list ended before its end mark');
    return { end: { kind: 'closed' }, events };
  }

  /** Takes one line. `listed` marks the end of a streaming list; a WatchEnd ends the watch; undefined goes on. */
  #handleLine(text: Buffer, listing: Listing | undefined): WatchEnd | 'listed' | undefined {
    const { buffer } = this.#options;
    const line = decodeWatchLine(text);
    if (line.kind === 'end') return line.end;
    if (line.kind === 'bookmark') {
      if (listing) {
        if (!line.endsList) return undefined;
        this.#listDone(listing, line.version, text.length);
        return 'listed';
      }
      this.#progressAnswered = true;
      buffer.push(line, text.length);
    } else {
      const { kind, object, json } = line;
      buffer.push(
        { kind: listing && kind === 'changed' ? 'listed' : kind, ...this.#transform(object, json) },
        text.length,
        weightOf(text),
      );
    }
    // Within a list the initial events are in no order of versions.
    if (!listing) this.#version = line.version;
    return undefined;
  }

  #transform(object: KubernetesObject, json?: string): SentObject {
    const { listWatch, transform } = this.#options;
    const isNamed = listWatch.name(object);
    transform.object(object);
    return { object, json: json !== undefined && isNamed ? transform.text(json) : undefined };
  }

  #setRefusal(refusal: Refusal | undefined): void {
    const hasChanged = (refusal === undefined) !== (this.#refusal === undefined);
    this.#refusal = refusal;
    if (hasChanged) this.#options.onRefusal?.();
  }

  #log(level: 'debug' | 'info' | 'warn', fields: Record<string, unknown>, message: string): void {
    this.#options.runtime.logger[level]({ resource: this.#name, ...fields }, message);
  }
}

/**
 * Whether to list by pages in the same round, as client-go does when a streaming list fails (watchList in
 * tools/cache/reflector.go). Not for errors that a list by pages would meet again, or that need another version first.
 */
function fallsBackToPages(error: unknown): boolean {
  if (isExpired(error) || isTooLargeResourceVersion(error)) return false;
  if (error instanceof ApiError) return error.code !== 404 && error.code !== 429;
  return !isConnectionRefused(error);
}

/** The end of a stream that was still listing: nothing of it counts, so it is an error of the list. */
function errorOf(end: WatchEnd): Error {
  switch (end.kind) {
    case 'failed':
      return end.error instanceof Error ? end.error : new Error(messageOf(end.error));
    case 'expired':
      return new ApiError({ code: 410, reason: 'Expired' });
    case 'throttled':
      return new ApiError({ code: 429 }, end.retryAfterMs);
    case 'closed':
      return new Error('the stream of a list was closed');
  }
}

const REWOUND = 'the server had older data than the cache';

/** The reader of the stream gets its error; a stream without a reader would throw it. */
function ignore(): void {}
