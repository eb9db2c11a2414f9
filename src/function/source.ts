import type { GroupVersionKind, LabelSelector, Resource } from '../core/index.ts';
import type { OwnerChoice, Predicate, RelatedRule, WatchMap } from '../contract/index.ts';
import { MAX_RELATED_NAMES, MAX_RELATED_RULES } from '../contract/outcome.ts';

/** A kind whose events wake keys, and which of its objects and events do. */
export interface Source {
  readonly resource: Resource;
  /** Only objects in these namespaces are looked at. Default all. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
  /** Events that do not pass it wake nothing: `predicate: or(generationChanged, labelChanged)`. Default: all pass. */
  readonly predicate?: Predicate;
}

/** The kind that is reconciled, where not every object of it is, or not every event counts. */
export interface ReconciledSource extends Source {
  /**
   * Only objects that match: one that comes to match counts as added, one that no longer does as deleted. Default all.
   */
  readonly labelSelector?: LabelSelector;
}

/** A kind that this controller makes, where more is to be said of it. */
export interface OwnedSource extends Source {
  /** Which owners are woken: the one that manages the object, or each. Default `controller`. */
  readonly owner?: OwnerChoice;
}

/** A kind whose events wake what `map` leads to. */
export interface WatchedSource extends Source {
  readonly map: WatchMap;
}

/** A kind that is only read, in some namespaces. */
export interface ReadSource {
  readonly resource: Resource;
  /** Default: all that the gateway caches. */
  readonly namespaces?: readonly string[];
}

/**
 * Objects on which a key depends: a change of one wakes the key. Without `names` and `labelSelector`: all objects of
 * the kind. On an update the labels before and after it count.
 */
export interface RelatedSource {
  /**
   * One of the controller's `watches` has this kind, with the map `{ by: 'related' }`; any with `relatedKinds: 'any'`.
   */
  readonly resource: Resource;
  /** Default: any namespace. */
  readonly namespace?: string;
  /** At most 256. */
  readonly names?: readonly string[];
  /** Not beside `names`. */
  readonly labelSelector?: LabelSelector;
}

/**
 * The rules as the outcome has them.
 * @throws TypeError for rules that the gateway would not read: the whole outcome would be unknown.
 */
export function describeRelated(sources: readonly RelatedSource[]): RelatedRule[] {
  if (sources.length > MAX_RELATED_RULES) {
    throw new TypeError(`${sources.length} rules of related objects: ${MAX_RELATED_RULES} at most`);
  }
  for (const [at, { names, labelSelector }] of sources.entries()) {
    if (names && labelSelector) throw new TypeError(`related.${at} must not have both names and labelSelector`);
    if (names && (names.length === 0 || names.length > MAX_RELATED_NAMES)) {
      throw new TypeError(`related.${at}.names must have 1 to ${MAX_RELATED_NAMES} names, and has ${names.length}`);
    }
  }
  return sources.map(describeSource);
}

/** As the description has it: the resource's kind in its place, and whatever else was said. */
export function describeSource<T extends { readonly resource: Resource }>(
  source: Resource | T,
): GroupVersionKind & Omit<T, 'resource'> {
  // A bare resource says nothing more, and no field of T but this one is required.
  const whole: T = 'resource' in source ? source : ({ resource: source } as T);
  const { resource, ...rest } = whole;
  const { apiVersion, kind } = resource;
  return { apiVersion, kind, ...rest };
}

/**
 * Updates that change `metadata.generation`, which the apiserver counts up with the spec; adds and deletes. ConfigMaps
 * have none.
 */
export const generationChanged: Predicate = { changed: 'generation' };
/** Updates that change the object at all; adds and deletes. */
export const resourceVersionChanged: Predicate = { changed: 'resourceVersion' };
/** Updates that change a label; adds and deletes. */
export const labelChanged: Predicate = { changed: 'labels' };
/** Updates that change an annotation; adds and deletes. */
export const annotationChanged: Predicate = { changed: 'annotations' };

/** Whether the object, as it is now, matches. */
export const labelsMatch = (labelSelector: LabelSelector): Predicate => ({ labelSelector });

/**
 * A CEL expression over `object` and `oldObject` (null but for an update), which the gateway evaluates on what it
 * caches: `cel('object.status.phase == "Failed"')`. One that fails lets the event pass.
 */
export const cel = (expression: string): Predicate => ({ cel: expression });

export const and = (...all: Predicate[]): Predicate => ({ all });
export const or = (...any: Predicate[]): Predicate => ({ any });
export const not = (predicate: Predicate): Predicate => ({ not: predicate });
