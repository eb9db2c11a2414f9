import {
  fulfils,
  isNamespace,
  type LabelRequirement,
  namespaceOfKey,
  parseLabelSelector,
} from '../../../core/index.ts';
import type { RunningController } from '../../controller/running/controller.ts';
import type { View } from '../../informer/cache/view.ts';
import type { ReadingTime } from '../cache-api/reading-time.ts';
import type { FoundObject, KeysFound, ObjectsFound } from '../dashboard/data.ts';
import type { KeySearch } from '../dashboard/key-search.ts';

/** Objects on the page of one search. */
const MOST_FOUND = 50;
/** Keys that one search reads in a view, and objects that it decodes for their labels. */
const MOST_KEYS = 20_000;
const MOST_LABELS = 1000;
const STEP = 1000;
/** Namespaces whose right is asked for, for a visitor who may not read a kind in all. */
const MOST_NAMESPACES = 10;
/** Milliseconds of the thread to read one key from Redis, and one entry with its UID. */
const KEY_MS = 0.001;
const ENTRY_MS = 0.005;
/** Bytes of entries that Redis looks at in a millisecond. */
const BYTES_PER_MS = 1024 * 1024;
/** As the apiserver makes them. */
const UID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;

export interface SearchOptions {
  readonly views: readonly View[];
  readonly controllers: ReadonlyMap<string, RunningController>;
  /** Why a visitor may not see objects of a view in a namespace, or in all; undefined: the visitor may. */
  readonly hiddenReason: (view: View, namespace: string | undefined) => Promise<string | undefined>;
  /** Of the visitor. */
  readonly time: Pick<ReadingTime, 'pace' | 'tenant'>;
}

/** What a search is for. */
export type ObjectQuery =
  | { readonly by: 'uid'; readonly uid: string }
  | { readonly by: 'labels'; readonly requirements: readonly LabelRequirement[] }
  | { readonly by: 'name'; readonly namespace: string | undefined; readonly name: string };

/** Reads a UID, a label selector with `=` or `!`, `NAMESPACE/NAME`, or a part of a name. @throws SelectorError */
export function parseQuery(text: string): ObjectQuery {
  if (UID.test(text)) return { by: 'uid', uid: text };
  if (/[=!]/.test(text)) return { by: 'labels', requirements: parseLabelSelector(text) };
  const slash = text.indexOf('/');
  if (slash < 1) return { by: 'name', namespace: undefined, name: text.slice(slash + 1) };
  return { by: 'name', namespace: text.slice(0, slash), name: text.slice(slash + 1) };
}

/**
 * Searches all views for objects that the visitor may read. Objects with exactly the wanted name come first. RBAC is
 * asked about a view only if the view has an object that fits.
 */
export async function searchObjects(query: ObjectQuery, options: SearchOptions): Promise<ObjectsFound> {
  const namespace = query.by === 'name' ? query.namespace : undefined;
  if (namespace !== undefined && !isNamespace(namespace)) return { objects: [], isWhole: true };
  let isWhole = true;
  const found: FoundObject[] = [];
  for (const view of options.views) {
    if (namespace !== undefined && (!view.resource.namespaced || !view.contains(namespace))) continue;
    const { keys, isEnd } = await matching(view, query, MOST_FOUND - found.length, options.time);
    isWhole &&= isEnd;
    const readable = await readableOf(view, keys, namespace, options);
    found.push(...readable.map((key) => ({ view: view.name, key, controllers: reconciling(view, key, options) })));
    // A UID has one object. A full page may lack objects of the views behind this one.
    const isFull = found.length >= MOST_FOUND;
    if (isFull || (query.by === 'uid' && found.length > 0)) return { objects: inOrder(found, query), isWhole: !isFull };
  }
  return { objects: inOrder(found, query), isWhole };
}

/** The keys whose objects the visitor may read. */
async function readableOf(
  view: View,
  keys: readonly string[],
  namespace: string | undefined,
  { hiddenReason }: SearchOptions,
): Promise<readonly string[]> {
  if (keys.length === 0 || (await hiddenReason(view, namespace)) === undefined) return keys;
  if (namespace !== undefined || !view.resource.namespaced) return [];
  const namespaces = [...new Set(keys.map(namespaceOfKey))].slice(0, MOST_NAMESPACES);
  const reasons = await Promise.all(namespaces.map((each) => hiddenReason(view, each)));
  const readable = namespaces.filter((_, at) => reasons[at] === undefined);
  return keys.filter((key) => readable.includes(namespaceOfKey(key)));
}

/** @returns the keys, and whether all objects of the view were looked at. */
async function matching(
  view: View,
  query: ObjectQuery,
  limit: number,
  time: SearchOptions['time'],
): Promise<{ readonly keys: readonly string[]; readonly isEnd: boolean }> {
  const namespace = query.by === 'name' ? query.namespace : undefined;
  const found: string[] = [];
  let looked = 0;
  for await (const keys of view.objects.keys(query.by === 'labels' ? MOST_FOUND : STEP, namespace)) {
    found.push(...(await selected(view, keys, query, time)));
    looked += keys.length;
    if (found.length > 0 && query.by === 'uid') return { keys: found, isEnd: true };
    if (found.length >= limit) return { keys: found.slice(0, limit), isEnd: false };
    if (looked >= (query.by === 'labels' ? MOST_LABELS : MOST_KEYS)) return { keys: found, isEnd: false };
  }
  return { keys: found, isEnd: true };
}

async function selected(
  view: View,
  keys: readonly string[],
  query: ObjectQuery,
  { pace, tenant }: SearchOptions['time'],
): Promise<readonly string[]> {
  switch (query.by) {
    case 'name':
      return pace(() => keys.filter((key) => nameOf(key).includes(query.name)), keys.length * KEY_MS);
    case 'uid': {
      let bytes = 0;
      const paid = (more: number): void => {
        bytes += more;
      };
      const heads = await view.objects.heads(keys, { tenant, paid });
      const spentMs = keys.length * ENTRY_MS + bytes / BYTES_PER_MS;
      return pace(() => keys.filter((_, at) => heads[at]?.uid === query.uid), spentMs);
    }
    case 'labels': {
      const found: string[] = [];
      for (let from = 0; from < keys.length;) {
        const encoded = await view.objects.first(keys.slice(from), tenant);
        for (const [at, each] of encoded.entries()) {
          const object = each && (await pace(() => each.decode()));
          if (object && fulfils(query.requirements, object.metadata.labels)) found.push(keys[from + at] ?? '');
        }
        from += encoded.length;
      }
      return found;
    }
  }
}

function nameOf(key: string): string {
  return key.slice(key.indexOf('/') + 1);
}

/** The controllers of the kind and the namespace: whether their label selectors fit only the object shows. */
function reconciling(view: View, key: string, { controllers }: SearchOptions): readonly string[] {
  return [...controllers.values()].flatMap((each) =>
    each.reconciledViews.includes(view) && each.hasInScope(key) ? [each.name] : [],
  );
}

function inOrder(found: readonly FoundObject[], query: ObjectQuery): readonly FoundObject[] {
  if (query.by !== 'name') return found;
  const isExact = ({ key }: FoundObject): boolean => nameOf(key) === query.name;
  return found.toSorted((a, b) => Number(isExact(b)) - Number(isExact(a)));
}

/** Keys of the objects of these views, in their order: see `ControllerAccess.keys`. */
export async function keysIn(
  views: readonly View[],
  { namespace, name }: KeySearch,
  { after, limit, isInScope, time }: KeysPage,
): Promise<KeysFound> {
  const found: string[] = [];
  let looked = 0;
  const wanted = namespace === '' ? undefined : namespace;
  for (const view of inNamespaces(views).filter((each) => wanted === undefined || each.contains(wanted))) {
    for await (const keys of view.objects.keys(STEP, wanted, after)) {
      const select = (): string[] => keys.filter((key) => nameOf(key).includes(name) && isInScope(key));
      const all = await time.pace(select, keys.length * KEY_MS);
      const room = limit - found.length;
      found.push(...all.slice(0, room));
      if (all.length > room) {
        const last = found.at(-1) ?? '';
        return { keys: found, looked: looked + keys.indexOf(last) + 1, next: last };
      }
      looked += keys.length;
      if (looked >= MOST_KEYS) return { keys: found, looked, next: keys.at(-1) };
    }
  }
  return { keys: found, looked, next: undefined };
}

interface KeysPage {
  readonly after: string;
  readonly limit: number;
  readonly isInScope: (key: string) => boolean;
  /** Of the visitor. */
  readonly time: Pick<ReadingTime, 'pace'>;
}

/** Views of one namespace each, so that the keys of one come behind those of the one before. */
function inNamespaces(views: readonly View[]): readonly View[] {
  const startOf = ({ location: { namespace } }: View): string => (namespace === undefined ? '' : `${namespace}/`);
  return views.toSorted((a, b) => (startOf(a) < startOf(b) ? -1 : 1));
}
