import {
  type ControllerOrigin,
  formatKind,
  messageOf,
  originOf,
  type Runtime,
  UserError,
} from '../../../core/index.ts';
import { commonScope } from '../access/cache-access.ts';
import { type TokenClaims, TokenError } from '../access/token.ts';
import type { CacheScope } from '../../../contract/index.ts';
import type { KeyWakeup } from '../../informer/cache/change.ts';
import type { Informer } from '../../informer/cache/informer.ts';
import { type Informers, servedAs } from '../../informer/cache/informers.ts';
import type { Reader, ReaderUsers } from '../access/reader-users.ts';
import type { Enqueued } from '../../informer/cache/relay.ts';
import { RUN_MARGIN_MS } from '../workqueue/queue-options.ts';
import type { RunningController } from './controller.ts';
import type { ControllerSpec } from './controller-spec.ts';
import { type DeclarationLog, declarationLog } from './declaration-log.ts';

export interface ControllersOptions {
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
  readonly create: (spec: ControllerSpec) => Promise<RunningController>;
  readonly informers: Pick<Informers, 'release'>;
  readonly readerUsers: Pick<ReaderUsers, 'allow' | 'remove'> | undefined;
  readonly recovery: ControllerRecovery;
  readonly events: ControllerEvents;
  /** How long runs in flight may take to end when their controller stops. */
  readonly drainMs: number;
  /** Aborted when the gateway ends. From then on the views of a controller that stops are kept for the next gateway. */
  readonly ending: AbortSignal;
}

/** The recovery after a loss of data, which lets a controller run. */
export interface ControllerRecovery {
  /** Checks a controller that has been added, and lets it run. */
  readonly check: (signal: AbortSignal) => Promise<void>;
  /** The reason why a controller's keys wait after a loss of data; undefined when they do not. */
  readonly waitsFor: (controller: RunningController) => string | undefined;
  /** Whether only another gateway, which leads, can end that wait. */
  readonly awaitsLeader: (controller: RunningController) => boolean;
}

/** Callbacks for controllers that come and go. */
export interface ControllerEvents {
  readonly onRunning: (controller: RunningController) => void;
  /** A controller is about to be woken: removes the data that an earlier one of its name has left in Redis. */
  readonly forgetEarlier: (controller: RunningController) => Promise<void>;
  /**
   * The controller was removed: removes its data in Redis.
   * @param endMs when its last runs are over, if this gateway has run it.
   * @returns whether they are gone: only the gateway that leads removes data, and a new owner keeps its own.
   */
  readonly forget: (id: string, endMs: number | undefined) => Promise<boolean>;
}

export interface StartOptions {
  readonly signal: AbortSignal;
  /** Called when the controller has its informers and waits for them to be complete. */
  readonly onWaiting?: (controller: RunningController) => void;
}

/**
 * Controllers can be added, changed and removed while the gateway runs, independently of each other. Calls for the same
 * id must not overlap: a caller waits for a start, change or stop before the next.
 */
export class Controllers {
  readonly log: DeclarationLog;
  readonly #options: ControllersOptions;
  /** The controllers that may be woken, including controllers that are starting. */
  readonly #known = new Map<string, RunningController>();
  readonly #running = new Map<string, RunningController>();
  /** Ids of the controllers that run, are starting, or have not stopped completely. */
  readonly #taken = new Map<string, ControllerOrigin>();
  /** Of controllers that have stopped, when the last of their runs is over at the latest. */
  readonly #lastRunsEndMs = new Map<string, number>();
  /** Ids of the controllers that are stopping because their functions have lost their rights. */
  readonly #withdrawn = new Set<string>();

  constructor(options: ControllersOptions) {
    this.#options = options;
    this.log = declarationLog(options.runtime);
  }

  get(id: string): RunningController | undefined {
    return this.#running.get(id);
  }

  /**
   * The controller that answers reviews: the newest whose cache is complete. While a controller is replaced, the old
   * one answers until the cache of the new one is complete. Then the new one answers, even though runs of the old one
   * are still in flight.
   */
  reviewer(id: string): RunningController | undefined {
    const newest = this.#known.get(id);
    return newest?.sources.isComplete ? newest : this.#running.get(id);
  }

  /**
   * The controller that accepts callbacks. The runs are those of the controller that runs; while none does, the one
   * that is being started refuses the callbacks for now.
   */
  callbackTaker(id: string): RunningController | undefined {
    return this.#running.get(id) ?? this.#known.get(id);
  }

  /** Why a controller's keys wait after a loss of data in Redis; undefined when they do not wait. */
  waitsFor(controller: RunningController): string | undefined {
    return this.#options.recovery.waitsFor(controller);
  }

  /**
   * Names the first controller of a configured function that is not ready, and the reason; undefined when all are
   * ready. A controller that waits for the leader counts as ready.
   */
  notReady(): string | undefined {
    for (const controller of this.running()) {
      if (controller.origin === 'declared' || this.#options.recovery.awaitsLeader(controller)) continue;
      const reason = this.waitsFor(controller) ?? controller.failures.missesEvents;
      if (reason !== undefined) return `${controller.name}: ${reason}`;
    }
    return undefined;
  }

  /**
   * Whether the views that this controller needs count for readiness. Views that only ReconcileFunctions need do not
   * count, because any tenant may declare a kind whose list never ends; the condition Synced shows them.
   */
  countsForReady(id: string): boolean {
    return this.#taken.get(id) === 'configured';
  }

  /** The controllers that run keys. */
  running(): RunningController[] {
    return [...this.#running.values()];
  }

  /** The controllers that have a queue, by id, including controllers that are starting. */
  known(): ReadonlyMap<string, RunningController> {
    return this.#known;
  }

  /**
   * Adds wakeups to the queues of their controllers. A queue that fails does not affect the others. While a controller
   * is replaced, the old one gets the keys that only it reconciles.
   */
  async enqueue(wakeups: readonly KeyWakeup[]): Promise<Enqueued> {
    const byController = Map.groupBy(wakeups, ({ controller }) => controller);
    const failed = new Map<string, unknown>();
    await Promise.all(
      [...byController].map(async ([id, keys]) => {
        await this.#wake(id, keys).catch((error: unknown) => failed.set(id, error));
      }),
    );
    return { absent: [...byController.keys()].filter((id) => !this.#known.has(id)), failed };
  }

  async #wake(id: string, wakeups: readonly KeyWakeup[]): Promise<void> {
    const [newest, running] = [this.#known.get(id), this.#running.get(id)];
    if (!newest) return;
    const woken = [newest.wake(wakeups)];
    if (running && running !== newest) {
      woken.push(running.wake(wakeups.filter(({ key }) => !newest.hasInScope(key))));
    }
    // The keys of one are queued also where the other takes none.
    const failed = (await Promise.allSettled(woken)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
  }

  /**
   * The controller that a token belongs to, as it was declared when the token was made. While a controller is replaced,
   * that may be the old one, whose runs end.
   * @returns undefined for a token of a person (`levelhook token`), and of a configured function that this gateway does
   *   not have: other gateways may.
   * @throws TokenError when the controller does not run any more, or is declared anew: with another object,
   *   ServiceAccount or endpoint.
   */
  holder({ controller: id, declaration }: TokenClaims): RunningController | undefined {
    const isDeclared = originOf(id) === 'declared';
    if (declaration === undefined) {
      if (isDeclared) throw new TokenError('the token names no declaration');
      return undefined;
    }
    const found = [this.#known.get(id), this.#running.get(id)].filter((each) => each !== undefined);
    if (found.length === 0 && !isDeclared) return undefined;
    const holder = found.find((each) => each.declaration === declaration);
    if (!holder) throw new TokenError('the controller of the token does not run, or is declared anew');
    return holder;
  }

  /**
   * The scope that a token allows to read of the cache now. For a ReconcileFunction it is limited to the controller's
   * present rights, and allows nothing once the function has lost its rights; while its declaration is being replaced,
   * it is limited to the scope that both declarations allow. Any other token has the scope in its claims.
   * @throws TokenError
   */
  scopeOf(claims: TokenClaims): CacheScope {
    const holder = this.holder(claims);
    if (holder?.origin !== 'declared') return claims.scope ?? {};
    const controller = this.#known.get(claims.controller);
    if (!controller || this.#withdrawn.has(claims.controller)) {
      throw new TokenError('the controller of the token does not run, or its function has lost its rights');
    }
    return holder.declaration === controller.declaration
      ? controller.cacheAccess.scope
      : commonScope(holder.cacheAccess.scope, controller.cacheAccess.scope);
  }

  /**
   * Starts a controller that does not run yet. Resolves when its keys are being run.
   * @param options.signal gives up.
   * @throws UserError for a controller that cannot be run, and for an id that another one has.
   */
  async start(spec: ControllerSpec, options: StartOptions): Promise<void> {
    const { id } = spec;
    // Checked before the first await, because two functions may ask for the same name at the same time.
    if (this.#taken.has(id)) throw new UserError(`two functions call their controller "${id}": rename one`);
    await this.#start(spec, undefined, options);
  }

  /**
   * Starts a controller, or replaces the controller that runs under this id: then the old controller's runs in flight
   * end first. Events wake the keys of both until then, so none is lost, also when the old one goes on. Resolves when
   * its keys are being run.
   * @param options.signal cancels the start; the old controller goes on.
   * @throws UserError for a description that cannot run. The old controller goes on.
   */
  async apply(spec: ControllerSpec, options: StartOptions): Promise<void> {
    await this.#start(spec, this.#running.get(spec.id), options);
  }

  async #start(
    spec: ControllerSpec,
    before: RunningController | undefined,
    { signal, onWaiting = () => {} }: StartOptions,
  ): Promise<void> {
    const { id, origin, url, description } = spec;
    const { create, ending, events, recovery } = this.#options;
    this.#taken.set(id, origin);
    let controller: RunningController | undefined;
    try {
      controller = await create(spec);
      controller.pausedBySpec = spec.paused === true;
      this.#known.set(id, controller);
      // Before the first event adds a key to the queue. If Redis is away, recovery does it when the queue is read.
      if (!before && origin === 'declared') await events.forgetEarlier(controller).catch(() => {});
      await controller.addHandlers(before);
      const isSameReader = before?.declaration === controller.declaration;
      // Another declaration has another user. It is created early, since a gateway that leads removes unknown users and
      // another gateway may be sending triggers for this declaration.
      if (!isSameReader) await this.#allowReader(controller);
      onWaiting(controller);
      await controller.sources.waitForSync(signal);
      signal.throwIfAborted();
      if (before) {
        await this.#stopNow(before);
        // Not sooner: runs of the old controller read Redis until they end, perhaps as the same user.
        if (isSameReader) await this.#allowReader(controller);
        else await this.#removeReader(before);
      }
      if (spec.paused) await controller.queue.pause('controller');
      await controller.start();
    } catch (error) {
      await this.#rollBack(id, controller, before);
      throw error;
    }
    this.#running.set(id, controller);
    events.onRunning(controller);
    if (before) {
      // Without it events are mapped twice, which is no reason to stop the controller.
      await controller.addHandlers().catch((error: unknown) => {
        this.log.write('warn', id, { error: messageOf(error) }, 'handlers of a replaced controller stay');
      });
      await this.#releaseUnused(before.sources.informers, controller);
    }
    const what = before ? 'controller changed' : 'controller started';
    this.log.write('info', id, { url, for: formatKind(description.for) }, what);
    await recovery.check(ending);
  }

  /**
   * Stops a controller. Its data in Redis stays, because it may come back. Does nothing when there is none.
   * @param options.withdrawn its function has lost its rights, so it reads no more of the cache while its runs end.
   */
  async stop(id: string, { withdrawn = false }: { readonly withdrawn?: boolean } = {}): Promise<void> {
    const controller = this.#running.get(id);
    if (!controller) return;
    if (withdrawn) {
      this.#withdrawn.add(id);
      // Not awaited, because Redis may be slow, and the controller must start no more runs.
      void this.#removeReader(controller);
    }
    // Runs in flight may end, but a function that has lost its rights gets no reviews until then.
    controller.reviews?.sender.refuse();
    try {
      await this.#stopNow(controller);
    } finally {
      // The user is removed even if the stop has failed, because the controller may have lost its right to read.
      await this.#removeUser(id, [controller]);
    }
    this.log.write('info', id, {}, 'controller stopped');
  }

  /**
   * Stops a controller that no longer exists, if it runs, and removes its data. If it fails, it may be called again.
   */
  async remove(id: string): Promise<void> {
    await this.stop(id);
    // An earlier call may have failed between its stop and this step.
    await this.#release(id);
    // A check that began earlier may still be writing its findings about the queue.
    await this.#options.recovery.check(this.#options.ending);
    const isGone = await this.#options.events.forget(id, this.#lastRunsEndMs.get(id));
    this.#lastRunsEndMs.delete(id);
    const how = isGone
      ? 'controller removed, with its data'
      : 'controller removed, another gateway or owner has its data';
    this.log.write('info', id, {}, how);
  }

  /** Stops all controllers at the end of the gateway. Their data stays for the next gateway. */
  async stopAll(): Promise<void> {
    await Promise.all(this.running().map((each) => each.stop(this.#options.drainMs)));
  }

  async #stopNow(controller: RunningController): Promise<void> {
    try {
      await controller.stop(this.#options.drainMs);
    } finally {
      const { clock } = this.#options.runtime;
      const longestMs = Math.max(controller.timeoutMs, controller.callbackMs) + RUN_MARGIN_MS;
      this.#lastRunsEndMs.set(controller.name, clock.now() + longestMs);
      this.#running.delete(controller.name);
    }
  }

  /** Undoes a start that failed. An error in here is logged, so that the caller reports why the start failed. */
  async #rollBack(
    id: string,
    controller: RunningController | undefined,
    before: RunningController | undefined,
  ): Promise<void> {
    try {
      if (before && this.#running.has(id)) {
        this.#known.set(id, before);
        await before.addHandlers();
        await this.#releaseUnused(controller?.sources.informers ?? [], before);
        if (controller && controller.declaration !== before.declaration) await this.#removeReader(controller);
      } else {
        await this.#removeUser(id, [controller, before]);
      }
      await controller?.stop(0);
    } catch (error) {
      this.log.write('warn', id, { error: messageOf(error) }, 'a failed start could not be rolled back');
    }
  }

  /** Removes the handlers, the Redis users and the informers of a controller. */
  async #removeUser(id: string, controllers: readonly (RunningController | undefined)[]): Promise<void> {
    this.#known.delete(id);
    try {
      for (const controller of controllers) {
        for (const informer of controller?.sources.informers ?? []) informer.removeUser(id);
        if (controller) await this.#removeReader(controller);
      }
      await this.#release(id);
    } finally {
      this.#withdrawn.delete(id);
      this.#taken.delete(id);
    }
  }

  /** Releases the informers that only another declaration of this controller needed. */
  async #releaseUnused(others: readonly Informer[], now: RunningController): Promise<void> {
    const needed = new Set(now.sources.informers);
    const kinds = new Set(now.sources.informers.map(({ view }) => servedAs(view.resource)));
    for (const informer of others) if (!needed.has(informer)) informer.removeUser(now.name);
    await this.#release(now.name, kinds);
  }

  /** Keeps the views at the end of the gateway: the next gateway compares them with the apiserver's state. */
  async #release(id: string, kept?: ReadonlySet<string>): Promise<void> {
    if (!this.#options.ending.aborted) await this.#options.informers.release(id, kept);
  }

  /**
   * Lets the function read in Redis the views of this controller, and no others that an earlier declaration allowed.
   */
  async #allowReader(controller: RunningController): Promise<void> {
    const { inRedis } = controller.cacheAccess;
    if (inRedis.length === 0) return this.#removeReader(controller);
    await this.#options.readerUsers?.allow(readerOf(controller), inRedis, controller.keys);
  }

  /** Never rejects. */
  async #removeReader(controller: RunningController): Promise<void> {
    await this.#options.readerUsers?.remove(readerOf(controller));
  }
}

const readerOf = ({ name, declaration }: RunningController): Reader => ({ controller: name, declaration });
