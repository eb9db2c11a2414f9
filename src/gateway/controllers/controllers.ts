import { formatKind, type Logger, UserError } from '../../core/index.ts';
import { type CacheClaims, TokenError } from '../../contract/index.ts';
import type { KeyWakeup } from '../cache/change.ts';
import type { Informers } from '../cache/informers.ts';
import type { ReaderUsers } from '../cache/reader-users.ts';
import type { Controller } from './controller.ts';
import type { ControllerSpec } from './controller-factory.ts';

export interface ControllersOptions {
  readonly create: (spec: ControllerSpec) => Promise<Controller>;
  readonly informers: Informers;
  readonly readerUsers: ReaderUsers | undefined;
  /** A controller runs, or has stopped: for whoever shows them. */
  readonly onRunning: (controller: Controller) => void;
  readonly onStopped: (controller: Controller) => void;
  /** Looks at what has been added (recovery), and lets it run. */
  readonly check: () => Promise<void>;
  /** Removes what Redis holds for a controller. */
  readonly forget: (id: string) => Promise<void>;
  /** How long runs in flight may take to end when their controller stops. */
  readonly drainMs: number;
  readonly logger: Logger;
}

/**
 * The controllers of this gateway, which come, change and go while it runs, each without a word to the others. What one does is done
 * in turn: whoever starts, changes or stops a controller must wait for that before the next.
 */
export class Controllers {
  readonly #options: ControllersOptions;
  /** Those that may be woken: the ones that are being started included. */
  readonly #woken = new Map<string, Controller>();
  readonly #running = new Map<string, Controller>();
  readonly #taken = new Set<string>();

  constructor(options: ControllersOptions) {
    this.#options = options;
  }

  get(id: string): Controller | undefined {
    return this.#running.get(id);
  }

  /** Those that run keys. */
  running(): Controller[] {
    return [...this.#running.values()];
  }

  /** Those that have a queue, by id: the ones that are being started included. */
  woken(): ReadonlyMap<string, Controller> {
    return this.#woken;
  }

  /** Puts wakeups into the queues. @returns the controllers among them that this gateway does not run. */
  async enqueue(wakeups: readonly KeyWakeup[]): Promise<readonly string[]> {
    const byController = Map.groupBy(wakeups, ({ controller }) => controller);
    await Promise.all([...byController].map(async ([id, keys]) => this.#woken.get(id)?.wake(keys)));
    return [...byController.keys()].filter((id) => !this.#woken.has(id));
  }

  /**
   * What a token allows now. That of a ReconcileFunction is worth no more than its controller may read at this moment, and nothing once it
   * has lost its rights; any other (`levelhook token`, a configured function) what stands in it.
   * @throws TokenError
   */
  current(claims: CacheClaims): CacheClaims {
    if (!claims.controller.includes('.')) return claims;
    const controller = this.#woken.get(claims.controller);
    if (!controller) throw new TokenError('the controller of the token does not run');
    return { ...claims, scope: controller.scope };
  }

  /**
   * Starts a controller, or changes one that runs: then the old one's runs in flight end first, and nothing is lost in between.
   * Resolves when its keys are being run.
   * @param signal gives up; what ran before goes on.
   * @throws UserError for what cannot be run. What ran before under this id goes on.
   */
  async start(spec: ControllerSpec, signal: AbortSignal): Promise<void> {
    const { id } = spec;
    const { create, onRunning, check, logger } = this.#options;
    const before = this.#running.get(id);
    // Before the first wait: two may want the same name at the same time.
    if (!before && this.#taken.has(id)) throw new UserError(`two functions call their controller "${id}": rename one`);
    this.#taken.add(id);
    let controller: Controller | undefined;
    try {
      controller = await create(spec);
      this.#woken.set(id, controller);
      await controller.addHandlers();
      await controller.waitForSync(signal);
      if (before) await this.#halt(before);
      await controller.start();
    } catch (error) {
      await controller?.stop(0);
      if (before && this.#running.has(id)) {
        this.#woken.set(id, before);
        await before.addHandlers();
      } else {
        await this.#leave(id, controller ?? before);
      }
      throw error;
    }
    if (before) await this.#shed(before, controller);
    this.#running.set(id, controller);
    onRunning(controller);
    const { url, description } = spec;
    logger.info(
      { controller: id, url, for: formatKind(description.for) },
      before ? 'controller changed' : 'controller started',
    );
    await check();
  }

  /** Stops a controller. What Redis holds for it stays: it may come back. Does nothing when there is none. */
  async stop(id: string): Promise<void> {
    const controller = this.#running.get(id);
    if (!controller) return;
    await this.#halt(controller);
    await this.#leave(id, controller);
    this.#options.logger.info({ controller: id }, 'controller stopped');
  }

  /** Stops a controller that is no more, if it runs, and removes all that is kept for it. */
  async remove(id: string): Promise<void> {
    await this.stop(id);
    // A check that began before may still be writing what it knows of the queue.
    await this.#options.check();
    await this.#options.forget(id);
    this.#options.logger.info({ controller: id }, 'controller removed, with all that was kept for it');
  }

  /** For the end of the gateway: nothing is given up, the next one goes on. */
  async stopAll(): Promise<void> {
    await Promise.all(this.running().map((each) => each.stop(this.#options.drainMs)));
  }

  async #halt(controller: Controller): Promise<void> {
    await controller.stop(this.#options.drainMs);
    this.#running.delete(controller.name);
    this.#options.onStopped(controller);
  }

  /** Nobody hears, reads or is known under this id any more. */
  async #leave(id: string, controller: Controller | undefined): Promise<void> {
    this.#woken.delete(id);
    for (const informer of controller?.informers() ?? []) informer.removeUser(id);
    await this.#options.readerUsers?.remove(id);
    await this.#options.informers.release(id);
    this.#taken.delete(id);
  }

  /** The informers that only the controller before needed. */
  async #shed(before: Controller, now: Controller): Promise<void> {
    const needed = new Set(now.informers());
    const kinds = new Set(now.informers().map(({ view }) => formatKind(view.resource)));
    for (const informer of before.informers()) if (!needed.has(informer)) informer.removeUser(before.name);
    await this.#options.informers.release(before.name, kinds);
  }
}
