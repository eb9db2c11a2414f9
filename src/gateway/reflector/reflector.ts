import { setTimeout as nodeTimeout } from 'node:timers';
import {
  ApiError,
  type ApiStatus,
  type Clock,
  compareResourceVersions,
  formatKind,
  isExpired,
  isResourceVersion,
  isTooLargeResourceVersion,
  type KubernetesObject,
  type Logger,
  messageOf,
  type Metrics,
  type Resource,
  type ResourceVersion,
} from '../../core/index.ts';
import { Backoff } from './backoff.ts';
import type { EventBuffer } from './event-buffer.ts';
import { lines } from './lines.ts';
import type { ListWatch } from './list-watch.ts';

export interface ReflectorOptions {
  readonly resource: Resource;
  readonly listWatch: ListWatch;
  readonly buffer: EventBuffer;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** 0 to 1, as Math.random: jitter of backoff and of the server's timeout. */
  readonly random: () => number;
  /** Run on each object before it is buffered. Default: drop managedFields. */
  readonly transform?: (object: KubernetesObject) => void;
  /** A watch without a byte for this long is taken for dead; bookmarks come about once a minute. Default 150 s. */
  readonly silenceMs?: number;
}

/** How one watch ended, and so what comes next. */
type WatchEnd =
  /** The server closed it in order, or we did to drain the buffer or to hear a bookmark: go on from the last version. */
  | { readonly kind: 'closed' }
  /** The version is no longer served: list again. */
  | { readonly kind: 'expired' }
  /** The server is overloaded: go on from the last version, after the time that it named. */
  | { readonly kind: 'throttled'; readonly retryAfterMs: number | undefined }
  /** Anything else: back off, look whether time went backwards, go on from the last version. */
  | { readonly kind: 'failed'; readonly error: unknown };

/** A list to be made, numbered so that whoever asked for it can tell when it is applied. */
interface WantedList {
  readonly timeWentBackwards: boolean;
  readonly list: number;
}

interface WatchLine {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: KubernetesObject & ApiStatus;
}

/** A streaming list filled the buffer. It cannot be resumed in the middle, so the list goes on by pages. */
class OutranError extends Error {}

/** A progress request while one runs would only cut it off before its bookmark. */
const PROGRESS_EVERY_MS = 4000;

const INITIAL_EVENTS_END = 'k8s.io/initial-events-end';

/**
 * Turns one resource of the apiserver into an ordered stream of events: client-go's Reflector (tools/cache/reflector.go)
 * on raw JSON. Lists by stream where the server can, else by pages; resumes from the last version after every end that
 * permits it; lists again when the version has expired or when the server's data turns out to be older than ours.
 *
 * It owns no state but the version it has read up to. What has been *applied* up to is the view's version.
 */
export class Reflector {
  readonly #options: ReflectorOptions;
  readonly #name: string;
  readonly #backoff: Backoff;
  #version: ResourceVersion | undefined;
  /** Set while the version is of no use to a list: expired, or newer than what the server has. */
  #versionUnavailable = false;
  #streamingRefused = false;
  #relistWanted: WantedList | undefined;
  #lists = 0;
  #progressWanted = false;
  #progressAt = 0;
  #endWatch: (() => void) | undefined;

  constructor(options: ReflectorOptions) {
    this.#options = options;
    this.#name = formatKind(options.resource);
    this.#backoff = new Backoff(options.clock, options.random);
  }

  /**
   * Runs until `signal` is aborted; it never rejects.
   * @param stored the version up to which the view is complete; undefined for a view that has never been listed.
   */
  async run(stored: ResourceVersion | undefined, signal: AbortSignal): Promise<void> {
    this.#version = stored;
    let mustCheckTime = stored !== undefined;
    if (stored === undefined) this.#relistWanted ??= this.#wanted(false);
    while (!signal.aborted) {
      try {
        if (mustCheckTime) await this.#checkTime(signal);
        mustCheckTime = false;
        const end = this.#relistWanted ? await this.#list(this.#relistWanted, signal) : await this.#watch(signal);
        if (signal.aborted) return;
        mustCheckTime = await this.#afterWatch(end, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#noteUnavailable(error);
        mustCheckTime = this.#version !== undefined;
        await this.#pause(error, signal);
      }
    }
  }

  /**
   * Read the server again as a diff, in place, as soon as possible. Used when data in Redis may have been lost.
   * @returns the number that the `init-done` of that list will carry, or of a later one. A list that runs already does
   *   not count: what it has read may have been lost since.
   */
  relist(): number {
    this.#lists += 1;
    this.#relistWanted = this.#wanted(this.#relistWanted?.timeWentBackwards ?? false);
    this.#endWatch?.();
    return this.#lists;
  }

  #wanted(timeWentBackwards: boolean): WantedList {
    return { timeWentBackwards, list: this.#lists };
  }

  /**
   * Makes the version move soon even if nothing happens: the watch is opened again for three seconds, and before its
   * end the apiserver sends a bookmark at its current version (measured: after 0.95 and 2.2 s; with one or two seconds
   * none comes).
   */
  requestProgress(): void {
    const now = this.#options.clock.now();
    if (this.#relistWanted || now - this.#progressAt < PROGRESS_EVERY_MS) return;
    this.#progressAt = now;
    this.#progressWanted = true;
    this.#endWatch?.();
  }

  /** Before a resume: a version of the server below ours means that its data was restored from an older state. */
  async #checkTime(signal: AbortSignal): Promise<void> {
    // With a list wanted too: what it is to be compared with depends on the answer.
    if (this.#version === undefined) return;
    const current = await this.#options.listWatch.currentVersion(signal);
    if (compareResourceVersions(current, this.#version) >= 0) return;
    this.#log('warn', { version: this.#version, current }, 'the apiserver has older data than the cache: listing anew');
    this.#relistWanted = this.#wanted(true);
    this.#version = undefined;
  }

  /** @returns whether the next round must begin with the look at the server's version. */
  async #afterWatch(end: WatchEnd, signal: AbortSignal): Promise<boolean> {
    this.#options.metrics.count('levelhook_reflector_watch_ends_total', { resource: this.#name, reason: end.kind });
    switch (end.kind) {
      case 'closed':
        if (this.#options.buffer.full) await this.#options.buffer.drained(signal);
        return false;
      case 'expired':
        this.#relistWanted ??= this.#wanted(false);
        return false;
      case 'throttled':
        await this.#options.clock.sleep(Math.max(end.retryAfterMs ?? 0, this.#backoff.next()), signal);
        return false;
      case 'failed':
        await this.#pause(end.error, signal);
        return true;
    }
  }

  async #pause(error: unknown, signal: AbortSignal): Promise<void> {
    const waitMs = Math.round(Math.max(this.#backoff.next(), (error instanceof ApiError && error.retryAfterMs) || 0));
    this.#log('warn', { error: messageOf(error), waitMs }, 'list or watch failed, trying again');
    await this.#options.clock.sleep(waitMs, signal);
  }

  #noteUnavailable(error: unknown): void {
    if (isExpired(error) || isTooLargeResourceVersion(error)) this.#versionUnavailable = true;
  }

  /** Streams the list when the server can, and in the same round by pages when it refuses. */
  async #list(want: WantedList, signal: AbortSignal): Promise<WatchEnd> {
    if (!this.#streamingRefused) {
      try {
        return await this.#watch(signal, want);
      } catch (error) {
        const retry = isExpired(error) || isTooLargeResourceVersion(error) || isConnectionTrouble(error);
        if (retry || signal.aborted) throw error;
        this.#streamingRefused = error instanceof ApiError && (error.code === 400 || error.code === 422);
        this.#log('info', { error: messageOf(error) }, 'no streaming list, listing by pages');
        // Pages wait for the cache between each other; a stream cannot.
        await this.#options.buffer.drained(signal);
      }
    }
    await this.#listByPages(want, signal);
    return { kind: 'closed' };
  }

  async #listByPages(want: WantedList, signal: AbortSignal): Promise<void> {
    const { buffer, listWatch, metrics } = this.#options;
    metrics.count('levelhook_reflector_lists_total', { resource: this.#name, form: 'paged' });
    // "0" is any data the server has cached, which may be older than ours: only for a view that has nothing.
    const from = this.#versionUnavailable ? '' : (this.#version ?? (want.timeWentBackwards ? '' : '0'));
    buffer.push({ kind: 'init', timeWentBackwards: want.timeWentBackwards }, 0);
    let version: ResourceVersion | undefined;
    for await (const page of listWatch.pages(from, signal)) {
      version = page.version;
      if (page.startsOver) buffer.push({ kind: 'init', timeWentBackwards: want.timeWentBackwards }, 0);
      for (const object of page.items) {
        this.#transform(object);
        // The pages' raw size is not known; an object of a few KB is a fair guess for the bound.
        buffer.push({ kind: 'listed', object }, 4096);
      }
      if (buffer.full) await buffer.drained(signal);
    }
    if (version !== undefined) this.#listDone(want, version, 0);
  }

  #listDone(want: WantedList, version: ResourceVersion, bytes: number): void {
    this.#options.buffer.push({ kind: 'init-done', version, list: want.list }, bytes);
    this.#version = version;
    this.#versionUnavailable = false;
    if (this.#relistWanted === want) this.#relistWanted = undefined;
  }

  /**
   * One watch, from the last version, or with `list` as a streaming list that goes on as a watch.
   * @throws when it could not be opened, or when a list broke off before it was complete.
   */
  async #watch(signal: AbortSignal, list?: WantedList): Promise<WatchEnd> {
    const { clock, listWatch, metrics, random, silenceMs = 150_000 } = this.#options;
    const abort = new AbortController();
    const stop = (): void => abort.abort();
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    const silence = nodeTimeout(() => abort.abort(new Error(`nothing came for ${silenceMs / 1000} s`)), silenceMs);
    const version = this.#versionUnavailable ? undefined : this.#version;
    const openedAt = clock.now();
    let events = 0;
    let ended = false;
    // From here on, and not only from the answer on: a relist that is asked for meanwhile would wait for minutes.
    this.#endWatch = () => {
      ended = true;
      abort.abort();
    };
    try {
      const stream = await listWatch.watch(
        {
          resourceVersion: version ?? '',
          timeoutSeconds: this.#progressWanted && !list ? 3 : 300 + Math.floor(random() * 300),
          ...(list ? { sendInitialEvents: true, resourceVersionMatch: 'NotOlderThan' } : {}),
        },
        abort.signal,
      );
      if (!ended) this.#progressWanted = false;
      if (list) {
        metrics.count('levelhook_reflector_lists_total', { resource: this.#name, form: 'streaming' });
        this.#options.buffer.push({ kind: 'init', timeWentBackwards: list.timeWentBackwards }, 0);
      }
      let listing = list !== undefined;
      for await (const batch of lines(stream)) {
        silence.refresh();
        for (const line of batch) {
          const end = this.#accept(line, listing ? list : undefined);
          if (end === 'listed') listing = false;
          else if (end) return listing ? failedList(end) : end;
        }
        events += batch.length;
        if (this.#options.buffer.full) {
          if (listing) throw new OutranError('the stream of a list outran the cache');
          return { kind: 'closed' };
        }
      }
      if (listing) throw new Error('the stream of a list ended before its end mark');
      if (events === 0 && clock.now() - openedAt < 1000) {
        return { kind: 'failed', error: new Error('the watch was closed at once, without an event') };
      }
      return { kind: 'closed' };
    } catch (error) {
      if (ended) return { kind: 'closed' };
      if (list || signal.aborted) throw error;
      if (isExpired(error)) return { kind: 'expired' };
      if (error instanceof ApiError && error.code === 429) {
        return { kind: 'throttled', retryAfterMs: error.retryAfterMs };
      }
      return { kind: 'failed', error: abort.signal.aborted ? (abort.signal.reason as unknown) : error };
    } finally {
      this.#endWatch = undefined;
      clearTimeout(silence);
      signal.removeEventListener('abort', stop);
      abort.abort();
    }
  }

  /** Takes one line. `listed` marks the end of a streaming list; a WatchEnd ends the watch; undefined goes on. */
  #accept(line: Buffer, listing: WantedList | undefined): WatchEnd | 'listed' | undefined {
    const { buffer } = this.#options;
    let event: WatchLine;
    try {
      event = JSON.parse(line.toString('utf8')) as WatchLine;
    } catch {
      // Never skipped: the version stays where it was, and the next watch delivers the line again.
      return { kind: 'failed', error: new Error('a line of the watch is not JSON') };
    }
    const { type, object } = event;
    if (type === 'ERROR') return endOf(new ApiError(object));
    const version = object?.metadata?.resourceVersion;
    if (!isResourceVersion(version)) {
      return { kind: 'failed', error: new Error('an event of the watch carries no resourceVersion') };
    }
    if (type === 'BOOKMARK') {
      if (listing && object.metadata.annotations?.[INITIAL_EVENTS_END] === 'true') {
        this.#listDone(listing, version, line.length);
        return 'listed';
      }
      if (listing) return undefined;
      buffer.push({ kind: 'bookmark', version }, line.length);
    } else {
      this.#transform(object);
      if (type === 'DELETED') buffer.push({ kind: 'deleted', object }, line.length);
      else buffer.push({ kind: listing ? 'listed' : 'changed', object }, line.length);
    }
    // Within a list the initial events are in no order of versions.
    if (!listing) this.#version = version;
    return undefined;
  }

  #transform(object: KubernetesObject): void {
    if (this.#options.transform) this.#options.transform(object);
    else delete object.metadata.managedFields;
  }

  #log(level: 'info' | 'warn', fields: Record<string, unknown>, message: string): void {
    this.#options.logger[level]({ resource: this.#name, ...fields }, message);
  }
}

function endOf(error: ApiError): WatchEnd {
  if (isExpired(error)) return { kind: 'expired' };
  if (error.code === 429) return { kind: 'throttled', retryAfterMs: error.retryAfterMs };
  return { kind: 'failed', error };
}

/** The end of a stream that was still listing: nothing of it counts, so it is an error of the list. */
function failedList(end: WatchEnd): never {
  if (end.kind === 'failed') throw end.error;
  throw new ApiError(end.kind === 'expired' ? { code: 410, reason: 'Expired' } : { code: 429 });
}

/** No answer at all, or one that says "later": the same request is tried again after a wait. */
function isConnectionTrouble(error: unknown): boolean {
  if (error instanceof OutranError) return false;
  return !(error instanceof ApiError) || error.code === 429 || error.code >= 500;
}
