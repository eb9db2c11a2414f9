import { randomUUID } from 'node:crypto';
import {
  type Clock,
  formatKind,
  type Logger,
  messageOf,
  type Metrics,
  type Resource,
  type ResourceVersion,
} from '../../core/index.ts';
import type { ApiClient } from '../apiserver/api-client.ts';
import { EventBuffer } from '../reflector/event-buffer.ts';
import { ListWatch } from '../reflector/list-watch.ts';
import { Reflector } from '../reflector/reflector.ts';
import type { WatchEvent } from '../reflector/watch-event.ts';
import { Applier } from './applier.ts';
import type { Change, ChangeHandler, Wakeup } from './change.ts';
import { type Enqueue, Relay } from './relay.ts';
import { ForeignTermError, type View } from './view.ts';

export interface InformerOptions {
  readonly client: ApiClient;
  readonly resource: Resource;
  readonly view: View;
  readonly enqueue: Enqueue;
  /** This gateway's term: the scripts refuse to write to a view under another one's. */
  readonly term: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The view carries another gateway's term: see whether this one may go on. */
  readonly onForeignTerm: (view: View) => void;
}

/** Events applied by one script at most: bounds the time that a script holds Redis. */
const CHUNK = 200;

/**
 * One resource from the apiserver to the cache: reflector, buffer, applier, outbox and relay. One for each resource,
 * however many controllers need it.
 */
export class Informer {
  readonly name: string;
  readonly view: View;
  readonly #options: InformerOptions;
  readonly #listWatch: ListWatch;
  readonly #buffer = new EventBuffer();
  readonly #reflector: Reflector;
  readonly #applier: Applier;
  readonly #relay: Relay;
  readonly #handlers = new Map<string, ChangeHandler>();
  readonly #stop = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  /** The number of the last list applied; -1 before the first. */
  #listApplied = -1;
  #synced = false;
  #wentBackwards = false;
  #waiters: (() => void)[] = [];

  constructor(options: InformerOptions) {
    const { client, resource, view, clock, logger, metrics } = options;
    this.#options = options;
    this.view = view;
    this.name = formatKind(resource);
    this.#listWatch = new ListWatch(client, resource);
    const { random } = Math;
    const listWatch = this.#listWatch;
    this.#reflector = new Reflector({ resource, listWatch, buffer: this.#buffer, clock, logger, metrics, random });
    this.#applier = new Applier(view, (change) => this.#handle(change), metrics);
    this.#relay = new Relay(view, options.enqueue, logger);
  }

  /** The view is complete. It stays so while it is being listed again, and through lost connections. */
  get synced(): boolean {
    return this.#synced;
  }

  addHandler(id: string, handler: ChangeHandler): void {
    this.#handlers.set(id, handler);
  }

  /** Takes the view and begins to fill it, or goes on where the last writer stopped. */
  async start(): Promise<void> {
    await this.view.take(this.#options.term);
    const { version } = await this.view.state();
    this.#markSynced(version !== undefined);
    this.#relay.kick();
    const { signal } = this.#stop;
    this.#running = Promise.all([this.#reflector.run(version, signal), this.#applyLoop(signal)]);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async waitForSync(signal: AbortSignal): Promise<void> {
    await this.#until(() => this.#synced, signal);
  }

  /** Takes the view again and reads the server again as a diff; resolves when that is applied. */
  async relist(signal: AbortSignal): Promise<void> {
    await this.view.take(this.#options.term);
    const list = this.#reflector.relist();
    await this.#until(() => this.#listApplied >= list, signal);
  }

  /** Sends what may be left in the outbox. */
  drainOutbox(): void {
    this.#relay.kick();
  }

  requestProgress(): void {
    this.#reflector.requestProgress();
  }

  currentVersion(): Promise<ResourceVersion> {
    return this.#listWatch.currentVersion(AbortSignal.timeout(10_000));
  }

  #handle(change: Change): Wakeup[] {
    return [...this.#handlers.values()].flatMap((handler) => handler(change));
  }

  async #applyLoop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const events = await this.#buffer.take(CHUNK, signal);
      if (events.length > 0) await this.#apply(events, signal);
    }
  }

  /** Until it succeeds: a chunk is never skipped, and applying it twice does no harm. */
  async #apply(events: readonly WatchEvent[], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#applier.apply(events);
        this.#relay.kick();
        await this.#noteLists(events);
        return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof ForeignTermError) this.#options.onForeignTerm(this.view);
        else
          this.#options.logger.error({ resource: this.name, error: messageOf(error) }, 'a chunk could not be applied');
        await this.#options.clock.sleep(200, signal);
      }
    }
  }

  async #noteLists(events: readonly WatchEvent[]): Promise<void> {
    for (const event of events) {
      if (event.kind === 'init') this.#wentBackwards = event.timeWentBackwards;
      if (event.kind !== 'init-done') continue;
      // Everything in it may have changed: its controllers get all their keys again.
      if (this.#wentBackwards) await this.view.renewIncarnation(randomUUID());
      this.#wentBackwards = false;
      this.#listApplied = Math.max(this.#listApplied, event.list);
      this.#markSynced(true);
    }
    this.#wakeWaiters();
  }

  #markSynced(synced: boolean): void {
    this.#synced = synced;
    this.#options.metrics.set('levelhook_view_synced', { resource: this.name }, synced ? 1 : 0);
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
      await new Promise<void>((resolve) => {
        this.#waiters.push(resolve);
        signal.addEventListener('abort', () => resolve(), { once: true });
        this.#stop.signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }
}
