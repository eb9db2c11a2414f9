import { isDeepStrictEqual } from 'node:util';
import { compareResourceVersions, formatObjectKey, type KubernetesObject, keyOf } from '../../../core/index.ts';
import type { ObjectEntry } from '../../../contract/cache-layout.ts';
import type { Change } from './change.ts';
import type { View } from './view.ts';

/** An object as the cache has it: in Redis, or from an earlier event of the same chunk. */
export interface CachedObject {
  readonly entry: ObjectEntry;
  /** Absent when it was not needed and so was not read. */
  readonly object: KubernetesObject | undefined;
}

/**
 * Reads the view's entries of the events' objects, by key, and the whole object where one of a key's events needs it.
 * Each event of a key is checked, because the cache may already be newer than the first one.
 */
export async function readCached<Event extends { readonly object: KubernetesObject }>(
  view: View,
  events: readonly Event[],
  needsObject: (event: Event, entry: ObjectEntry) => boolean,
): Promise<Map<string, CachedObject>> {
  const eventsOf = Map.groupBy(events, ({ object }) => formatObjectKey(keyOf(object)));
  const keys = [...eventsOf.keys()];
  const entries = await view.objects.recentEntries(keys);
  const cached = new Map<string, CachedObject>();
  const wanted: string[] = [];
  keys.forEach((key, at) => {
    const entry = entries[at];
    if (!entry) return;
    cached.set(key, { entry, object: undefined });
    if (eventsOf.get(key)?.some((event) => needsObject(event, entry))) wanted.push(key);
  });
  const objects = await view.objects.all(wanted);
  wanted.forEach((key, at) => {
    const entry = cached.get(key)?.entry;
    if (entry) cached.set(key, { entry, object: objects[at] });
  });
  return cached;
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
