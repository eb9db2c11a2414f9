import { type Clock, LimitedLines, type Logger, messageOf, namespaceOfKey, tenantNamed } from '../../../core/index.ts';
import {
  encodeEntry,
  KEPT_OUT_INDEX,
  LEFT_OUT_INDEX,
  type MadeIndex,
  type ObjectEntry,
  parseMade,
} from '../../../contract/cache-layout.ts';
import type { IndexSpec } from '../../../contract/index.ts';
import { TimeSlice } from '../../../ground/time-slice.ts';
import { bytesOfEntries, costOfEntries, MAX_ENTRIES } from './chunk.ts';
import { observedFields, observedSpec } from './observations.ts';
import type { View } from './view.ts';

/** The indexes and observed fields that a user of a view reads by. */
export interface UserIndexes {
  readonly specs: readonly IndexSpec[];
  /**
   * The fields whose values are observed for it: paths. They have a bound of their own, of the same size. Default:
   * none.
   */
  readonly observed?: readonly string[];
  /** The gateway itself needs these indexes, so all objects have entries and no bound applies. Default: none. */
  readonly needed?: readonly IndexSpec[];
  /** The only namespaces whose objects it may read. Default: it may read all. */
  readonly namespaces?: readonly string[] | undefined;
  /** The namespace whose bound counts. Undefined: none does. */
  readonly tenant: string | undefined;
}

/**
 * An object carries an entry for each value in each index. Therefore the indexes of all functions of a tenant have a
 * bound in a view, and the namespaces of these indexes have one. The gateway does not make an index beyond a bound, and
 * readers look at each object, as while an index is being filled.
 */
export const MOST_OF_TENANT = 64;
/** Each namespace is a word in the list of indexes, which each reader reads. */
export const MOST_PLACES = 256;
/** The indexes that a log line names: tenants decide how many there are. */
const MOST_NAMED_INDEXES = 10;
/** Tenants can change what is beyond their bound all the time. */
const BOUND_LINES = { perSecond: 1 / 60, burst: 10 };

/**
 * The indexes to maintain, and those of tenants beyond their bound. Both in the order of their names. An index that
 * only users of some namespaces have is made of the objects in these.
 */
export function boundedIndexes(users: Iterable<UserIndexes>): {
  readonly kept: MadeIndex[];
  readonly left: MadeIndex[];
} {
  const all = [...users];
  const kept = new Set<MadeIndex>(all.flatMap(({ needed = [] }) => needed));
  const left = new Set<MadeIndex>();
  for (const [tenant, own] of Map.groupBy(all, (each) => each.tenant)) {
    const wanted = new Set(own.flatMap(placesOf));
    const bySpec = Map.groupBy([...wanted].toSorted(), (each) => parseMade(each).spec);
    let places = 0;
    for (const [at, spec] of [...bySpec.keys()].toSorted().entries()) {
      // The index of all objects has those of each namespace.
      const made = wanted.has(spec) ? [spec] : (bySpec.get(spec) ?? []);
      const isBeyond = tenant !== undefined && (at >= MOST_OF_TENANT || places + made.length > MOST_PLACES);
      if (!isBeyond) places += made.length;
      for (const each of made) (isBeyond ? left : kept).add(each);
    }
  }
  const isWhole = (each: MadeIndex): boolean => kept.has(each) || kept.has(parseMade(each).spec);
  return {
    kept: [...kept].filter((each) => parseMade(each).place === undefined || !kept.has(parseMade(each).spec)).toSorted(),
    left: [...left].filter((each) => !isWhole(each)).toSorted(),
  };
}

/** The fields to observe, and those of tenants beyond their bound, as `boundedIndexes` has indexes. */
export function boundedObserved(users: Iterable<UserIndexes>): ReturnType<typeof boundedIndexes> {
  return boundedIndexes(
    [...users].map(({ observed = [], namespaces, tenant }) => ({
      specs: observed.map(observedSpec),
      namespaces,
      tenant,
    })),
  );
}

function placesOf({ specs, namespaces }: UserIndexes): MadeIndex[] {
  if (namespaces === undefined) return [...specs];
  return specs.flatMap((spec) => namespaces.map((each): MadeIndex => `${each}/${spec}`));
}

export interface BackfillOptions {
  readonly view: View;
  /** The present indexes of each user. */
  readonly indexes: ReadonlyMap<string, UserIndexes>;
  /** Nothing is filled before it resolves. */
  readonly started: Promise<void>;
  /** Resolves when the chunk that is being applied now is in the view. */
  readonly applied: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Ends the work. */
  readonly signal: AbortSignal;
}

/**
 * Keeps the declared indexes of a view in line with the fields that its users read by, and completes the times of
 * observed values. Each `start` is followed by one `backfill` in the background, one at a time, which is repeated until
 * it succeeds. Until then objects are written under the old indexes and the new ones; afterwards under the new ones
 * alone.
 */
export class Backfill {
  readonly #options: BackfillOptions;
  #finished: Promise<void> = Promise.resolve();
  /** The places that had a turn while others waited, in this order: the next turns go to the others. */
  readonly #walked = new Set<string | undefined>();
  /** Observed fields whose values were compared with all objects since the view was taken. */
  readonly #compared = new Set<MadeIndex>();
  /** About indexes beyond their bound. */
  readonly #lines: LimitedLines;
  /** The indexes beyond their bound that were found last. */
  #beyond = '';

  constructor(options: BackfillOptions) {
    this.#options = options;
    this.#lines = new LimitedLines(options.clock, BOUND_LINES);
  }

  /** Resolves when all requested indexes are filled, or the signal has ended the work. */
  get finished(): Promise<void> {
    return this.#finished;
  }

  /** Checks the indexes, and fills the incomplete ones. */
  start(): void {
    this.#finished = this.#finished.then(() => this.#run());
  }

  async #run(): Promise<void> {
    const { view, started, applied, clock, logger, signal } = this.#options;
    const { indexer, observations } = view;
    await started;
    this.#warnOfBounds();
    while (!signal.aborted) {
      const { specs, fields } = this.#wanted();
      try {
        // Readers go on to use the indexes that are recorded as complete, so the applier maintains them until then.
        indexer.maintain([...new Set([...(await indexer.complete()), ...specs])]);
        observations.maintain(fields, () => clock.now());
        // The chunk that is being applied still has the former list of indexes.
        await applied();
        // Their times are kept no longer. Without them the next pass compares all objects.
        for (const each of [...this.#compared].filter((field) => !fields.includes(field))) {
          for (const field of observedFields([each])) await observations.forget(field);
          this.#compared.delete(each);
        }
        const wanted = (): readonly MadeIndex[] => this.#wanted().specs;
        const isFilled = await backfill(view, specs, signal, { wanted, walked: this.#walked });
        if (isFilled) indexer.maintain(specs);
        // Tenants that change their indexes all the time must not keep the fields of others waiting.
        await this.#compare(fields);
        if (isFilled) return;
      } catch (error) {
        if (signal.aborted) return;
        logger.warn(
          { resource: view.name, error: messageOf(error) },
          'indexes and observed values could not be filled, trying again',
        );
        await clock.sleep(1000, signal);
      }
    }
  }

  #warnOfBounds(): void {
    const { view, logger } = this.#options;
    const users = [...this.#options.indexes.values()];
    const fields = boundedObserved(users).left.map((each) => `observed ${each}`);
    const beyond = [...boundedIndexes(users).left, ...fields];
    const before = this.#beyond;
    this.#beyond = beyond.join();
    if (beyond.length === 0 || this.#beyond === before) return;
    const indexes = beyond.slice(0, MOST_NAMED_INDEXES);
    const named = { resource: view.name, indexes, more: beyond.length - indexes.length };
    this.#lines.write(view.name, (admitted) =>
      logger.warn(
        { ...named, ...admitted },
        `indexes are not made, because their tenant declares more than ${MOST_OF_TENANT} for this kind`,
      ),
    );
  }

  /**
   * The indexes to maintain, and the fields to observe. A tenant that is left out for want of memory gets none, also
   * one that gets no object of another namespace.
   */
  #wanted(): { readonly specs: readonly MadeIndex[]; readonly fields: readonly MadeIndex[] } {
    const { indexes, view } = this.#options;
    const served = [...indexes.values()].map((user) =>
      view.leftOut(user.tenant) || view.leftOut(ANY_OTHER) ? { ...user, specs: [], observed: [] } : user,
    );
    return { specs: boundedIndexes(served).kept, fields: boundedObserved(served).kept };
  }

  /** Reads the objects only for a field that is new here, or whose times were lost with other data. */
  async #compare(fields: readonly MadeIndex[]): Promise<void> {
    const { view, signal } = this.#options;
    const paths = observedFields(fields);
    const complete = await Promise.all(paths.map((path) => view.observations.isComplete(path)));
    const lacking = new Set(paths.filter((_, at) => !complete[at]));
    const pending = fields.filter(
      (field) => !this.#compared.has(field) || observedFields([field]).some((path) => lacking.has(path)),
    );
    if (pending.length === 0) return;
    await compareObserved(view, pending, signal);
    for (const field of pending) this.#compared.add(field);
  }
}

/**
 * Compares the values of the observed fields of all cached objects with the recorded values. A value that changed while
 * the field was not observed, or that has no time yet, gets the present time. The applier must record the same fields
 * during the comparison.
 */
export async function compareObserved(view: View, fields: readonly MadeIndex[], signal: AbortSignal): Promise<void> {
  const { observations } = view;
  for await (const { keys, tenant } of coveredBy(fields, view)) {
    signal.throwIfAborted();
    const entries = await view.objects.entries(keys);
    const objects = [];
    let at = 0;
    for await (const { key, encoded } of view.objects.eachEncoded(keys, new TimeSlice(tenant))) {
      const version = entries[at++]?.resourceVersion;
      const object = encoded?.decode();
      // An object of another version than its entry has just been written, with its values.
      if (!object || object.metadata.resourceVersion !== version) continue;
      const values = observations.valuesOf(object, encoded?.bytes ?? Infinity, fields);
      if (values) objects.push({ key, version, values });
    }
    await observations.record(objects);
  }
  for (const field of observedFields(fields)) {
    if (!(await observations.isComplete(field))) await observations.removeOthers(field);
  }
}

/**
 * The keys of the objects that these indexes or fields cover, a few at a time, and the tenant that they are read for.
 */
async function* coveredBy(
  made: readonly MadeIndex[],
  view: View,
): AsyncGenerator<{ readonly keys: readonly string[]; readonly tenant: string }> {
  const places = new Set(made.map((each) => parseMade(each).place));
  for (const place of places.has(undefined) ? [undefined] : places) {
    const tenant = place === undefined ? '' : tenantNamed(place);
    for await (const keys of view.objects.keys(50, place)) yield { keys, tenant };
  }
}

/** Stands for all namespaces that have no name of their own. */
const ANY_OTHER = '';
const MARKS: readonly string[] = [KEPT_OUT_INDEX, LEFT_OUT_INDEX];

/** Declarations may change during a backfill. */
interface BackfillTurns {
  /** The indexes that are wanted now. Default: those of the call. */
  readonly wanted?: () => readonly MadeIndex[];
  /** See `Backfill.#walked`. Default: no place was walked through. */
  readonly walked?: Set<string | undefined>;
}

/**
 * Adds the cached objects to the declared indexes, and removes them from indexes that are no longer declared. During
 * the backfill the applier must write with the same specs (`Indexer.maintain`). An index counts as complete once every
 * object of its place has been through; a complete index stays complete. So a tenant that changes its indexes all the
 * time keeps those of no other tenant incomplete: they wait for a walk through its objects at most.
 * @returns whether the backfill reached the end; false: other indexes are wanted by now.
 */
export async function backfill(
  view: View,
  specs: readonly MadeIndex[],
  signal: AbortSignal,
  { wanted = () => specs, walked = new Set() }: BackfillTurns = {},
): Promise<boolean> {
  const { indexer } = view;
  const complete = await indexer.complete();
  const cutOff = await indexer.incomplete();
  const known = new Set(complete.filter((spec) => specs.includes(spec)));
  const left = new Set([...cutOff, ...complete, ...specs].filter((each) => !known.has(each)));
  if (left.size === 0) return true;
  // First withdrawn, then emptied; first filled, then promised. A gateway that takes over in between finds the
  // unfinished indexes.
  await indexer.record([...known], [...left]);
  const byPlace = Map.groupBy(left, (each) => parseMade(each).place);
  const before = [...walked];
  const order = [...byPlace].toSorted(([one], [other]) => before.indexOf(one) - before.indexOf(other));
  for (const [place, made] of order) {
    walked.delete(place);
    walked.add(place);
    const ofPlace = (all: readonly MadeIndex[]): string => all.filter((each) => parseMade(each).place === place).join();
    const goesOn = (): boolean => ofPlace(wanted()) === ofPlace(specs);
    if (!(await fillPlace(view, place, { specs, signal, goesOn }))) return false;
    for (const each of made) {
      left.delete(each);
      if (specs.includes(each)) known.add(each);
    }
    await indexer.record(
      specs.filter((each) => known.has(each)),
      [...left],
    );
    if (left.size > 0 && wanted().join() !== specs.join()) return false;
  }
  walked.clear();
  return true;
}

/** @returns whether all objects of the place stand in the indexes of `specs`. */
async function fillPlace(
  view: View,
  place: string | undefined,
  { specs, signal, goesOn }: { specs: readonly MadeIndex[]; signal: AbortSignal; goesOn: () => boolean },
): Promise<boolean> {
  const slice = new TimeSlice(place === undefined ? '' : tenantNamed(place));
  for await (const keys of view.objects.keys(50, place)) {
    signal.throwIfAborted();
    const entries = await view.objects.entries(keys);
    let moves: { key: string; from: ObjectEntry; to: ObjectEntry }[] = [];
    let left = MAX_ENTRIES;
    let at = 0;
    slice.restart();
    for await (const { key, object } of view.objects.each(keys, slice)) {
      const from = entries[at++];
      // Read one after the other: an object of another version than its entry has just been written, with the new
      // specs.
      if (!from || !object || object.metadata.resourceVersion !== from.resourceVersion) continue;
      const marks = from.indexEntries.filter((entry) => MARKS.includes(entry));
      const to = {
        ...from,
        indexEntries: [...view.indexer.indexEntriesOf(object, specs), ...marks],
      };
      if (encodeEntry(to) === encodeEntry(from)) continue;
      moves.push({ key, from, to });
      left -= costOfEntries(key, from.indexEntries) + costOfEntries(key, to.indexEntries);
      if (left > 0) continue;
      await view.reserve(() => moves.map((each) => [view.payerOf(namespaceOfKey(each.key)), sizeOf(each)] as const));
      if (!goesOn()) return false;
      await view.indexer.move(moves);
      slice.restart();
      moves = [];
      left = MAX_ENTRIES;
    }
    await view.reserve(() => moves.map((each) => [view.payerOf(namespaceOfKey(each.key)), sizeOf(each)] as const));
    if (!goesOn()) return false;
    await view.indexer.move(moves);
  }
  return true;
}

/** The bytes that an object's new index entries add, about. */
function sizeOf({ key, from, to }: { key: string; from: ObjectEntry; to: ObjectEntry }): number {
  const known = new Set(from.indexEntries);
  const added = to.indexEntries.filter((entry) => !known.has(entry));
  return bytesOfEntries(key, added);
}
