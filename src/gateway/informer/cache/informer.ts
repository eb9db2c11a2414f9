import {
  ApiError,
  compareResourceVersions,
  formatKind,
  groupOf,
  messageOf,
  type ResourceVersion,
} from '../../../core/index.ts';
import { CACHE_VERBS, missingRight } from '../../../ground/apiserver/missing-right.ts';
import { ListWatch } from '../reflector/list-watch.ts';
import type { UserIndexes } from './backfill.ts';
import type { ChangeHandler } from './change.ts';
import { ChangeHandlers } from './change-handlers.ts';
import type { InformerOptions } from './informer-options.ts';
import type { View } from './view.ts';
import { droppedFields } from './view-settings.ts';
import { ViewUpdater } from './view-updater.ts';
import type { Term } from './gateway-writer.ts';

/** How many times in a row, with this pause, the server must answer 404 before a resource counts as not served. */
const MISSING_ANSWERS = 3;
const MISSING_PAUSE_MS = 500;
/** A requested bookmark comes within 2.2 s, as measured. */
const CATCH_UP_MS = 3000;
const CATCH_UP_LOOK_MS = 100;
/** How often a gateway that follows looks whether the leader has filled the view. */
const FOLLOWER_LOOK_MS = 200;
const TAKE_AGAIN_MS = 1000;
/**
 * The age (`Informer.ageMs`) that the view of a resource at rest has at most: a bookmark comes about once a minute. The
 * alert `LevelhookViewBehind` has the same limit.
 */
export const MOST_AT_REST_MS = 180_000;

/**
 * One resource, or one namespace of it, in the cache: one informer for each view, however many controllers need it. It
 * knows which handlers receive the changes and which fields are read by index. While this gateway leads, a
 * `ViewUpdater` keeps the view in line with the apiserver. While it follows, the leader's updater does, and the
 * informer only checks whether the view is complete.
 */
export class Informer {
  readonly view: View;
  readonly #options: InformerOptions;
  readonly #listWatch: ListWatch;
  readonly #handlers: ChangeHandlers;
  readonly #indexes = new Map<string, UserIndexes>();
  readonly #ageLimits = new Map<string, number>();
  readonly #stop = new AbortController();
  /** Present while this gateway leads. */
  #updater: ViewUpdater | undefined;
  /** The take of the view in the present term. */
  #taken: { readonly term: Term; readonly done: Promise<void> } | undefined;
  #begun = false;
  #synced = false;
  #outdated = false;
  #following: Promise<void> = Promise.resolve();
  /** The end of the updaters of earlier terms. */
  #ended: Promise<unknown> = Promise.resolve();
  #waiters: (() => void)[] = [];

  constructor(options: InformerOptions) {
    const { client, resource, settings, view } = options;
    this.#options = options;
    this.view = view;
    const scope = { ...settings, drop: droppedFields(settings), namespace: view.location.namespace };
    this.#listWatch = new ListWatch(client, resource, scope);
    this.#handlers = new ChangeHandlers(options.listeners.onHandlerError);
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

  /**
   * The right that the gateway lacks to fill the view, and the apiserver's words; undefined when it has the right, or
   * another gateway fills the view.
   */
  get refusal(): string | undefined {
    const refusal = this.#updater?.refusal;
    if (!refusal) return undefined;
    const { resource, location } = this.view;
    const group = groupOf(resource);
    const purpose = `to cache ${formatKind(resource)}`;
    const right = { group, resource: resource.plural, namespace: location.namespace, purpose };
    const sentence = missingRight("the gateway's user", right, [refusal.verb]);
    return `${sentence} ${CACHE_VERBS.join(', ')} (${refusal.message})`;
  }

  /** How long the oldest event that was read waits for being in the cache, in milliseconds; 0 when none does. */
  get unappliedMs(): number {
    const sinceMs = this.#updater?.unappliedSinceMs;
    return sinceMs === undefined ? 0 : this.#options.runtime.clock.now() - sinceMs;
  }

  /** How many events were read and are not in the cache yet. */
  get unapplied(): number {
    return this.#updater?.unapplied ?? 0;
  }

  /**
   * For how long the view may lack a change of the server, in milliseconds, whichever gateway fills it (see
   * `ViewState.shownMs`); undefined when the view is not complete.
   */
  async ageMs(): Promise<number | undefined> {
    const { shownMs, rewound } = await this.view.record.progress();
    if (shownMs === undefined || rewound) return undefined;
    // The clocks of two gateways may differ a little.
    return Math.max(0, this.#options.runtime.clock.now() - shownMs);
  }

  /** This gateway has taken the view in the present term. */
  get isTaken(): boolean {
    return this.#updater?.isTaken ?? false;
  }

  /** The view held nothing when this gateway took it: everything in it was listed since. */
  get filledFromNothing(): boolean {
    return this.#updater?.filledFromNothing ?? false;
  }

  /**
   * Replaces the handlers of `user`; all later changes call the new ones. Resolves when the changes that did not call
   * them are in the cache.
   */
  async setHandlers(user: string, handlers: readonly ChangeHandler[]): Promise<void> {
    this.#handlers.set(user, handlers);
    await this.#updater?.applied;
  }

  /** Ends `user`'s handlers and indexes. */
  removeUser(user: string): void {
    this.#handlers.delete(user);
    this.#indexes.delete(user);
    this.view.onlyReader = onlyTenant(this.#indexes.values());
    this.#ageLimits.delete(user);
    this.#updater?.fillIndexes();
  }

  /** `user` needs the view to be younger than this; Infinity: at any age. The gateway that leads keeps it so. */
  setAgeLimit(user: string, limitMs: number): void {
    if (limitMs === Infinity) this.#ageLimits.delete(user);
    else this.#ageLimits.set(user, limitMs);
    this.#updater?.keepFresh();
  }

  /**
   * Declares the indexes that `user` reads by, and the fields whose values are observed for it. New indexes are filled
   * in the background; until then readers look at every object.
   */
  setIndexes(user: string, indexes: UserIndexes): void {
    this.#indexes.set(user, indexes);
    this.view.onlyReader = onlyTenant(this.#indexes.values());
    this.#updater?.fillIndexes();
  }

  /** Takes the view if this gateway leads. Nothing happens to it before `begin`. */
  async start(): Promise<void> {
    const { term } = this.#options.writer;
    if (term) await this.#take(term);
    else this.#following = this.#follow();
  }

  /**
   * Begins to fill the view, or goes on where the last writer stopped; does nothing the second time. Called when the
   * first handlers are set: a change that is applied or relayed without them wakes no key. A gateway that follows does
   * so when it leads.
   */
  async begin(): Promise<void> {
    this.#begun = true;
    await this.#updater?.begin();
  }

  /**
   * This gateway leads from now on: takes the view, and continues it if `begin` was called. Retries until it succeeds
   * or the term ends. Never rejects.
   */
  async lead(term: Term): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    while (!term.isOver() && !this.#stop.signal.aborted) {
      try {
        await this.#take(term);
        if (this.#begun) await this.#updater?.begin();
        this.#updater?.fillIndexes();
        return;
      } catch (error) {
        logger.warn({ resource: this.name, error: messageOf(error) }, 'a view could not be taken, trying again');
        await this.#endTerm();
        await clock.sleep(TAKE_AGAIN_MS, term.signal);
      }
    }
  }

  /** This gateway leads no longer. Resolves when it writes nothing to the view any more. */
  async follow(): Promise<void> {
    await this.#endTerm();
    this.#wakeWaiters();
    if (!this.#synced && !this.#stop.signal.aborted) this.#following = this.#follow();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#wakeWaiters();
    await Promise.all([this.#endTerm(), this.#following]);
  }

  /** Takes the view once in a term: an informer may be started in the moment in which the gateway begins to lead. */
  #take(term: Term): Promise<void> {
    if (this.#taken?.term !== term) this.#taken = { term, done: this.#takeView(term) };
    return this.#taken.done;
  }

  async #takeView(term: Term): Promise<void> {
    // Otherwise writes that are still under way there would carry the new ID.
    await this.#ended;
    const updater = new ViewUpdater({
      informer: this.#options,
      listWatch: this.#listWatch,
      handlers: this.#handlers,
      needs: { indexes: this.#indexes, ageLimits: this.#ageLimits },
      term,
      currentVersion: () => this.currentVersion(),
      on: {
        synced: (isSynced) => this.#markSynced(isSynced),
        listed: () => this.#wakeWaiters(),
        outdated: () => {
          this.#outdated = true;
          this.#options.listeners.onViewChanged(this.#handlers.users);
        },
        refusal: () => this.#options.listeners.onViewChanged(this.#handlers.users),
      },
    });
    this.#updater = updater;
    await updater.take();
  }

  async #endTerm(): Promise<void> {
    const updater = this.#updater;
    this.#updater = undefined;
    this.#taken = undefined;
    if (updater) this.#ended = Promise.all([this.#ended, updater.stop()]);
    await this.#ended;
  }

  /** Until the view is complete, or this gateway leads. Never rejects. */
  async #follow(): Promise<void> {
    const { clock } = this.#options.runtime;
    while (!this.#stop.signal.aborted && !this.#updater && !this.#synced) {
      const state = await this.view.record.state().catch(() => undefined);
      // It leads by now, and knows better.
      if (this.#updater) return;
      if (state?.version !== undefined && !state.rewound) this.#markSynced(true);
      else await clock.sleep(FOLLOWER_LOOK_MS, this.#stop.signal);
    }
  }

  async waitForSync(signal: AbortSignal): Promise<void> {
    await this.#until(() => this.#synced, signal);
  }

  /**
   * Takes the view again and reads the server again as a diff; resolves when that is applied, and the view shows every
   * write from before this call.
   * @throws when this gateway does not lead, or leads no longer before the list is applied.
   */
  async relist(signal: AbortSignal): Promise<void> {
    const updater = this.#updater;
    if (!updater) throw new Error(`another gateway fills the view of ${this.name}`);
    const list = await updater.relist();
    try {
      await this.#until(() => list.isApplied() || this.#updater !== updater, signal);
      if (!list.isApplied()) throw new Error(`another gateway fills the view of ${this.name}`);
    } finally {
      list.end();
    }
  }

  /**
   * Resolves when the view shows everything that the server has now: by a bookmark where one comes soon, else by a
   * list. At once while the server does not serve the resource.
   */
  async catchUp(signal: AbortSignal): Promise<void> {
    const current = await this.currentVersion({ signal });
    if (current === undefined) return;
    for (let waitedMs = 0; waitedMs < CATCH_UP_MS;) {
      signal.throwIfAborted();
      this.#stop.signal.throwIfAborted();
      const { version } = await this.view.record.state();
      if (version !== undefined && compareResourceVersions(version, current) >= 0) return;
      this.requestProgress();
      await this.#options.runtime.clock.sleep(CATCH_UP_LOOK_MS, signal);
      // After a change of the leader no bookmark comes before the view is watched.
      if (!this.#updater?.waitsForUsers) waitedMs += CATCH_UP_LOOK_MS;
    }
    await this.relist(signal);
  }

  /**
   * Other namespaces than before are left out for want of memory: the indexes of their tenants go or come back. Does
   * nothing unless this gateway leads.
   */
  shareMemory(): void {
    this.#updater?.fillIndexes();
  }

  /**
   * Brings back objects that were left out for lack of memory, if there is memory now. Does nothing unless this gateway
   * leads.
   */
  async takeBack(): Promise<void> {
    await this.#updater?.takeBack();
  }

  /** Sends what may be left in the outbox. */
  drainOutbox(): void {
    this.#updater?.drainOutbox();
  }

  /** Asks for an event that shows how current the view is; a follower asks the leader. */
  requestProgress(): void {
    if (this.#updater) this.#updater.requestProgress();
    else this.#options.writer.requestProgress(this.view);
  }

  /**
   * The server's version of the resource now; undefined when the server has not served the resource for a while, as the
   * view says, and answers three times that it does not serve it now: one 404 alone may be that of a proxy, or of one
   * server of several that does not know a new definition yet.
   * @param asker its signal gives up; the request counts against those of its controller, or is the gateway's own.
   */
  async currentVersion(asker?: {
    readonly controller?: string;
    readonly signal: AbortSignal;
  }): Promise<ResourceVersion | undefined> {
    const timeout = AbortSignal.timeout(10_000);
    const signal = asker ? AbortSignal.any([timeout, asker.signal]) : timeout;
    for (let missing = 1; ; missing += 1) {
      try {
        return await this.#listWatch.currentVersion(signal, asker?.controller);
      } catch (error) {
        const isMissing = error instanceof ApiError && error.code === 404;
        if (!isMissing || (await this.view.record.state()).isServed) throw error;
        if (missing === MISSING_ANSWERS) return undefined;
      }
      await this.#options.runtime.clock.sleep(MISSING_PAUSE_MS, signal);
    }
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

/** The tenant of all users of a view; undefined: they have several or none. */
function onlyTenant(users: Iterable<UserIndexes>): string | undefined {
  const [tenant, ...others] = new Set([...users].map((each) => each.tenant));
  return others.length === 0 ? tenant : undefined;
}
