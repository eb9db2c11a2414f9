import { type Clock, compareResourceVersions, type ResourceVersion } from '../../../core/index.ts';
import type { ViewRecord } from './view-record.ts';

export interface ViewFreshnessOptions {
  readonly record: Pick<ViewRecord, 'progress' | 'recordShown'>;
  /** By user, in milliseconds. */
  readonly limits: ReadonlyMap<string, number>;
  /** The server's version of the resource now, read consistently; undefined when it does not serve the kind. */
  readonly currentVersion: () => Promise<ResourceVersion | undefined>;
  /** Makes a bookmark come soon. */
  readonly requestProgress: () => void;
  /** The view's version stays where it is, since it may have lost data. */
  readonly isFrozen: () => boolean;
  readonly clock: Pick<Clock, 'now' | 'sleep'>;
  readonly signal: AbortSignal;
}

/** While a bookmark that was asked for is on its way. */
const LOOK_MS = 250;
/** After a question without an answer: the apiserver or Redis is away. */
const AGAIN_MS = 1000;
/**
 * A bookmark that was asked for comes within 2.25 s: from two seconds before the end of its watch on, at the next tick
 * (k8s.io/apiserver, pkg/storage/cacher). The rest is for the way into the view.
 */
const BOOKMARK_MS = 3000;
/** A change that the server has already is on its way to a view of a busy resource: no bookmark is needed for it. */
const ARRIVE_MS = 300;
const ARRIVE_LOOK_MS = 50;

/**
 * Keeps a view younger than its users need it. On a quiet resource bookmarks come about once a minute. So when half of
 * the smallest limit has passed since the view was last up to date, or sooner if a bookmark would be late otherwise, it
 * asks for the server's version. If the view has that version, the view was up to date when it asked: the server sends
 * no bookmark of a version that a watch has already. Otherwise it asks for a bookmark. Without a limit it does nothing.
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
    const { clock, limits, signal } = this.#options;
    this.#isRunning = true;
    while (limits.size > 0 && !signal.aborted) {
      const limitMs = Math.min(...limits.values());
      const waitMs = await this.#keep(Math.max(0, Math.min(limitMs / 2, limitMs - BOOKMARK_MS))).catch(() => AGAIN_MS);
      // A limit may be set during the sleep, so sleep no longer than half of the smallest limit.
      await clock.sleep(Math.min(Math.max(LOOK_MS, waitMs), 2500), signal);
    }
    this.#isRunning = false;
  }

  /** @returns when to look again. */
  async #keep(askMs: number): Promise<number> {
    const { clock, currentVersion, isFrozen, record, requestProgress, signal } = this.#options;
    const before = await record.progress();
    const askedMs = clock.now();
    if (before.version === undefined || before.shownMs === undefined) return LOOK_MS;
    const leftMs = before.shownMs + askMs - askedMs;
    if (leftMs > 0) return leftMs;
    const current = await currentVersion();
    if (current === undefined) return AGAIN_MS;
    // A view that was ahead before the question is of another history, which the reflector finds out.
    const isAhead = compareResourceVersions(before.version, current) > 0;
    for (let waitedMs = 0; waitedMs <= ARRIVE_MS; waitedMs += ARRIVE_LOOK_MS) {
      const { version, rewound } = await record.progress();
      if (version === undefined || rewound || isFrozen()) return LOOK_MS;
      if (!isAhead && compareResourceVersions(version, current) >= 0) {
        await record.recordShown(askedMs);
        return askMs;
      }
      await clock.sleep(ARRIVE_LOOK_MS, signal);
      if (signal.aborted) return LOOK_MS;
    }
    requestProgress();
    return LOOK_MS;
  }
}
