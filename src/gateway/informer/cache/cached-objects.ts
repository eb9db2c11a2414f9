import { isDeepStrictEqual } from 'node:util';
import { compareResourceVersions, formatObjectKey, type KubernetesObject, keyOf } from '../../../core/index.ts';
import type { ObjectEntry } from '../../../contract/cache-layout.ts';
import type { TimeSlice } from '../../../ground/time-slice.ts';
import type { Change } from './change.ts';
import type { View } from './view.ts';

/** An object as the cache has it: in Redis, or from an earlier event of the same chunk. */
export interface CachedObject {
  readonly entry: ObjectEntry;
  /** Absent when it was not needed and so was not read. */
  readonly object: KubernetesObject | undefined;
}

type Old = Awaited<ReturnType<ReturnType<View['objects']['each']>['next']>>;

/**
 * What the cache has of the objects of some events: the view's entries, read at once, and the whole old object where an
 * event needs it. An old object is read with the first event of its key, and dropped with the last one, because it may
 * have megabytes. The caller handles the events in their order, and is the only writer of the view.
 */
export class CachedObjects {
  readonly #found = new Map<string, CachedObject>();
  /** The events of each key that are still to come. */
  readonly #coming = new Map<string, number>();
  /** Keys whose old object is still to be read. */
  readonly #unread: Set<string>;
  readonly #olds: { next(): Promise<Old> };

  private constructor(view: View, wanted: readonly string[], slice: TimeSlice) {
    this.#unread = new Set(wanted);
    this.#olds = view.objects.each(wanted, slice);
  }

  /** @param needsOld is asked for each event of a key: the cache may already be newer than the first one. */
  static async read<Event extends { readonly object: KubernetesObject }>(
    view: View,
    events: readonly Event[],
    needsOld: (event: Event, entry: ObjectEntry) => boolean,
    slice: TimeSlice,
  ): Promise<CachedObjects> {
    const eventsOf = Map.groupBy(events, ({ object }) => formatObjectKey(keyOf(object)));
    const entries = await view.objects.recentEntries([...eventsOf.keys()]);
    const found = [...eventsOf].map(([key, its], at) => ({ key, its, entry: entries[at] }));
    const wanted: string[] = [];
    slice.restart();
    for (const { key, its, entry } of found) {
      if (entry && its.some((event) => needsOld(event, entry))) wanted.push(key);
      // Without a rest, because the budgets of the handlers count their time.
      if (slice.isOver) await slice.giveWay();
    }
    const cached = new CachedObjects(view, wanted, slice);
    for (const { key, its, entry } of found) {
      cached.#coming.set(key, its.length);
      if (entry) cached.#found.set(key, { entry, object: undefined });
    }
    return cached;
  }

  /** Perhaps without its old object. */
  get(key: string): CachedObject | undefined {
    return this.#found.get(key);
  }

  /** What the cache has before the next event of this key: with the old object, if an event of the key needs it. */
  async next(key: string): Promise<CachedObject | undefined> {
    const coming = (this.#coming.get(key) ?? 0) - 1;
    this.#coming.set(key, coming);
    const cached = this.#found.get(key);
    if (!cached) return undefined;
    const old = this.#unread.delete(key) ? await this.#read(key) : cached.object;
    this.#found.set(key, { ...cached, object: coming > 0 ? old : undefined });
    return { ...cached, object: old };
  }

  async #read(key: string): Promise<KubernetesObject | undefined> {
    const { value } = await this.#olds.next();
    if (value?.key === key) return value.object;
    throw new Error(`the events of ${value?.key} and ${key} are not handled in their order`);
  }

  /** What an event has made of the object; undefined: it was deleted. */
  set(key: string, cached: CachedObject | undefined): void {
    if (cached) this.#found.set(key, cached);
    else this.#found.delete(key);
  }
}

/** Above 0 when the cache has the object newer than this, 0 when it has just this, below 0 otherwise. */
export function compareCached(cached: CachedObject | undefined, object: KubernetesObject, rewound: boolean): number {
  if (!cached) return -1;
  if (!rewound) return compareResourceVersions(cached.entry.resourceVersion, object.metadata.resourceVersion);
  // After a restore of etcd a version may be used twice, for different contents.
  return cached.object && isDeepStrictEqual(cached.object, object) ? 0 : -1;
}

/**
 * The changes from the object `cached` to the event's object. Another UID under the same name is another object: the
 * old one was deleted between two watches.
 */
export function changesOf(cached: CachedObject | undefined, object: KubernetesObject): Change[] {
  if (!cached) return [{ type: 'added', object }];
  const old = cached.object;
  if (cached.entry.uid === object.metadata.uid) return [{ type: 'updated', object, ...(old ? { old } : {}) }];
  return [...(old ? [{ type: 'deleted' as const, object: old }] : []), { type: 'added', object }];
}
