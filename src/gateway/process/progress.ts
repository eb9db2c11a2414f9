import { messageOf, type Runtime } from '../../core/index.ts';
import type { Informer } from '../informer/cache/informer.ts';
import type { RunningController } from '../controller/running/controller.ts';
import {
  type ControllerNotes,
  controllerState,
  type ControllerStateWord,
  isWell,
  type QueueFacts,
} from '../controller/running/controller-state.ts';
import type { HealthWarning } from './health.ts';

export interface ProgressOptions {
  readonly informers: () => readonly Pick<Informer, 'name' | 'unappliedMs' | 'view'>[];
  /**
   * Those of them whose waiting events make the gateway unready. Views that only declared functions read do not: their
   * tenants could write so much that everyone lost the gateway.
   */
  readonly neededViews: () => readonly Pick<Informer, 'name' | 'unappliedMs'>[];
  readonly controllers: () => readonly RunningController[];
  readonly notes: (controller: RunningController) => ControllerNotes;
  /** Controllers whose stalled keys make the gateway unready. */
  readonly isNeededForReady: (controller: string) => boolean;
  /** Called when the keys of this controller begin or cease to be stalled, or to fail. */
  readonly onChanged: (controller: string) => void;
  readonly runtime: Pick<Runtime, 'clock' | 'logger'>;
}

/** An event, wakeup or key is stalled when it has waited longer than this. */
const STALLED_MS = 30_000;
const LOOK_MS = 5000;
const WELL_AGAIN_MS = 30_000;

/**
 * Measures how long changes wait: for each view, the age of the oldest event that is not in the cache yet and of the
 * oldest wakeup that is in no queue yet; for each controller, the age of the oldest due key that has a free slot. All
 * controllers share the views, so no single controller or object may delay them. The gateway reports a stall at
 * `/readyz` and in metrics.
 */
export class Progress {
  readonly #options: ProgressOptions;
  /** The age of each view's oldest wakeup at the last look. */
  readonly #outboxMs = new Map<string, number>();
  /** The age of each controller's oldest key that is due and could run. */
  readonly #dueMs = new Map<string, number>();
  /** The controllers that were not well, with the state and the time of the last look that found them so. */
  readonly #ill = new Map<string, { readonly word: ControllerStateWord; readonly atMs: number }>();

  constructor(options: ProgressOptions) {
    this.#options = options;
  }

  /** The age of each view's oldest wakeup that is in no queue yet, at the last look. */
  get outboxMs(): ReadonlyMap<string, number> {
    return this.#outboxMs;
  }

  /** The first stall, as a text; undefined without a stall. */
  notReady(): string | undefined {
    for (const { name, unappliedMs } of this.#options.neededViews()) {
      if (unappliedMs > STALLED_MS) return `${name}: an event waits for ${seconds(unappliedMs)} s to be in the cache`;
      const outboxMs = this.#outboxMs.get(name) ?? 0;
      if (outboxMs > STALLED_MS) return `${name}: a wakeup waits for ${seconds(outboxMs)} s to be in a queue`;
    }
    for (const name of this.#dueMs.keys()) {
      const reason = this.#options.isNeededForReady(name) ? this.stalled(name) : undefined;
      if (reason !== undefined) return `${name}: ${reason}`;
    }
    return undefined;
  }

  /** The stall of a controller's keys, as a text with the age at the last look; undefined without a stall. */
  stalled(controller: string): string | undefined {
    const dueMs = this.#dueMs.get(controller) ?? 0;
    return dueMs > STALLED_MS ? `a key is due for ${seconds(dueMs)} s and does not run` : undefined;
  }

  /** Whether the controller was not well at a look, and has not been well for long enough since. */
  isIll(controller: string): boolean {
    return this.#ill.has(controller);
  }

  /** The state of a controller, from its keys at the last look, without a request to Redis. */
  stateOf(controller: RunningController): ControllerStateWord {
    return controllerState({ ...this.#options.notes(controller), ...(controller.queue.stall.levels ?? NO_KEYS) });
  }

  /** Which controllers of configured functions are not well, in the dashboard's words; undefined when all are well. */
  notWell(): HealthWarning | undefined {
    const { controllers, isNeededForReady } = this.#options;
    const ill = controllers()
      .filter(({ name }) => isNeededForReady(name))
      .map((each) => [each.name, this.stateOf(each)] as const)
      .filter(([, word]) => !isWell(word));
    if (ill.length === 0) return undefined;
    const named = ill.slice(0, MOST_NAMED).map(([name, word]) => `${name}: ${word}`);
    const more = ill.length > MOST_NAMED ? [`and ${ill.length - MOST_NAMED} more`] : [];
    return { warning: [...named, ...more].join(', ') };
  }

  /** Looks every five seconds until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options.runtime;
    while (!signal.aborted) {
      await this.#look().catch((error: unknown) => {
        logger.warn({ error: messageOf(error) }, 'the outboxes and queues could not be read, trying again');
      });
      await clock.sleep(LOOK_MS, signal);
    }
  }

  async #look(): Promise<void> {
    const { controllers, informers } = this.#options;
    const [current, watched] = [informers(), controllers()];
    keepOnly(this.#outboxMs, current);
    keepOnly(this.#dueMs, watched);
    keepOnly(this.#ill, watched);
    const looks = await Promise.allSettled([
      ...current.map(async ({ name, view }) => {
        const outboxMs = (await view.outbox.ageMs()) ?? 0;
        // The view may have been removed during the request.
        if (informers().some((each) => each.name === name)) this.#outboxMs.set(name, outboxMs);
      }),
      ...watched.map(async (controller) => {
        const { name, queue } = controller;
        const dueMs = await queue.stalledMs();
        const before = this.stalled(name);
        this.#dueMs.set(name, dueMs);
        const stands = (before === undefined) !== (this.stalled(name) === undefined);
        if (this.#recordState(controller) || stands) this.#options.onChanged(name);
      }),
    ]);
    // A view or queue that cannot be read must not hide the others.
    for (const look of looks) if (look.status === 'rejected') throw look.reason;
  }

  /**
   * Records a controller's state. A controller counts as well only after some time without failures, so that keys that
   * fail now and then do not change a status with each look.
   * @returns whether the state that users see has changed.
   */
  #recordState(controller: RunningController): boolean {
    const { name } = controller;
    const word = this.stateOf(controller);
    const atMs = this.#options.runtime.clock.now();
    const before = this.#ill.get(name);
    if (!isWell(word)) this.#ill.set(name, { word, atMs });
    else if (before && atMs - before.atMs >= WELL_AGAIN_MS) this.#ill.delete(name);
    return before?.word !== this.#ill.get(name)?.word;
  }
}

function keepOnly(ages: Map<string, unknown>, current: readonly { readonly name: string }[]): void {
  const names = new Set(current.map(({ name }) => name));
  for (const name of ages.keys()) if (!names.has(name)) ages.delete(name);
}

const NO_KEYS: QueueFacts = {
  pauses: [],
  pausedObjects: 0,
  sizes: { queued: 0, running: 0, failing: 0, backlog: 0, dead: 0 },
};
/** How many controllers a sentence names at most. */
const MOST_NAMED = 10;

const seconds = (ms: number): number => Math.round(ms / 1000);
