import type { KubernetesObject, ResourceVersion } from '../../../core/index.ts';
import type { ObjectEntry } from '../../../contract/cache-layout.ts';
import type { IndexSpec, Reason } from '../../../contract/index.ts';

/** A change of one object, as the cache sees it. Handlers turn changes into wakeups. */
export type Change =
  | { readonly type: 'added'; readonly object: KubernetesObject }
  /** `old` is there only when a handler has asked for it (`ChangeHandler.needsOld`). */
  | { readonly type: 'updated'; readonly object: KubernetesObject; readonly old?: KubernetesObject }
  /**
   * The object as the server sent it last. If a list showed the deletion, the object as the cache knew it last
   * (client-go's `DeletedFinalStateUnknown`).
   */
  | { readonly type: 'deleted'; readonly object: KubernetesObject };

/** A key that a controller is to reconcile, and why. Keys travel, objects do not. */
export interface KeyWakeup {
  readonly controller: string;
  /** `namespace/name`, or `name`. */
  readonly key: string;
  readonly reasons: readonly Reason[];
  /** When the oldest change that wakes the key was read from the watch, as far as it is known. */
  readonly atMs?: number;
}

/**
 * A wakeup whose keys are still to be found: every object of a view that carries some index entries, whose label
 * selector matches, and that the controller's own label selector selects. It is stored with the change that caused it
 * and resolved after that change is applied: resolved before, it would miss an object whose own event is in the same
 * chunk.
 */
export interface Lookup {
  /** The prefix of the view to look in. */
  readonly view: string;
  /** Entries that an object must carry; none means all objects. */
  readonly entries: readonly string[];
  /**
   * The declared index that is asked: the index of one of the entries, or the index of `selector`, in which an object
   * must carry the entry of one of the labels, or the entry of a selector without a single required label. An index is
   * asked only once it is complete.
   */
  readonly declared?: IndexSpec;
  /** Only these keys, and those of them without an object whatever else is asked for. */
  readonly keys?: readonly string[];
  /** The field of the object that holds a label selector, and the labels that it must match. */
  readonly selector?: { readonly path: string; readonly labels: Readonly<Record<string, string>> };
}

/**
 * A changed object, in one of its states: the wakeup is of the keys that have named it as related. They are looked up
 * after the change is applied: a run that names it later may have read it before the change, and runs again.
 */
export interface RelatedChange {
  /** `apiVersion/Kind`. */
  readonly kind: string;
  /** Undefined for a cluster-scoped object. */
  readonly namespace?: string;
  readonly name: string;
  /** Undefined: any may have been there. */
  readonly labels?: Readonly<Record<string, string>>;
}

/** Keys that are found by looking in the cache, or among the rules of related objects, once the change is in it. */
export interface LookupWakeup {
  readonly controller: string;
  readonly lookup: Lookup | { readonly related: RelatedChange };
  readonly reasons: readonly Reason[];
  /** As in `KeyWakeup`. */
  readonly atMs?: number;
}

export type Wakeup = KeyWakeup | LookupWakeup;

/**
 * Receives each change before it is applied, on behalf of one controller. Must not wait. If it throws, only its
 * controller misses the change, and gets all its keys later (see `ChangeHandlers`).
 */
export interface ChangeHandler {
  /** Whether `handle` has to see the object as it was: reading it costs a trip and decoding it. */
  needsOld(object: KubernetesObject, old: ObjectEntry): boolean;
  /** The keys that the change wakes. */
  handle(change: Change): readonly Wakeup[];
}

/**
 * A handler cannot find the keys that a change wakes. The message is shown to the handler's author, so it holds nothing
 * of an object's contents.
 */
export class HandlerError extends Error {
  override readonly name: string = 'HandlerError';
}

/** How many reasons travel with a key at most. The oldest stay, because they show the first cause. */
export const MAX_REASONS = 8;

/**
 * One wakeup for each controller and key (or lookup), reasons joined: a chunk of a busy watch names the same key often.
 * The wakeups are given in the order of their changes.
 */
export function mergeWakeups<T extends Wakeup>(wakeups: Iterable<T>): T[] {
  const merged = new Map<string, { wakeup: T; reasons: Reason[] }>();
  for (const wakeup of wakeups) {
    const what = 'key' in wakeup ? wakeup.key : lookupText(wakeup.lookup);
    const id = `${wakeup.controller}\n${what}`;
    const known = merged.get(id);
    if (!known) merged.set(id, { wakeup, reasons: wakeup.reasons.slice(0, MAX_REASONS) });
    else if (known.reasons.length < MAX_REASONS) {
      known.reasons.push(...wakeup.reasons.slice(0, MAX_REASONS - known.reasons.length));
    }
  }
  return [...merged.values()].map(({ wakeup, reasons }) => ({ ...wakeup, reasons }));
}

const texts = new WeakMap<LookupWakeup['lookup'], string>();

/** The JSON of a lookup. It may be long, and is made once: its handler's controller pays for that. */
export function lookupText(lookup: LookupWakeup['lookup']): string {
  const known = texts.get(lookup);
  if (known !== undefined) return known;
  const text = JSON.stringify(lookup);
  texts.set(lookup, text);
  return text;
}

/** How many keys a wakeup names. */
export function keysOf(wakeup: Wakeup): number {
  if ('key' in wakeup) return 1;
  return 'keys' in wakeup.lookup ? wakeup.lookup.keys.length : 0;
}

/** Characters of a wakeup in the outbox, about. */
export function lengthOf(wakeup: Wakeup): number {
  const what = 'key' in wakeup ? wakeup.key.length : lookupText(wakeup.lookup).length;
  return wakeup.reasons.reduce((sum, { object = '' }) => sum + object.length + REASON_LENGTH, what + REASON_LENGTH);
}

/** Of a reason without its object, and of a wakeup without its key and reasons. */
const REASON_LENGTH = 64;

/** The reason that a change gives. */
export function reasonOf(change: Change): Reason {
  const { apiVersion, kind, metadata } = change.object;
  const name = metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name;
  const resourceVersion: ResourceVersion = metadata.resourceVersion;
  return { type: change.type, object: `${apiVersion}/${kind} ${name}`, resourceVersion };
}
