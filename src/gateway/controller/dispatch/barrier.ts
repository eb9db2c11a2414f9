import {
  type Clock,
  compareResourceVersions,
  formatKind,
  formatObjectKey,
  type ResourceVersion,
  systemClock,
} from '../../../core/index.ts';
import type { Write } from '../../../contract/index.ts';
import { kindOfView } from '../../../contract/cache-layout.ts';
import type { HeadsOptions } from '../../informer/cache/view-objects.ts';
import type { View } from '../../informer/cache/view.ts';

/**
 * Read your writes: the versions and deletions that the views must show before the key's next run. Kept with the key's
 * record as JSON, one entry for each view that was written to, named by its prefix.
 */
type Barrier = Record<string, ViewBarrier>;

interface ViewBarrier {
  readonly version?: ResourceVersion;
  /** Deleted objects as [key, uid]: the answer to a delete does not hold the version of its event. */
  readonly deleted?: readonly Deleted[];
  /** When the writes were known to have ended. */
  readonly endedAtMs?: number;
}

/** `gone`: the object must be gone. Its deletion mark is not enough, since it had one before the write. */
type Deleted = readonly [key: string, uid: string, gone?: 'gone'];

/** The server's version at a moment: every write that had ended before is at or below it. */
export interface HighWaterMark {
  readonly version: ResourceVersion;
  /**
   * The view's incarnation before the server was asked. It changes when the server's data goes back in time, and the
   * mark is then void.
   */
  readonly incarnation: string | undefined;
  /** Before the server was asked. */
  readonly askedAtMs: number;
}

/** The tenant whose barrier is checked, and how it pays for the entries that are looked at. */
type DeletionReads = Pick<HeadsOptions, 'tenant' | 'paid'>;

/** The largest difference between the clocks of two gateways: another gateway may have made the barrier. */
const CLOCKS_APART_MS = 1000;

/** The state that a barrier waits for in the cache of one kind, for people. */
export interface Awaited {
  /** `apiVersion/Kind`. */
  readonly kind: string;
  /** The cache must be at least as new as this version of the resource. */
  readonly resourceVersion?: ResourceVersion;
  /** The cache must show that these objects are deleted: the keys of the first 5. */
  readonly deleted?: readonly string[];
}

/** The state that the views must show before this barrier has passed. */
export function awaitedBy(text: string): Awaited[] {
  return Object.entries(JSON.parse(text) as Barrier).map(([prefix, { version, deleted }]) => ({
    kind: kindOfView(prefix) ?? 'a kind that is no longer cached',
    ...(version === undefined ? {} : { resourceVersion: version }),
    ...(deleted === undefined ? {} : { deleted: deleted.slice(0, 5).map(([key]) => key) }),
  }));
}

/** Makes and checks the barriers of one controller, over the views that it can read. */
export class Barriers {
  readonly #views: readonly View[];
  readonly #byPrefix: ReadonlyMap<string, View>;
  readonly #clock: Clock;
  readonly #highWaterMarks = new Map<View, HighWaterMark>();

  constructor(views: readonly View[], clock: Clock = systemClock) {
    this.#views = views;
    this.#clock = clock;
    this.#byPrefix = new Map(views.map((view) => [view.location.prefix, view]));
  }

  /** Only writes to cached objects count: no event will ever come for other writes. Undefined when there are none. */
  async afterWrites(writes: readonly Write[]): Promise<string | undefined> {
    const versions = new Map<View, ResourceVersion>();
    // A function may report a delete many times: the barrier names it once.
    const deletes = new Map<View, Map<string, Deleted>>();
    for (const write of writes) {
      const kind = formatKind(write);
      const view = this.#views.find((each) => formatKind(each.resource) === kind && each.contains(write.namespace));
      if (!view) continue;
      if (write.deleted) {
        const key = formatObjectKey(write);
        const deleted: Deleted = write.gone ? [key, write.uid, 'gone'] : [key, write.uid];
        const known = deletes.get(view) ?? new Map<string, Deleted>();
        deletes.set(view, known.set(JSON.stringify(deleted), deleted));
      } else if (write.resourceVersion !== undefined) {
        const known = versions.get(view);
        const newest = known !== undefined && compareResourceVersions(known, write.resourceVersion) >= 0;
        if (!newest) versions.set(view, write.resourceVersion);
      }
    }
    // A new incarnation of the view changes nothing here: its list may have begun before these writes.
    return this.#encode(new Set([...versions.keys(), ...deletes.keys()]), (view) => {
      const version = versions.get(view);
      const deleted = deletes.get(view);
      return { ...(version === undefined ? {} : { version }), ...(deleted && { deleted: [...deleted.values()] }) };
    });
  }

  /**
   * After a run of unknown outcome: everything it can have written is older than `versions`, read after its deadline.
   */
  async afterLost(versions: ReadonlyMap<View, ResourceVersion>): Promise<string | undefined> {
    return this.#encode(new Set(versions.keys()), (view) => ({ version: versions.get(view) ?? '' }));
  }

  /**
   * Records the server's version, because a barrier may wait for an event that never comes: a function may report a
   * version that the server does not have yet, or the delete of an object that it did not delete, or the server's data
   * may have gone back to before the write. But the function wrote before it answered. So a view has passed once it has
   * reached a version that the server had after the answer, whatever the barrier says.
   */
  learn(view: View, highWaterMark: HighWaterMark): void {
    this.#highWaterMarks.set(view, highWaterMark);
  }

  /** Whether a version of the server after the writes of this barrier is known. */
  hasHighWaterMark(text: string, view: View): boolean {
    const wanted = (JSON.parse(text) as Barrier)[view.location.prefix];
    return wanted === undefined || this.#highWaterMarkFor(view, wanted) !== undefined;
  }

  /**
   * Whether the barrier asks for a version that the server did not have when the function said that it had written it.
   */
  isImpossible(text: string, view: View): boolean {
    const wanted = (JSON.parse(text) as Barrier)[view.location.prefix];
    const highWaterMark = wanted && this.#highWaterMarkFor(view, wanted);
    return (
      wanted?.version !== undefined &&
      !!highWaterMark &&
      compareResourceVersions(wanted.version, highWaterMark.version) > 0
    );
  }

  /** @param reads as in `ViewObjects.heads`. */
  async passed(text: string, reads?: DeletionReads): Promise<boolean> {
    const barrier = JSON.parse(text) as Barrier;
    for (const [prefix, wanted] of Object.entries(barrier)) {
      const view = this.#byPrefix.get(prefix);
      // A view that is no longer kept cannot be read either.
      if (view && !(await this.#viewPassed(view, wanted, reads))) return false;
    }
    return true;
  }

  /** The views that this barrier waits for, whether passed or not. */
  viewsOf(text: string): View[] {
    return Object.keys(JSON.parse(text) as Barrier).flatMap((prefix) => this.#byPrefix.get(prefix) ?? []);
  }

  async #viewPassed(view: View, wanted: ViewBarrier, reads?: DeletionReads): Promise<boolean> {
    const { version, incarnation } = await view.record.progress();
    if (version === undefined) return false;
    if (this.#highWaterMarks.get(view)?.incarnation !== incarnation) this.#highWaterMarks.delete(view);
    const highWaterMark = this.#highWaterMarkFor(view, wanted);
    if (highWaterMark && compareResourceVersions(version, highWaterMark.version) >= 0) return true;
    if (wanted.version !== undefined && compareResourceVersions(version, wanted.version) < 0) return false;
    if (!wanted.deleted) return true;
    const heads = await view.objects.heads(
      wanted.deleted.map(([key]) => key),
      reads,
    );
    return wanted.deleted.every(([, uid, gone], at) => {
      const entry = heads[at];
      return !entry || entry.uid !== uid || (entry.terminating && !gone);
    });
  }

  #highWaterMarkFor(view: View, { endedAtMs = 0 }: ViewBarrier): HighWaterMark | undefined {
    const highWaterMark = this.#highWaterMarks.get(view);
    return highWaterMark && highWaterMark.askedAtMs >= endedAtMs + CLOCKS_APART_MS ? highWaterMark : undefined;
  }

  async #encode(
    views: ReadonlySet<View>,
    of: (view: View) => Omit<ViewBarrier, 'endedAtMs'>,
  ): Promise<string | undefined> {
    if (views.size === 0) return undefined;
    const barrier: Barrier = {};
    const endedAtMs = this.#clock.now();
    for (const view of views) barrier[view.location.prefix] = { ...of(view), endedAtMs };
    return JSON.stringify(barrier);
  }
}
