import {
  compareResourceVersions,
  formatKind,
  type KubernetesObject,
  messageOf,
  type Resource,
  type ResourceVersion,
  type Runtime,
} from '../../core/index.ts';
import type { IndexSpec } from '../../contract/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import { EventBuffer } from '../reflector/event-buffer.ts';
import { ListWatch } from '../reflector/list-watch.ts';
import { Reflector } from '../reflector/reflector.ts';
import type { WatchEvent } from '../reflector/watch-event.ts';
import { Applier } from './applier.ts';
import { Backfill } from './backfill.ts';
import type { ChangeHandler } from './change.ts';
import { ChangeHandlers, type OnHandlerError } from './change-handlers.ts';
import { UnreadableObjectError } from '../../contract/node/codec.ts';
import { isDataError } from '../redis/redis.ts';
import type { OutboxEntry } from './outbox.ts';
import { Relay, type RelayOptions } from './relay.ts';
import type { View } from './view.ts';
import { ForeignWriterError } from './view-writer.ts';
import type { GatewayWriter } from './gateway-writer.ts';
import type { ViewSettings } from '../config/cache-file.ts';
import { transformOf } from './view-settings.ts';

export interface InformerOptions {
  readonly client: ApiClient;
  readonly resource: Resource;
  readonly settings: ViewSettings;
  readonly view: View;
  readonly viewAt: (prefix: string) => View | undefined;
  /** Asked when the view carries another gateway's ID. */
  readonly writer: Pick<GatewayWriter, 'id' | 'check'>;
  readonly listeners: CacheListeners;
  readonly runtime: Runtime;
}

/** The callbacks through which the cache reaches the controllers that a change concerns. */
export interface CacheListeners extends Pick<RelayOptions, 'enqueue' | 'lookupBudget' | 'onUndeliverable'> {
  readonly onHandlerError: OnHandlerError;
  /** `outdated` became true, or objects began or ceased to be kept out of the view, which these controllers read. */
  readonly onViewChanged: (users: readonly string[]) => void;
}

/** Events applied by one script at most, and their size: bounds the time that a script blocks Redis. */
const CHUNK = 200;
const CHUNK_BYTES = 8 * 1024 * 1024;
/** A chunk that has failed so often for what it holds is applied event by event. */
const ATTEMPTS = 3;

/**
 * One resource, or one namespace of it, from the apiserver to the cache: reflector, buffer, applier, outbox and relay.
 * One for each view, however many controllers need it.
 */
export class Informer {
  readonly view: View;
  readonly #options: InformerOptions;
  readonly #listWatch: ListWatch;
  readonly #buffer: EventBuffer;
  readonly #reflector: Reflector;
  readonly #applier: Applier;
  readonly #relay: Relay;
  readonly #handlers: ChangeHandlers;
  readonly #backfill: Backfill;
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  /** The number of the last list applied; -1 before the first. */
  #listApplied = -1;
  #synced = false;
  #filledFromNothing = false;
  #outdated = false;
  readonly #started = Promise.withResolvers<void>();
  #begun = false;
  /** How many wait for a list. */
  #relists = 0;
  /** The chunk under way. */
  #applying: Promise<void> = Promise.resolve();
  /** When the oldest event of the chunk under way was read. */
  #applyingSinceMs: number | undefined;
  #discarding: Promise<void> | undefined;
  #waiters: (() => void)[] = [];

  constructor(options: InformerOptions) {
    const { client, resource, settings, view, viewAt, runtime } = options;
    const { clock, logger, metrics, checkpoint } = runtime;
    const { enqueue, lookupBudget, onHandlerError, onUndeliverable } = options.listeners;
    this.#options = options;
    this.view = view;
    this.#buffer = new EventBuffer(clock);
    this.#listWatch = new ListWatch(client, resource, { ...settings, namespace: view.location.namespace });
    this.#reflector = new Reflector({
      resource,
      listWatch: this.#listWatch,
      buffer: this.#buffer,
      runtime,
      random: Math.random,
      transform: transformOf(settings, formatKind(resource)),
    });
    this.#handlers = new ChangeHandlers(onHandlerError);
    const wakeups = { enqueue, lookupBudget, onUndeliverable };
    this.#relay = new Relay({ view, viewAt, ...wakeups, logger, metrics, checkpoint });
    const onWakeups = (entries: readonly OutboxEntry[]): void => this.#relay.push(entries);
    this.#applier = new Applier({ view, handlers: this.#handlers, onWakeups, logger, metrics, checkpoint });
    this.#backfill = new Backfill({
      view,
      started: this.#started.promise,
      applied: () => this.#applying,
      clock,
      logger,
      signal: this.#stop.signal,
    });
    view.onUnreadable((error) => this.#discard(error));
  }

  /** The kind, and the namespace when it is of one. */
  get name(): string {
    return this.view.name;
  }

  /** The view is complete. It stays so while it is being listed again, and through lost connections. */
  get synced(): boolean {
    return this.#synced;
  }

  /**
   * Whether the server's objects have another scope (namespaced or cluster-scoped) than this informer's resource,
   * because the definition of the kind was replaced.
   */
  get outdated(): boolean {
    return this.#outdated;
  }

  /** How long the oldest event that was read waits for being in the cache, in milliseconds; 0 when none does. */
  get unappliedMs(): number {
    const sinceMs = this.#applyingSinceMs ?? this.#buffer.oldestAtMs;
    return sinceMs === undefined ? 0 : this.#options.runtime.clock.now() - sinceMs;
  }

  /** The view held nothing when this informer started: everything in it was listed since. */
  get filledFromNothing(): boolean {
    return this.#filledFromNothing;
  }

  /**
   * Replaces the handlers of `user`; all later changes call the new ones. Resolves when the changes that did not call
   * them are in the cache.
   */
  async setHandlers(user: string, handlers: readonly ChangeHandler[]): Promise<void> {
    this.#handlers.set(user, handlers);
    await this.#applying;
  }

  /** `user` wants to hear of nothing any more, and reads by no index. */
  removeUser(user: string): void {
    this.#handlers.delete(user);
    this.#backfill.delete(user);
  }

  /**
   * Declares what `user` reads by. New indexes are filled in the background; until then readers look at every object.
   */
  setIndexes(user: string, specs: readonly IndexSpec[]): void {
    this.#backfill.set(user, specs);
  }

  /** Takes the view. Nothing happens to it before `begin`. */
  async start(): Promise<void> {
    await this.view.claim(this.#options.writer.id);
    await this.#reencrypt();
    const { version, rewound } = await this.view.state();
    this.#filledFromNothing = version === undefined;
    this.view.indexer.maintain(await this.view.indexer.complete());
    this.#markSynced(version !== undefined && !rewound);
    this.#started.resolve();
  }

  /**
   * Begins to fill the view, or goes on where the last writer stopped; does nothing the second time. Called when the
   * first handlers are set: a change that is applied or relayed without them wakes no key.
   */
  async begin(): Promise<void> {
    if (this.#begun) return;
    this.#begun = true;
    const { signal } = this.#stop;
    const { version, rewound } = await this.view.state();
    if (rewound) this.#applier.freezeUntil(this.#reflector.relist(true));
    this.#relay.kick();
    const from = rewound ? undefined : version;
    const newest = from === undefined ? undefined : await this.view.newest();
    const knownObject = newest && { key: newest.key, uid: newest.entry.uid, version: newest.entry.resourceVersion };
    this.#running = Promise.all([this.#reflector.run(from, signal, knownObject), this.#applyLoop(signal)]);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#started.resolve();
    this.#wakeWaiters();
    await Promise.all([this.#running, this.#backfill.finished]);
    await this.#flushOutbox();
  }

  /** Deletes acknowledged wakeups, so that the next gateway does not queue them again. Gives up if Redis is away. */
  async #flushOutbox(): Promise<void> {
    const timeout = new AbortController();
    const flushed = this.view.outbox.flush().catch(() => {});
    await Promise.race([flushed, this.#options.runtime.clock.sleep(FLUSH_TIMEOUT_MS, timeout.signal)]);
    timeout.abort();
  }

  async waitForSync(signal: AbortSignal): Promise<void> {
    await this.#until(() => this.#synced, signal);
  }

  /**
   * Takes the view again and reads the server again as a diff; resolves when that is applied, and the view shows every
   * write from before this call.
   */
  async relist(signal: AbortSignal): Promise<void> {
    this.#relists += 1;
    try {
      const list = await this.#reclaim();
      await this.#until(() => this.#listApplied >= list, signal);
    } finally {
      this.#relists -= 1;
    }
  }

  /**
   * Resolves when the view shows everything that the server has now: by a bookmark where one comes soon, else by a
   * list.
   */
  async catchUp(signal: AbortSignal): Promise<void> {
    const current = await this.currentVersion();
    for (let waitedMs = 0; waitedMs < CATCH_UP_MS; waitedMs += CATCH_UP_LOOK_MS) {
      signal.throwIfAborted();
      this.#stop.signal.throwIfAborted();
      const { version } = await this.view.state();
      if (version !== undefined && compareResourceVersions(version, current) >= 0) return;
      this.requestProgress();
      await this.#options.runtime.clock.sleep(CATCH_UP_LOOK_MS, signal);
    }
    await this.relist(signal);
  }

  async #reclaim(): Promise<number> {
    const { version, rewound } = await this.view.state();
    // Redis may have come back with what it held before the server's data was restored. An event that was applied to it
    // since has set the view's version, but not those of the other objects.
    const newest = rewound ? undefined : (await this.view.newest())?.entry.resourceVersion;
    // Last: what the view holds of this server's history is not above it.
    const current = await this.currentVersion();
    const isAhead = [version, newest].some((each) => each !== undefined && compareResourceVersions(each, current) > 0);
    const list = this.#reflector.relist(rewound || isAhead, current);
    this.#stop.signal.throwIfAborted();
    this.#applier.freezeUntil(list);
    await this.view.reclaim();
    return list;
  }

  /** Sends what may be left in the outbox. */
  drainOutbox(): void {
    this.#relay.retry();
  }

  requestProgress(): void {
    this.#reflector.requestProgress();
  }

  /**
   * The server's version of the resource now.
   * @param asker the controller that wants to know: it counts against its requests, and its signal gives up. Default:
   *   the gateway itself.
   */
  currentVersion(asker?: { readonly controller: string; readonly signal: AbortSignal }): Promise<ResourceVersion> {
    const timeout = AbortSignal.timeout(10_000);
    const signal = asker ? AbortSignal.any([timeout, asker.signal]) : timeout;
    return this.#listWatch.currentVersion(signal, asker?.controller);
  }

  async #applyLoop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#buffer.filled(signal);
      this.#applyingSinceMs = this.#buffer.oldestAtMs;
      const events = await this.#buffer.take(CHUNK, signal, CHUNK_BYTES);
      if (events.length === 0) continue;
      this.#applying = this.#apply(events, signal);
      await this.#applying;
      this.#applyingSinceMs = undefined;
    }
    await this.#applier.waitForPendingWrite();
  }

  /**
   * Applies a chunk, and retries until it succeeds; applying a chunk twice is harmless. A chunk that fails because of
   * its data is applied event by event.
   */
  async #apply(events: readonly WatchEvent[], signal: AbortSignal): Promise<void> {
    if (!this.#outdated && events.some((event) => 'object' in event && !this.#isInScope(event.object))) {
      this.#outdated = true;
      this.#options.listeners.onViewChanged(this.#handlers.users);
    }
    let dataErrors = 0;
    while (!signal.aborted) {
      try {
        const each = dataErrors >= ATTEMPTS;
        const result = await (each ? this.#applier.applyEach(events) : this.#applier.apply(events));
        this.#relay.kick();
        if (this.#applier.resetMarksChanged()) this.#options.listeners.onViewChanged(this.#handlers.users);
        if (result === 'contradiction') {
          this.#options.runtime.logger.warn(
            { resource: this.name },
            'the apiserver has older data than the cache: listing anew',
          );
          this.#reflector.relist(true);
        }
        this.#recordLists(events);
        return;
      } catch (error) {
        if (signal.aborted) return;
        this.#relay.recordFailedApply();
        // A stored object that cannot be read is no fault of the events: the view is discarded and listed again.
        if (isDataError(error) && !(error instanceof UnreadableObjectError)) dataErrors += 1;
        if (error instanceof ForeignWriterError) await this.#onForeignWriter();
        else {
          this.#options.runtime.logger.error(
            { resource: this.name, error: messageOf(error) },
            'a chunk could not be applied',
          );
        }
        await this.#options.runtime.clock.sleep(200, signal);
      }
    }
  }

  #isInScope({ metadata }: KubernetesObject): boolean {
    return (metadata.namespace !== undefined) === this.#options.resource.namespaced;
  }

  /** Removes objects that the present keys cannot decrypt, before they are read, so that they are listed again. */
  async #reencrypt(): Promise<void> {
    try {
      await this.view.reencrypt();
    } catch (error) {
      if (!(error instanceof UnreadableObjectError)) throw error;
      // The listener has seen to it.
      await this.#discarding;
      await this.view.reclaim();
      await this.view.reencrypt();
    }
  }

  /**
   * An object of the view cannot be read: altered, or written by a later version. All of the view goes, which recovery
   * notices and mends as any other loss; a list alone would leave alone what has the version that it names.
   */
  #discard(error: UnreadableObjectError): void {
    this.#discarding ??= this.#discardNow(error);
  }

  async #discardNow(error: UnreadableObjectError): Promise<void> {
    const { logger } = this.#options.runtime;
    logger.error({ resource: this.name, error: error.message }, 'the view cannot be read: listing it anew');
    try {
      await this.view.discard();
    } catch (reason) {
      // The next read of the object tries again.
      logger.error({ resource: this.name, error: messageOf(reason) }, 'the view could not be removed');
    } finally {
      this.#discarding = undefined;
    }
  }

  async #onForeignWriter(): Promise<void> {
    void this.#options.writer.check(this.view);
    // Lost in the middle of the first list, of which recovery knows nothing yet, or of the list for which it waits.
    if (this.#synced && this.#relists === 0) return;
    const state = await this.view.state().catch(() => undefined);
    if (state && state.writerId === undefined) await this.#reclaim().catch(() => {});
  }

  #recordLists(events: readonly WatchEvent[]): void {
    for (const event of events) {
      // A resource that is no longer served has no objects: that, too, answers a caller that waits for a list.
      if (event.kind !== 'init-done' && event.kind !== 'gone') continue;
      this.#listApplied = Math.max(this.#listApplied, event.list);
      this.#markSynced(true);
      // The entries of indexes may have been lost with the other data.
      this.#backfill.start();
    }
    this.#wakeWaiters();
  }

  #markSynced(synced: boolean): void {
    this.#synced = synced;
    this.#options.runtime.metrics.set('levelhook_view_synced', { resource: this.name }, synced ? 1 : 0);
    this.#wakeWaiters();
  }

  #wakeWaiters(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  async #until(condition: () => boolean, signal: AbortSignal): Promise<void> {
    while (!condition()) {
      signal.throwIfAborted();
      this.#stop.signal.throwIfAborted();
      const { promise, resolve } = Promise.withResolvers<void>();
      const aborted = (): void => resolve();
      this.#waiters.push(resolve);
      signal.addEventListener('abort', aborted, { once: true });
      await promise;
      signal.removeEventListener('abort', aborted);
    }
  }
}

/** A bookmark that was asked for comes within 2.2 s, as measured. */
const CATCH_UP_MS = 3000;
const CATCH_UP_LOOK_MS = 100;
/** How long a stop waits for a Redis that does not answer. */
const FLUSH_TIMEOUT_MS = 1000;
