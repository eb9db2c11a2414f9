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
 * A bookmark that was asked for comes within 2.25 s: from two seconds before the end of its watch on, at the next tick
 * (k8s.io/apiserver, pkg/storage/cacher). The rest is for the way into the view.
 */
const BOOKMARK_MS = 3000;

/**
 * Keeps a view younger than its users need it. On a quiet resource bookmarks come about once a minute, so it asks for
 * one when half of the smallest limit has passed since the view was last up to date, or sooner if the bookmark would be
 * late otherwise. Without a limit it does nothing.
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
      const limitMs = Math.min(...limits.values());
      const askMs = Math.max(0, Math.min(limitMs / 2, limitMs - BOOKMARK_MS));
      // Redis is away: nothing could be applied.
      const progress = await view.progress().catch(() => undefined);
      const dueMs = (progress?.shownMs ?? clock.now()) + askMs - clock.now();
      if (progress?.shownMs !== undefined && dueMs <= 0) requestProgress();
      // No longer than the half of a limit that may be set meanwhile.
      await clock.sleep(Math.min(Math.max(LOOK_MS, dueMs), 2500), signal);
    }
    this.#isRunning = false;
  }
}
