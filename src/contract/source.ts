import type { GroupVersionKind, LabelSelector } from '../core/index.ts';
import type { IndexSpec } from './cache-layout.ts';

/** A kind whose events wake keys, and which of its objects and events do. */
export interface SourceDescription extends GroupVersionKind {
  /** Only objects in these namespaces are looked at. Default: all. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
  /**
   * Events that do not pass it queue nothing; of the kind `for`, objects that would not pass it as new ones are left
   * out when all keys are queued. Default: all pass.
   */
  readonly predicate?: Predicate;
}

/** The kind whose keys are reconciled: any event of such an object queues its own key. */
export interface ReconciledDescription extends SourceDescription {
  /**
   * Only these objects are reconciled, as if the kind were watched with this selector: one that comes to match counts
   * as added, one that no longer does as deleted. Keys of objects that do not match are queued in no way. Default: all.
   */
  readonly labelSelector?: LabelSelector;
}

/** Which of its owners an object leads to: the one with `controller: true`, or each. */
export type OwnerChoice = 'controller' | 'any';

/** A kind whose events queue the owners of its objects, as far as they are of kind `for`. */
export interface OwnedDescription extends SourceDescription {
  /** Default `controller`. */
  readonly owner?: OwnerChoice;
}

/** A kind whose events queue what `map` says. */
export interface WatchedDescription extends SourceDescription {
  readonly map: WatchMap;
}

/** A kind that is cached to be read, and queues nothing. */
export interface ReadDescription extends GroupVersionKind {
  /** Default: all that the gateway caches. Not for cluster-scoped kinds. */
  readonly namespaces?: readonly string[];
}

/**
 * How a watched object leads to objects of kind `for`. On an update the old object counts as well as the new one:
 * an object that is no longer referred to is woken, too.
 */
export type WatchMap =
  /**
   * To those that name it in an index: `{ by: 'index', index: 'field:spec.configMapName' }`. In its own namespace if
   * both have one.
   */
  | { readonly by: 'index'; readonly index: IndexSpec }
  /**
   * To those whose label selector, at the path, matches its labels; before a change of labels or after it. In its own
   * namespace if both have one. `orphansOnly`: only while no controller manages it.
   */
  | { readonly by: 'selector'; readonly path: string; readonly orphansOnly?: boolean }
  /** To its owners of kind `for`: the one that manages it, or each. Default `controller`. */
  | { readonly by: 'owner'; readonly owner?: OwnerChoice }
  /**
   * To the one that its label, annotation or field names: `name`, in its own namespace if both have one, or
   * `namespace/name`. A path leads with dots through objects and lists (`spec.refs.name`): each value names one. What
   * is no name is left out.
   */
  | { readonly by: 'label'; readonly label: string }
  | { readonly by: 'annotation'; readonly annotation: string }
  | { readonly by: 'field'; readonly path: string }
  /** To those whose last run has named it (`RequestResult.related`), before a change of labels or after it. */
  | { readonly by: 'related' }
  /** To all of them, in all namespaces. */
  | { readonly by: 'all' }
  /**
   * To those that a CEL expression over `object` names: a string, or a list of strings, each as a label would. One that
   * fails leads to all; an expression that takes too long makes the controller miss the change, and get all its keys
   * later.
   */
  | { readonly by: 'cel'; readonly expression: string };

/**
 * Which events count. Exactly one of the fields, at most `MAX_PREDICATE_DEPTH` deep, `MAX_PREDICATE_NODES` in all. A
 * change of the annotation `levelhook.dev/paused` of an object of kind `for` passes all.
 */
export type Predicate =
  /**
   * Updates that change this; adds and deletes pass. controller-runtime's GenerationChangedPredicate and its like
   * (pkg/predicate/predicate.go): a kind without generations, as ConfigMaps, never changes its generation.
   */
  | { readonly changed: 'generation' | 'resourceVersion' | 'labels' | 'annotations' }
  /** Objects that match, as they are now. controller-runtime's LabelSelectorPredicate. */
  | { readonly labelSelector: LabelSelector }
  /**
   * A CEL expression over `object` and `oldObject` (null but for an update) that gives a bool. One that fails, gives
   * something else or takes too long lets pass whatever it would have decided.
   */
  | { readonly cel: string }
  | { readonly all: readonly Predicate[] }
  | { readonly any: readonly Predicate[] }
  | { readonly not: Predicate };

/** `{ not: { all: [{ any: [{ changed: 'labels' }] }] } }` is four deep. */
export const MAX_PREDICATE_DEPTH = 4;
/** Predicates within one, itself and those that combine counted. */
export const MAX_PREDICATE_NODES = 32;
/** Characters of a CEL expression. */
export const MAX_CEL_LENGTH = 2048;

/** Kinds that one description names in `for`, `owns`, `watches` and `reads` together. */
export const MAX_SOURCES = 32;
export const MAX_INDEXES = 16;
/** Fields that one description observes. */
export const MAX_OBSERVED = 8;
/** CEL expressions in one description. */
export const MAX_EXPRESSIONS = 16;
/** Predicates of one description that combine no others. */
export const MAX_PREDICATE_LEAVES = 64;
/** Of a label selector: `matchLabels`, and as many `matchExpressions`. */
export const MAX_SELECTOR_REQUIREMENTS = 16;
/** Of one requirement of a label selector. */
export const MAX_SELECTOR_VALUES = 64;
/** Of a description as JSON, in UTF-8. */
export const MAX_DESCRIPTION_BYTES = 32 * 1024;
