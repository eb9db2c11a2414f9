import type { KubernetesObject } from '../../../core/index.ts';

/** The maps of an object's metadata that a predicate compares. */
export type MapName = 'labels' | 'annotations';

/** Runs work that looks at `size` values within a controller's processor time; undefined: it was cut off. */
export type WithinTime = <T>(size: number, work: () => T) => T | undefined;

type TextMap = Readonly<Record<string, string>>;

/** A map with more keys is compared within the controller's time: 1,000 keys take 0.15 ms, 110,000 take 60 to 100. */
const LARGE = 1000;

/** The comparison of one map of an update. */
interface Comparison {
  readonly old: KubernetesObject;
  /** The keys of the new map, kept because listing them takes a third of the time. Emptied once the answer is known. */
  keys: readonly string[];
  /** Undefined until a comparison has ended within its time. */
  changed: boolean | undefined;
}

/** Keyed by the new object, because all handlers of all controllers get the same two objects of a change. */
const comparisons: Record<MapName, WeakMap<KubernetesObject, Comparison>> = {
  labels: new WeakMap(),
  annotations: new WeakMap(),
};

/**
 * Whether an update has changed the labels or annotations. An absent map equals an empty one. All predicates of all
 * controllers share one comparison of an update. If a comparison runs out of its controller's time, the answer is
 * undefined, and the next predicate compares again in the time of its own controller.
 */
export function hasChangedMap(
  name: MapName,
  old: KubernetesObject,
  object: KubernetesObject,
  withinTime: WithinTime,
): boolean | undefined {
  const before: TextMap = old.metadata[name] ?? {};
  const now: TextMap = object.metadata[name] ?? {};
  if (before === now) return false;
  let comparison = comparisons[name].get(object);
  if (comparison?.old !== old) {
    comparison = { old, keys: Object.keys(now), changed: undefined };
    comparisons[name].set(object, comparison);
  }
  if (comparison.changed !== undefined) return comparison.changed;
  const { keys } = comparison;
  const compare = (): boolean => !isSame(before, now, keys);
  const changed = keys.length > LARGE ? withinTime(keys.length, compare) : compare();
  if (changed !== undefined) Object.assign(comparison, { keys: [], changed });
  return changed;
}

/**
 * Own properties only: "constructor" and "__proto__" are keys like any other. The keys of the old map are counted last,
 * because that is slow.
 */
function isSame(before: TextMap, now: TextMap, keys: readonly string[]): boolean {
  return (
    keys.every((key) => Object.hasOwn(before, key) && before[key] === now[key]) &&
    Object.keys(before).length === keys.length
  );
}
