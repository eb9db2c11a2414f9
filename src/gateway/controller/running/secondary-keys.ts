import { createHash } from 'node:crypto';
import { formatKind, namespaceOfKey } from '../../../core/index.ts';
import type { Description } from '../../../contract/index.ts';
import type { TimeSlice } from '../../../ground/time-slice.ts';
import { type Change, HandlerError, type Lookup, type Wakeup } from '../../informer/cache/change.ts';
import type { Informer } from '../../informer/cache/informer.ts';
import { type LookupBudget, resolveLookup } from '../../informer/cache/lookup.ts';
import type { View } from '../../informer/cache/view.ts';
import type { EncodedObject } from '../../informer/cache/view-objects.ts';
import type { CpuBudget } from '../cel/cpu-budget.ts';
import type { ViewPart } from '../handlers/key-scope.ts';
import { type ControllerSource, namespacesNamed } from './controller-source.ts';
import type { EventSources } from './event-sources.ts';
import { type KeysWanted, OBJECTS, keysOfPart } from './keys-in-scope.ts';

/** The parts of a `ControllerSource` that `SecondaryKeys` reads. */
type SecondarySource = Pick<ControllerSource, 'resource'> & { readonly informers: readonly Pick<Informer, 'view'>[] };

export interface SecondaryKeysOptions {
  readonly description: Pick<Description, 'owns' | 'watches'>;
  /** The kinds that the description names. */
  readonly sources: readonly SecondarySource[];
  readonly events: Pick<EventSources, 'scope' | 'secondaryHandlerFor'>;
  /** Each object is decoded and handled when the budget allows it. */
  readonly budget: Pick<CpuBudget, 'inTurn'>;
  readonly lookups: LookupBudget;
  /** Called when a handler or a lookup had no time for an object: keys that only this object maps to are left out. */
  readonly onLeftOut: (error: HandlerError) => void;
}

/**
 * How many handled keys are remembered, so that none is checked twice. Beyond that all are forgotten, and a key may be
 * queued twice.
 */
const MOST_KNOWN = 50_000;

/**
 * The keys that the cached objects of owned and watched kinds map to, without the keys that `keysInScope` finds. The
 * most important is the key of a deleted object whose owned objects remain. client-go's informer also calls the
 * handlers for each object of its first list, whatever the kind.
 *
 * Many objects map to few keys: each key is checked once, and only the objects are read one by one.
 */
export class SecondaryKeys {
  readonly #options: SecondaryKeysOptions;

  constructor(options: SecondaryKeysOptions) {
    this.#options = options;
  }

  /**
   * The keys come in parts.
   * @param passes as in `keysInScope`.
   * @param slice the slice of the resync.
   */
  async *keys(passes: KeysWanted['passes'], slice: TimeSlice): AsyncGenerator<string[], void, undefined> {
    const { sources, events } = this.#options;
    const known = new Set<string>();
    for (const source of sources) {
      const handler = events.secondaryHandlerFor(source.resource);
      if (!handler) continue;
      for await (const { view, keys: names } of this.#partsOf(source)) {
        const found = new Set<string>();
        for await (const { encoded } of view.objects.eachEncoded(names, slice)) {
          for (const wakeup of encoded ? await this.#handle(handler, encoded, slice) : []) {
            for (const key of await this.#resolve(wakeup, passes, known)) if (!known.has(key)) found.add(key);
          }
          // The time since the start includes waits for Redis and for the budget, which were no work.
          slice.restart();
        }
        if (known.size + found.size > MOST_KNOWN) known.clear();
        for (const key of found) known.add(key);
        const keys = await this.#withoutOwn([...found], passes, slice);
        if (keys.length > 0) yield keys;
      }
    }
  }

  /** The objects of a kind in the declared namespaces, by key. */
  async *#partsOf(source: SecondarySource): AsyncGenerator<{ view: View; keys: string[] }, void, undefined> {
    const { owns, watches } = this.#options.description;
    const named = namespacesNamed([...owns, ...watches], formatKind(source.resource));
    for (const { view } of source.informers) {
      const parts: readonly ViewPart[] = named
        ? named.filter((namespace) => view.contains(namespace)).map((namespace) => ({ view, namespace }))
        : [{ view }];
      for (const part of parts) for await (const keys of keysOfPart(part)) yield { view, keys };
    }
  }

  /** Handles one object. The budget limits this work already, so it gives way to other work without a pause. */
  async #handle(
    handler: (change: Change) => readonly Wakeup[],
    encoded: EncodedObject,
    slice: TimeSlice,
  ): Promise<readonly Wakeup[]> {
    const { budget } = this.#options;
    const wakeups = await this.#orLeftOut(() =>
      budget.inTurn(() => {
        slice.throwIfEnded();
        return handler({ type: 'added', object: encoded.decode() });
      }),
    );
    if (slice.isOver) await slice.giveWay();
    return wakeups;
  }

  /** @param known also gets the lookups that are resolved. */
  async #resolve(wakeup: Wakeup, passes: KeysWanted['passes'], known: Set<string>): Promise<readonly string[]> {
    if ('key' in wakeup) return [wakeup.key];
    const { lookup } = wakeup;
    if ('keys' in lookup && lookup.keys) return lookup.keys;
    // A lookup finds only objects in scope. Without a predicate, `keysInScope` queues the keys of all of them.
    if (!passes) return [];
    // Its text may have 4 KiB of labels, and is compared alone.
    const digest = createHash('sha256').update(JSON.stringify(lookup)).digest('base64');
    if (known.has(digest)) return [];
    known.add(digest);
    return this.#orLeftOut(async () => {
      await this.#options.budget.inTurn(() => {});
      return 'related' in lookup ? this.#options.lookups.related(lookup.related) : this.#find(lookup);
    });
  }

  async #find(lookup: Lookup): Promise<readonly string[]> {
    const view = this.#options.events.scope.views.find(({ location }) => location.prefix === lookup.view);
    return view ? resolveLookup(view, lookup, this.#options.lookups) : [];
  }

  async #orLeftOut<T>(work: () => Promise<readonly T[]>): Promise<readonly T[]> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof HandlerError)) throw error;
      this.#options.onLeftOut(error);
      return [];
    }
  }

  /** Keeps keys without an object, and keys whose objects the predicate alone leaves out. */
  async #withoutOwn(keys: readonly string[], passes: KeysWanted['passes'], slice: TimeSlice): Promise<string[]> {
    const { scope } = this.#options.events;
    const left: string[] = [];
    for (const view of scope.views) {
      const inView = keys.filter((key) => view.contains(namespaceOfKey(key)));
      for (let from = 0; from < inView.length; from += OBJECTS) {
        const part = inView.slice(from, from + OBJECTS);
        left.push(...(passes ? await this.#refused(view, part, { passes, slice }) : await withoutObject(view, part)));
      }
    }
    return left.filter((key) => scope.containsKey(key));
  }

  async #refused(
    view: View,
    keys: readonly string[],
    { passes, slice }: { readonly passes: NonNullable<KeysWanted['passes']>; readonly slice: TimeSlice },
  ): Promise<readonly string[]> {
    const refused: string[] = [];
    await view.objects.visit(
      keys,
      (key, object) => {
        if (!object || (this.#options.events.scope.selects(object) && !passes(object))) refused.push(key);
      },
      slice,
    );
    return refused;
  }
}

async function withoutObject(view: View, keys: readonly string[]): Promise<readonly string[]> {
  const entries = await view.objects.heads(keys);
  return keys.filter((_, at) => entries[at] === undefined);
}
