import { compareResourceVersions, formatKind, formatObjectKey, type ResourceVersion } from '../../core/index.ts';
import type { Write } from '../../contract/index.ts';
import type { View } from '../cache/view.ts';

/**
 * Read your writes: what the views must have passed before the key's next run. Kept with the key's record as JSON, one
 * entry for each view that was written to, named by its prefix.
 */
type Barrier = Record<string, ViewBarrier>;

interface ViewBarrier {
  /** The view's incarnation at the time. Under another one it was listed anew since, and shows every earlier write. */
  readonly incarnation: string;
  readonly version?: ResourceVersion;
  /** Deleted objects as [key, uid]: a delete's event has a version that its answer does not tell. */
  readonly deleted?: readonly (readonly [string, string])[];
}

/** Makes and checks the barriers of one controller, over the views that it can read. */
export class Barriers {
  readonly #views: readonly View[];
  readonly #byPrefix: ReadonlyMap<string, View>;

  constructor(views: readonly View[]) {
    this.#views = views;
    this.#byPrefix = new Map(views.map((view) => [view.location.prefix, view]));
  }

  /** Only writes inside what is cached count: for others no event will ever come. Undefined when there are none. */
  async afterWrites(writes: readonly Write[]): Promise<string | undefined> {
    const versions = new Map<View, ResourceVersion>();
    const deletes = new Map<View, (readonly [string, string])[]>();
    for (const write of writes) {
      const kind = formatKind(write);
      const view = this.#views.find((each) => formatKind(each.resource) === kind && each.holds(write.namespace));
      if (!view) continue;
      if (write.deleted) {
        deletes.set(view, [...(deletes.get(view) ?? []), [formatObjectKey(write), write.uid]]);
      } else if (write.resourceVersion !== undefined) {
        const known = versions.get(view);
        const newest = known !== undefined && compareResourceVersions(known, write.resourceVersion) >= 0;
        if (!newest) versions.set(view, write.resourceVersion);
      }
    }
    return this.#encode(new Set([...versions.keys(), ...deletes.keys()]), (view) => {
      const version = versions.get(view);
      const deleted = deletes.get(view);
      return { ...(version === undefined ? {} : { version }), ...(deleted === undefined ? {} : { deleted }) };
    });
  }

  /** After a run of unknown outcome: everything it can have written is older than `versions`, read after its deadline. */
  async afterLost(versions: ReadonlyMap<View, ResourceVersion>): Promise<string | undefined> {
    return this.#encode(new Set(versions.keys()), (view) => ({ version: versions.get(view) ?? '' }));
  }

  async passed(text: string): Promise<boolean> {
    const barrier = JSON.parse(text) as Barrier;
    for (const [prefix, wanted] of Object.entries(barrier)) {
      const view = this.#byPrefix.get(prefix);
      // A view that is no longer kept cannot be read either.
      if (view && !(await this.#viewPassed(view, wanted))) return false;
    }
    return true;
  }

  /** The views that this barrier waits for, whether passed or not. */
  viewsOf(text: string): View[] {
    return Object.keys(JSON.parse(text) as Barrier).flatMap((prefix) => this.#byPrefix.get(prefix) ?? []);
  }

  async #viewPassed(view: View, wanted: ViewBarrier): Promise<boolean> {
    const { version, incarnation } = await view.state();
    if (incarnation !== wanted.incarnation) return incarnation !== undefined;
    if (version === undefined) return false;
    if (wanted.version !== undefined && compareResourceVersions(version, wanted.version) < 0) return false;
    if (!wanted.deleted) return true;
    const entries = await view.entries(wanted.deleted.map(([key]) => key));
    return wanted.deleted.every(([, uid], at) => {
      const entry = entries[at];
      return !entry || entry.uid !== uid || entry.terminating;
    });
  }

  async #encode(
    views: ReadonlySet<View>,
    of: (view: View) => Omit<ViewBarrier, 'incarnation'>,
  ): Promise<string | undefined> {
    if (views.size === 0) return undefined;
    const barrier: Barrier = {};
    for (const view of views) {
      const { incarnation = '' } = await view.state();
      barrier[view.location.prefix] = { incarnation, ...of(view) };
    }
    return JSON.stringify(barrier);
  }
}
