import type { Clock } from '../../core/index.ts';
import type { View } from './view.ts';

export interface ViewFreshnessOptions {
  readonly view: Pick<View, 'progress'>;
  /** By user, in milliseconds. */
  readonly limits: ReadonlyMap<string, number>;
  /** Makes a bookmark come soon. */
  readonly requestProgress: () => void;
  readonly clock: Pick<Clock, 'now' | 'sleep'>;
  readonly signal: AbortSignal;
}

/** While a bookmark that was asked for is on its way, and while nothing can be asked. */
const LOOK_MS = 250;

/**
 * Keeps a view younger than its users need it. On a quiet resource bookmarks come about once a minute, so when half of
 * the smallest limit has passed since the view was last up to date, it asks for one. Without a limit it does nothing.
 */
export class ViewFreshness {
  readonly #options: ViewFreshnessOptions;
  #isRunning = false;

  constructor(options: ViewFreshnessOptions) {
    this.#options = options;
  }

  /** Begins, if there is a limit; also when the limits have changed. */
  start(): void {
    if (!this.#isRunning) void this.#run();
  }

  async #run(): Promise<void> {
    const { clock, limits, requestProgress, signal, view } = this.#options;
    this.#isRunning = true;
    while (limits.size > 0 && !signal.aborted) {
      const halfMs = Math.min(...limits.values()) / 2;
      // Redis is away: nothing could be applied.
      const progress = await view.progress().catch(() => undefined);
      const dueMs = (progress?.shownMs ?? clock.now()) + halfMs - clock.now();
      if (progress?.shownMs !== undefined && dueMs <= 0) requestProgress();
      // No longer than the half of a limit that may be set meanwhile.
      await clock.sleep(Math.min(Math.max(LOOK_MS, dueMs), 2500), signal);
    }
    this.#isRunning = false;
  }
}
