import type { GroupVersionKind, LabelSelector } from '../core/index.ts';
import type { IndexSpec } from './cache-layout.ts';

/** A kind whose events wake keys, and a choice among its objects and events. */
export interface SourceDescription extends GroupVersionKind {
  /** Only objects in these namespaces count. Default: all. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
  /**
   * Events that fail it queue nothing. When all keys are queued, objects of kind `for` that would fail it as new
   * objects are left out. Default: all events pass.
   */
  readonly predicate?: Predicate;
}

/** The kind whose keys are reconciled: any event of such an object queues its own key. */
export interface ReconciledDescription extends SourceDescription {
  /**
   * Only matching objects are reconciled, as if the kind were watched with this selector: an object that begins to
   * match counts as added, and an object that stops matching as deleted. Keys of other objects are never queued.
   * Default: all.
   */
  readonly labelSelector?: LabelSelector;
}

/** The owners that count: the owner with `controller: true`, or each. */
export type OwnerChoice = 'controller' | 'any';

/** A kind whose events queue the owners of its objects that are of kind `for`. */
export interface OwnedDescription extends SourceDescription {
  /** Default `controller`. */
  readonly owner?: OwnerChoice;
}

/** A kind whose events queue the keys that `map` finds. */
export interface WatchedDescription extends SourceDescription {
  readonly map: WatchMap;
}

/** A kind that is cached to be read, and queues nothing. */
export interface ReadDescription extends GroupVersionKind {
  /** Default: all namespaces that the gateway caches. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
}

/**
 * The verbs of RBAC that change objects. An apply is a `patch`, and a `create` as well where there is no object yet.
 */
export const WRITE_VERBS = ['create', 'update', 'patch', 'delete', 'deletecollection'] as const;
export type WriteVerb = (typeof WRITE_VERBS)[number];

/** A kind that the function writes. */
export interface WrittenDescription extends GroupVersionKind {
  /** Default: all namespaces. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
  /** `status`, `scale`, `eviction`. Default: the object itself. */
  readonly subresource?: string;
  readonly verbs: readonly WriteVerb[];
}

/**
 * How a watched object leads to objects of kind `for`. On an update the old object counts as well as the new one, so
 * that an object that has lost its reference is woken, too.
 */
export type WatchMap =
  /**
   * Objects that refer to it by an indexed value: `{ by: 'index', index: 'field:spec.configMapName' }`. Only in its own
   * namespace if both have one.
   */
  | { readonly by: 'index'; readonly index: IndexSpec }
  /**
   * Objects whose label selector, at the path, matches its labels, before or after a change of labels. The selector
   * `{}` matches all labels, an absent one none. Only in its own namespace if both have one. `orphansOnly`: only while
   * no controller manages it.
   */
  | { readonly by: 'selector'; readonly path: string; readonly orphansOnly?: boolean }
  /** Its owners of kind `for`: the managing owner, or each. Default `controller`. */
  | { readonly by: 'owner'; readonly owner?: OwnerChoice }
  /**
   * The object that its label, annotation or field names: `name`, in its own namespace if both have one, or
   * `namespace/name`. A path leads with dots through objects and lists (`spec.refs.name`): each value names an object.
   * Values that are no names are ignored.
   */
  | { readonly by: 'label'; readonly label: string }
  | { readonly by: 'annotation'; readonly annotation: string }
  | { readonly by: 'field'; readonly path: string }
  /** Objects whose last run has named it (`RequestResult.related`), before or after a change of labels. */
  | { readonly by: 'related' }
  /** All objects, in all namespaces. */
  | { readonly by: 'all' }
  /**
   * Objects that a CEL expression over `object` names: a string, or a list of strings, each as in a label. If the
   * expression fails, all objects are queued. If it takes too long, the controller misses the change, and all its keys
   * are queued later.
   */
  | { readonly by: 'cel'; readonly expression: string };

/**
 * Chooses events. Exactly one of the fields, at most `MAX_PREDICATE_DEPTH` deep, `MAX_PREDICATE_NODES` in all. A change
 * of the annotation `levelhook.dev/paused` of an object of kind `for` passes every predicate.
 */
export type Predicate =
  /**
   * Passes updates that change this, and all adds and deletes, as controller-runtime's GenerationChangedPredicate and
   * similar predicates (pkg/predicate/predicate.go). Kinds without generations, such as ConfigMaps, never change
   * theirs.
   */
  | { readonly changed: 'generation' | 'resourceVersion' | 'labels' | 'annotations' }
  /** Passes objects that match now. controller-runtime's LabelSelectorPredicate. */
  | { readonly labelSelector: LabelSelector }
  /**
   * A CEL expression over `object` and `oldObject` (null but for an update) that gives a bool. If the expression fails,
   * gives another type or takes too long, its answer is unknown, and the event passes unless other predicates stop it.
   */
  | { readonly cel: string }
  | { readonly all: readonly Predicate[] }
  | { readonly any: readonly Predicate[] }
  | { readonly not: Predicate };

/** `{ not: { all: [{ any: [{ changed: 'labels' }] }] } }` is four deep. */
export const MAX_PREDICATE_DEPTH = 4;
/** Predicates in one predicate, including itself and the combining ones. */
export const MAX_PREDICATE_NODES = 32;
/** Characters of a CEL expression, at most. */
export const MAX_CEL_LENGTH = 2048;

/** Kinds that one description names in `for`, `owns`, `watches` and `reads` together; in `writes` once more as many. */
export const MAX_SOURCES = 32;
export const MAX_INDEXES = 16;
/** Fields that one description observes, at most. */
export const MAX_OBSERVED = 8;
/** CEL expressions in one description. */
export const MAX_EXPRESSIONS = 16;
/** Predicates of one description that combine no others. */
export const MAX_PREDICATE_LEAVES = 64;
/** Bytes of a description as JSON, in UTF-8, at most. They bound its label selectors too. */
export const MAX_DESCRIPTION_BYTES = 32 * 1024;
