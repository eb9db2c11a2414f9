import { type Clock, compareResourceVersions, type ResourceVersion } from '../../../core/index.ts';
import type { View } from '../../informer/cache/view.ts';
import type { ReadableView } from './catalog.ts';

const LOOK_MS = 20;
/** A change may be on its way within this time. Afterwards a quiet view needs an event that moves its version. */
const PATIENCE_MS = 200;
/** The request for such an event may be lost. */
const REQUEST_EVERY_MS = 1000;

/** One request that waits for a version of a view. */
interface Wait {
  readonly version: ResourceVersion;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly end: () => void;
}

/**
 * The requests that wait for versions of views. A view is looked at for all of them together, so a tenant that sends
 * many of them costs no more looks than one request.
 */
export class VersionWaits {
  readonly #clock: Clock;
  readonly #ofViews = new Map<View, Set<Wait>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the view seems to have the version or may not be read, and at the given time at the latest. */
  wait(readable: ReadableView, version: ResourceVersion, untilMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const wait: Wait = { version, fromMs: this.#clock.now(), untilMs, end: resolve };
    const waits = this.#ofViews.get(readable.view);
    if (waits) waits.add(wait);
    else void this.#look(readable, wait);
    return promise;
  }

  /** Looks at the view while requests wait. */
  async #look({ view, requestProgress }: ReadableView, first: Wait): Promise<void> {
    const waits = new Set([first]);
    this.#ofViews.set(view, waits);
    let requestedMs = -Infinity;
    while (waits.size > 0) {
      await this.#clock.sleep(LOOK_MS);
      const version = await versionOf(view);
      const nowMs = this.#clock.now();
      for (const wait of waits) {
        const goesOn = version !== undefined && compareResourceVersions(version, wait.version) < 0;
        if (goesOn && nowMs < wait.untilMs) continue;
        waits.delete(wait);
        wait.end();
      }
      const [oldest] = waits;
      if (!oldest || nowMs - oldest.fromMs < PATIENCE_MS || nowMs - requestedMs < REQUEST_EVERY_MS) continue;
      requestedMs = nowMs;
      requestProgress();
    }
    this.#ofViews.delete(view);
  }
}

/** Undefined while the view may not be read, and where Redis does not answer. */
async function versionOf(view: View): Promise<ResourceVersion | undefined> {
  try {
    const { version, rewound } = await view.record.progress();
    return rewound ? undefined : version;
  } catch {
    return undefined;
  }
}
