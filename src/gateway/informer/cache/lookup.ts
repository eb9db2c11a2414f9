import {
  asLabelSelector,
  fieldAt,
  type KubernetesObject,
  type LabelSelector,
  matchesLabels,
} from '../../../core/index.ts';
import {
  declaredIndex,
  indexEntriesOf,
  type IndexSpec,
  indexValues,
  isMade,
  labelValue,
  namespaceOf,
  uncountedIndex,
} from '../../../contract/cache-layout.ts';
import { isSelector } from '../../../contract/source-schema.ts';
import type { Lookup, RelatedChange } from './change.ts';
import type { View } from './view.ts';
import type { EncodedObject } from './view-objects.ts';

/** How many objects, which may be large, are in memory at a time. */
const BATCH = 20;
/** An object that one key leads to is read at no cost up to this length: that takes no longer than queueing the key. */
const SMALL_BYTES = 100_000;

/**
 * The controller on whose behalf a lookup is made, and its processor time. All throw a HandlerError once that is used
 * up.
 */
export interface LookupBudget {
  /** The controller's tenant, with whom other tenants take turns. Empty: it has none. */
  readonly tenant: string;
  /** The controller's own label selector: a lookup finds no other objects. */
  readonly labelSelector: LabelSelector | undefined;
  /** Runs work over one object. */
  run<T>(work: () => T): T;
  /**
   * Charges keys that a lookup has found.
   * @param before how many keys the same lookup has found before these.
   */
  chargeKeys(count: number, before: number): void;
  /** The keys of the controller that have named the object as related. */
  related(change: RelatedChange): Promise<readonly string[]>;
}

/** Of a controller that may take whatever it likes. */
export const unlimitedLookups: LookupBudget = {
  tenant: '',
  labelSelector: undefined,
  run: (work) => work(),
  chargeKeys() {},
  related: async () => [],
};

/** Runs a part of a lookup, which reads and decodes a few objects, when it may have its turn. */
export type Turn = <T>(part: () => Promise<T>) => Promise<T>;

/**
 * The keys that a lookup stands for, as the cache is now.
 * @param inTurn Default: each part runs at once.
 * @throws HandlerError when the controller's processor time does not suffice.
 */
export async function resolveLookup(
  view: View,
  lookup: Lookup,
  budget: LookupBudget,
  inTurn: Turn = (part) => part(),
): Promise<readonly string[]> {
  const { declared, entries, keys: only, selector } = lookup;
  const { labelSelector } = budget;
  if (only) return filter(view, only, lookup, { budget, inTurn });
  // A lookup without time left reads nothing: there may be many candidates.
  budget.run(() => {});
  const charge = chargeOf(budget);
  const anyOf = selector && declared !== undefined ? demandsOf(declared, selector.labels) : [];
  if (declared !== undefined && selector) {
    const few = await inTurn(() => view.objects.findFew({ declared, entries, anyOf }, budget.tenant));
    if (few) return filter(view, few.keys, lookup, { budget, inTurn, charge, read: few.objects });
  }
  const complete = declared === undefined || isMade(await view.indexer.complete(), declared, namespaceOf(entries));
  const others = declared === undefined ? entries : entries.filter((entry) => !entry.startsWith(`${declared}=`));
  const isAnswer = complete && !selector && !labelSelector;
  // After each page, because a tenant decides how many there are: a lookup without time left reads no more.
  const onCandidates = (count: number): void => (isAnswer ? charge(count) : budget.run(() => {}));
  // An index that is still being filled cannot be asked; the objects can.
  // Sent together, in one trip. A selector gives an index one value, which has always room.
  const [candidates, uncounted] = await Promise.all([
    view.indexer.keysWith(complete ? entries : others, { anyOf: complete ? anyOf : [], onPage: onCandidates }),
    complete && declared !== undefined && !selector
      ? view.indexer.keysWith([...others, uncountedIndex(declared)], { onPage: () => budget.run(() => {}) })
      : [],
  ]);
  const found = isAnswer ? candidates : await filter(view, candidates, lookup, { budget, inTurn, charge });
  const more = uncounted.length > 0 ? await filter(view, uncounted, lookup, { budget, inTurn, charge }) : [];
  return more.length > 0 ? [...new Set([...found, ...more])] : found;
}

/** Charges the keys of one lookup as they are found. */
function chargeOf(budget: LookupBudget): (count: number) => void {
  let before = 0;
  return (count) => {
    budget.chargeKeys(count, before);
    before += count;
  };
}

/**
 * @param charge called with the number of keys found in each batch. Default: named keys are not charged here, because
 *   they were with the change that names them.
 * @param read the objects of all candidates, if they have been read.
 */
async function filter(
  view: View,
  candidates: readonly string[],
  lookup: Lookup,
  {
    budget,
    inTurn,
    charge = () => {},
    read,
  }: {
    readonly budget: LookupBudget;
    readonly inTurn: Turn;
    readonly charge?: (count: number) => void;
    readonly read?: readonly (EncodedObject | undefined)[];
  },
): Promise<string[]> {
  const only = lookup.keys !== undefined;
  const found: string[] = [];
  for (let from = 0; from < candidates.length;) {
    // Before they are read: a lookup that has no time left reads nothing.
    if (!only) budget.run(() => {});
    const keys = candidates.slice(from, from + BATCH);
    const before = found.length;
    from += await inTurn(async () => {
      const stored = read?.slice(from, from + BATCH) ?? (await view.objects.first(keys, budget.tenant));
      const slice = view.objects.newSlice();
      for (const [at, object] of stored.entries()) {
        const key = keys[at] ?? '';
        const isMatch = (): boolean => (object ? matches(object.decode(), lookup, budget.labelSelector) : only);
        const isFree = !object || (only && object.bytes <= SMALL_BYTES);
        if (isFree ? isMatch() : budget.run(isMatch)) found.push(key);
        // Without a rest, because the budget limits this work, and others may wait for their turn.
        if (slice.isOver) await slice.giveWay();
      }
      return stored.length;
    });
    charge(found.length - before);
  }
  return found;
}

/** The entries of selectors that may match these labels: of one of them, or of a selector that demands none. */
function demandsOf(index: IndexSpec, labels: Readonly<Record<string, string>>): string[] {
  const demands = Object.entries(labels).map(([key, value]) => labelValue(key, value));
  return ['', ...demands].map((each) => declaredIndex(index, each));
}

function matches(
  object: KubernetesObject,
  { declared, entries, selector }: Lookup,
  labelSelector: LabelSelector | undefined,
): boolean {
  const carried = indexEntriesOf(object);
  // All of its values, also where the object has too many for the index.
  if (declared !== undefined)
    carried.push(...indexValues(object, declared).map((value) => declaredIndex(declared, value)));
  if (!entries.every((entry) => carried.includes(entry))) return false;
  if (labelSelector && !matchesLabels(labelSelector, object.metadata.labels)) return false;
  if (!selector) return true;
  const wanted = asLabelSelector(fieldAt(object, selector.path));
  // No controller acts on a selector that apimachinery refuses. `NotIn` with a value of no label would match all.
  return wanted !== undefined && matchesLabels(wanted, selector.labels) && isSelector(wanted);
}
