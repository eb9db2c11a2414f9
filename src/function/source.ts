import type { GroupVersionKind, LabelSelector, Resource } from '../core/index.ts';
import type { OwnerChoice, Predicate, RelatedRule, WatchMap, WriteVerb } from '../contract/index.ts';
import { MAX_RELATED_NAMES, MAX_RELATED_RULES } from '../contract/outcome.ts';

/** A kind whose events wake keys, and a choice among its objects and events. */
export interface Source {
  readonly resource: Resource;
  /** Only objects in these namespaces count. Default all. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
  /** Events that fail it wake nothing: `predicate: or(generationChanged, labelChanged)`. Default: all pass. */
  readonly predicate?: Predicate;
}

/** The reconciled kind, when only some of its objects or events count. */
export interface ReconciledSource extends Source {
  /**
   * Only matching objects are reconciled: an object that begins to match counts as added, and an object that stops
   * matching as deleted. Default all.
   */
  readonly labelSelector?: LabelSelector;
}

/** A kind that this controller creates, with options. */
export interface OwnedSource extends Source {
  /** The owners to wake: the managing owner, or each. Default `controller`. */
  readonly owner?: OwnerChoice;
}

/** A kind whose events wake the keys that `map` finds. */
export interface WatchedSource extends Source {
  readonly map: WatchMap;
}

/** A kind that is only read, in some namespaces. */
export interface ReadSource {
  readonly resource: Resource;
  /** Default: all namespaces that the gateway caches. */
  readonly namespaces?: readonly string[];
}

/** What a controller writes of a kind. */
export interface WrittenSource {
  readonly resource: Resource;
  /** Default all. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
  /** `status`, `scale`, `eviction`. Default: the object itself. */
  readonly subresource?: string;
  /**
   * The verbs of RBAC: `replace` is an `update`, and `apply` a `patch`, which needs `create` too where there is no
   * object yet.
   */
  readonly verbs: readonly WriteVerb[];
}

/**
 * Objects that a key depends on: a change of one wakes the key. Without `names` and `labelSelector`: all objects of the
 * kind. On an update the labels before and after it count.
 */
export interface RelatedSource {
  /** A kind in the controller's `watches` with the map `{ by: 'related' }`; any kind with `relatedKinds: 'any'`. */
  readonly resource: Resource;
  /** Default: any namespace. */
  readonly namespace?: string;
  /** At most 256. */
  readonly names?: readonly string[];
  /** Excludes `names`. */
  readonly labelSelector?: LabelSelector;
}

/**
 * The rules in the form of the outcome.
 * @throws TypeError for rules that the gateway would refuse, which would make the whole outcome unknown.
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

/** A source in the form of the description: the resource is replaced by its kind, and other fields stay. */
export function describeSource<T extends { readonly resource: Resource }>(
  source: Resource | T,
): GroupVersionKind & Omit<T, 'resource'> {
  // A bare resource has no other fields, and T requires none but this one.
  const whole: T = 'resource' in source ? source : ({ resource: source } as T);
  const { resource, ...rest } = whole;
  const { apiVersion, kind } = resource;
  return { apiVersion, kind, ...rest };
}

/**
 * Passes updates that change `metadata.generation`, which the apiserver increments when the spec changes, and all adds
 * and deletes. ConfigMaps have no generation.
 */
export const generationChanged: Predicate = { changed: 'generation' };
/** Passes updates that change the object at all, and all adds and deletes. */
export const resourceVersionChanged: Predicate = { changed: 'resourceVersion' };
/** Passes updates that change a label, and all adds and deletes. */
export const labelChanged: Predicate = { changed: 'labels' };
/** Passes updates that change an annotation, and all adds and deletes. */
export const annotationChanged: Predicate = { changed: 'annotations' };

/** Passes objects that match now. */
export const labelsMatch = (labelSelector: LabelSelector): Predicate => ({ labelSelector });

/**
 * A CEL expression over `object` and `oldObject` (null but for an update), which the gateway evaluates on the cached
 * objects: `cel('object.status.phase == "Failed"')`. If the expression fails, the event passes. A whole number is an
 * int whatever its schema says, as in the apiserver's match conditions: `double(object.spec.ratio) / 2.0` keeps the
 * fraction.
 */
export const cel = (expression: string): Predicate => ({ cel: expression });

export const and = (...all: Predicate[]): Predicate => ({ all });
export const or = (...any: Predicate[]): Predicate => ({ any });
export const not = (predicate: Predicate): Predicate => ({ not: predicate });
