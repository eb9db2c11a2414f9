import { messageOf, type Runtime } from '../../core/index.ts';
import type { RunningController } from '../controller/running/controller.ts';
import type { Informer } from '../informer/cache/informer.ts';
import type { Informers } from '../informer/cache/informers.ts';
import type { GarbageCollector } from './garbage-collection.ts';
import type { Part, Parts } from './parts.ts';
import type { UnrecordedEnd, UnrecordedRuns } from './unrecorded-runs.ts';

export interface RepairsOptions {
  readonly runtime: Runtime;
  /** The state of each part. */
  readonly states: Parts;
  /** The views and queues that there are. */
  readonly parts: {
    readonly informers: Pick<Informers, 'all'>;
    readonly controllers: () => readonly RunningController[];
  };
  readonly unrecorded: UnrecordedRuns;
  readonly garbage: Pick<GarbageCollector, 'forget'>;
  /** Whether the connection to Redis has ever been lost. */
  readonly hasLostConnection: () => boolean;
  /** Called when a controller may wait for another reason than before, or for none. */
  readonly onWaitChanged: (controller: RunningController) => void;
}

/** How soon a repair that waits for other gateways asks about them again. */
const ANSWER_MS = 500;

/**
 * Repairs the parts of Redis that may have lost data, each by itself: lists a view again, and begins a queue anew once
 * no unrecorded run of it can be in flight. Only the gateway that leads repairs.
 */
export class Repairs {
  readonly #options: RepairsOptions;
  readonly #runtime: Runtime;
  readonly #parts: Parts;
  readonly #unrecorded: UnrecordedRuns;

  constructor(options: RepairsOptions) {
    this.#options = options;
    this.#runtime = options.runtime;
    this.#parts = options.states;
    this.#unrecorded = options.unrecorded;
  }

  /** @returns the repairs that begin with this call. */
  begin(lost: readonly Part[], runId: string, signal: AbortSignal): Promise<void>[] {
    const { logger, metrics } = this.#runtime;
    const begun = lost.filter((part) => !this.#parts.of(part).repair);
    const isListedNow = (controller: RunningController): boolean =>
      controller.sources.needed.every((informer) => begun.includes(informer));
    const repairs = begun.map((part) => {
      const repair =
        'view' in part
          ? this.#repairView(part, runId, signal)
          : this.#repairQueue(part, { runId, isListedNow: isListedNow(part) }, signal);
      const ended = this.#parts.repair(part, this.#outcomeOf(part, repair, signal));
      this.#reportWait(part);
      return ended.then(() => this.#reportWait(part));
    });
    if (begun.length > 0) {
      logger.info(
        { parts: begun.map(({ name }) => name) },
        'filling views and queues that are new or may have lost data',
      );
      metrics.count('levelhook_recoveries_total', { reason: begun.some((part) => 'view' in part) ? 'view' : 'queue' });
    }
    return repairs;
  }

  /** Whether the part has not been removed. */
  isCurrent(part: Part): boolean {
    const { informers, controllers } = this.#options.parts;
    return 'view' in part ? informers.all().includes(part) : controllers().includes(part);
  }

  /** Never rejects. */
  async #outcomeOf(part: Part, repair: Promise<void>, signal: AbortSignal): Promise<'unseen' | 'failed'> {
    try {
      await repair;
    } catch (error) {
      // A part that was removed needs no repair. The next check decides about any other part.
      if (!this.isCurrent(part)) return 'unseen';
      const fields = { part: part.name, error: messageOf(error) };
      if (!signal.aborted) this.#runtime.logger.warn(fields, 'a part of Redis could not be repaired, trying again');
      return 'failed';
    }
    return 'unseen';
  }

  #reportWait(part: Part): void {
    // A queue is its controller's alone. All queues may have lost data at once.
    if (!('view' in part)) return this.#options.onWaitChanged(part);
    for (const controller of this.#options.parts.controllers()) {
      if (controller.sources.needed.includes(part)) this.#options.onWaitChanged(controller);
    }
  }

  async #repairView(informer: Informer, runId: string, signal: AbortSignal): Promise<void> {
    const { checkpoint } = this.#runtime;
    await checkpoint('recovery:before-relist');
    if (!(await this.#justFilled(informer))) await informer.relist(signal);
    await checkpoint('recovery:before-renew');
    await informer.view.record.renew(runId);
  }

  /**
   * Waits until every unrecorded run has ended and its writes are in the cache.
   * @param isListedNow whether the repair of all views that the controller reads begins now.
   */
  async #repairQueue(
    controller: RunningController,
    { runId, isListedNow }: { runId: string; isListedNow: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, logger } = this.#runtime;
    // Of an earlier owner of the name, whose runs are waited for: another gateway led when the controller was started.
    const { isForeign } = await controller.queue.record.state();
    if (isForeign && !controller.queue.gate.ended && !(await this.#options.garbage.forget(controller.name))) {
      throw new Error('its ReconcileFunction is declared anew');
    }
    let unknown = await this.#unrecordedEnd(controller);
    const waits = unknown.endMs > clock.now();
    while (unknown.endMs > clock.now()) {
      // The end moves forward when the gateways that may have started these runs answer.
      await clock.sleep(Math.min(ANSWER_MS, unknown.endMs - clock.now()), signal);
      signal.throwIfAborted();
      unknown = await this.#unrecordedEnd(controller);
    }
    // Without a wait, all runs that may have ended without a record have ended before now.
    const mayHaveEnded = controller.queue.ownRuns.highest > 0 || this.#unrecorded.hasOthers;
    if (waits || (mayHaveEnded && !isListedNow)) {
      signal.throwIfAborted();
      if (!this.isCurrent(controller)) return;
      for (const informer of controller.sources.needed) await this.#parts.of(informer).repair;
      await Promise.all(controller.sources.needed.map((informer) => informer.catchUp(signal)));
      // The controller was removed during the wait, so Redis must hold nothing of it.
      if (!this.isCurrent(controller)) return;
    }
    if (unknown.callbackEndMs > clock.now()) {
      await controller.queue.pause('recovery', unknown.callbackEndMs);
      const until = new Date(unknown.callbackEndMs).toISOString();
      logger.warn(
        { controller: controller.name, until },
        'the keys of a controller wait, because unrecorded runs may be in flight',
      );
    }
    if (controller.pausedBySpec) await controller.queue.pause('controller');
    await controller.queue.record.renew(runId);
    this.#parts.of(controller).unrecordedEnd = undefined;
  }

  /**
   * When the unrecorded runs end. The time never becomes later, so after a failed repair the next attempt waits no
   * longer.
   */
  async #unrecordedEnd(controller: RunningController): Promise<UnrecordedEnd> {
    const now = await this.#unrecorded.endOf(controller);
    const part = this.#parts.of(controller);
    const before = part.unrecordedEnd ?? now;
    const end = {
      endMs: Math.min(before.endMs, now.endMs),
      callbackEndMs: Math.min(before.callbackEndMs, now.callbackEndMs),
    };
    part.unrecordedEnd = end;
    return end;
  }

  /**
   * Whether this gateway has filled the view from nothing on this Redis process, and the view is still there. Such a
   * view is current and need not be listed again.
   */
  async #justFilled(informer: Informer): Promise<boolean> {
    if (!informer.filledFromNothing || this.#parts.of(informer).wasSound || this.#options.hasLostConnection())
      return false;
    const { version, incarnation } = await informer.view.record.state();
    return version !== undefined && incarnation === undefined;
  }
}
