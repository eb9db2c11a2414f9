import { ownValue, parseJson } from '../../core/index.ts';
import { isJson, isSame, type Json, setOwn } from './json.ts';
import { identityOf, listForm } from './list-keys.ts';
import { FakeApiError } from './fake-api-error.ts';

/** From the root: names of fields, the keys of an item with their values, `{value}` for a member of a set. */
type Path = readonly (string | Readonly<Record<string, string>>)[];
type Leaf = { readonly path: Path; readonly value: unknown };

/**
 * The owners of the fields of one object: server-side apply (structured-merge-diff), limited to its effects on the
 * object. The schemas of custom resources are unknown here, so their lists are atomic, except for the lists that every
 * kind has.
 */
export class FieldOwners {
  readonly #isBuiltIn: boolean;
  /** Manager -> paths. */
  readonly #owned = new Map<string, Set<string>>();

  constructor(isBuiltIn: boolean) {
    this.#isBuiltIn = isBuiltIn;
  }

  /** @throws FakeApiError 409 that names the conflicts */
  apply(existing: Json, config: Json, { manager, force }: { manager: string; force: boolean }): Json {
    const leaves = this.#leaves(config);
    const before = new Map(this.#leaves(existing).map(({ path, value }) => [text(path), value]));
    const conflicts = leaves.flatMap(({ path, value }) => {
      if (isSame(before.get(text(path)), value)) return [];
      return this.#othersWith(text(path), manager).map((other) => ({ path, other }));
    });
    if (conflicts.length > 0 && !force) {
      const causes = conflicts.map(({ path, other }) => ({
        reason: 'FieldManagerConflict',
        message: `conflict with "${other}"`,
        field: shown(path),
      }));
      const [{ path, other } = { path: [], other: '' }] = conflicts;
      const what =
        conflicts.length === 1 ? `1 conflict with "${other}": ${shown(path)}` : `${conflicts.length} conflicts`;
      throw new FakeApiError(409, `Apply failed with ${what}`, { causes });
    }
    for (const { path, other } of conflicts) this.#owned.get(other)?.delete(text(path));
    const wanted = new Set(leaves.map(({ path }) => text(path)));
    const dropped = [...(this.#owned.get(manager) ?? [])].filter(
      (path) => !wanted.has(path) && this.#othersWith(path, manager).length === 0,
    );
    this.#owned.set(manager, wanted);
    let result = structuredClone(existing);
    // The longest first: an item is removed after its fields, unless others own a part of it.
    for (const path of dropped.toSorted((a, b) => b.length - a.length)) {
      result = without(result, parseJson(path) as Path) as Json;
    }
    return this.#merge(result, config) as Json;
  }

  /** Records another kind of write: its manager becomes the only owner of the changed fields. */
  changed(before: Json, after: Json, manager: string): void {
    const old = new Map(this.#leaves(before).map(({ path, value }) => [text(path), value]));
    const now = new Map(this.#leaves(after).map(({ path, value }) => [text(path), value]));
    const own = this.#owned.get(manager) ?? new Set();
    this.#owned.set(manager, own);
    for (const path of new Set([...old.keys(), ...now.keys()])) {
      if (isSame(old.get(path), now.get(path))) continue;
      for (const paths of this.#owned.values()) paths.delete(path);
      if (now.has(path)) own.add(path);
    }
  }

  #othersWith(path: string, manager: string): string[] {
    return [...this.#owned].filter(([other, paths]) => other !== manager && paths.has(path)).map(([other]) => other);
  }

  /**
   * Every value that can have an owner, including items of keyed lists. The fields that identify the object have no
   * owner.
   */
  #leaves({ apiVersion: _, kind: __, metadata, ...rest }: Json): Leaf[] {
    const { labels, annotations, finalizers, ownerReferences } = (metadata ?? {}) as Json;
    const owned = { labels, annotations, finalizers, ownerReferences };
    const present = Object.fromEntries(Object.entries(owned).filter(([, value]) => value !== undefined));
    return this.#leavesOf({ ...rest, metadata: present }, []);
  }

  #leavesOf(value: unknown, path: Path): Leaf[] {
    if (isJson(value)) {
      return Object.entries(value).flatMap(([name, each]) => this.#leavesOf(each, [...path, name]));
    }
    if (!Array.isArray(value)) return [{ path, value }];
    const field = path.at(-1);
    const form = listForm(typeof field === 'string' ? field : '', value, this.#isBuiltIn);
    if (form === 'atomic') return [{ path, value }];
    return (value as unknown[]).flatMap((item) => {
      if (form === 'set') return [{ path: [...path, `{${String(item)}}`], value: item }];
      // The keys identify the item, and are none of its fields.
      const keys = identityOf(item as Json, form.key);
      const fields = Object.fromEntries(Object.entries(item as Json).filter(([name]) => !Object.hasOwn(keys, name)));
      const at = [...path, keys];
      return [{ path: at, value: true }, ...this.#leavesOf(fields, at)];
    });
  }

  #merge(old: unknown, config: unknown, field = ''): unknown {
    if (isJson(config)) {
      const merged: Json = isJson(old) ? { ...old } : {};
      for (const [name, value] of Object.entries(config)) {
        setOwn(merged, name, this.#merge(ownValue(merged, name), value, name));
      }
      return merged;
    }
    if (!Array.isArray(config) || !Array.isArray(old)) return structuredClone(config);
    const form = listForm(field, [...(old as unknown[]), ...(config as unknown[])], this.#isBuiltIn);
    if (form === 'atomic') return structuredClone(config);
    if (form === 'set') return [...new Set([...(old as unknown[]), ...(config as unknown[])])];
    const items = [...(old as Json[])];
    for (const item of config as Json[]) {
      const keys = identityOf(item, form.key);
      const at = items.findIndex((each) => isSame(identityOf(each, form.key), keys));
      if (at < 0) items.push(item);
      else items[at] = this.#merge(items[at], item) as Json;
    }
    return items;
  }
}

const text = (path: Path): string => JSON.stringify(path);

function shown(path: Path): string {
  const texts = path.map((part) => {
    if (typeof part === 'string') return part.startsWith('{') ? part : `.${part}`;
    const keys = Object.entries(part).map(([key, value]) => `${key}=${value}`);
    return `[${keys.join(',')}]`;
  });
  return texts.join('');
}

/** The value without the part at a path. An item stays while others own a part of it. */
function without(value: unknown, [first, ...rest]: Path): unknown {
  if (first === undefined) return value;
  if (Array.isArray(value)) {
    const items = value as unknown[];
    if (typeof first === 'string') return items.filter((item) => `{${String(item)}}` !== first);
    const [key = ''] = Object.keys(first);
    const isIt = (item: unknown): boolean => isSame(identityOf(item as Json, key), first);
    if (rest.length > 0) return items.map((item) => (isIt(item) ? without(item, rest) : item));
    return items.filter((item) => !isIt(item) || Object.keys(item as Json).some((name) => !Object.hasOwn(first, name)));
  }
  if (typeof first !== 'string' || !isJson(value) || !Object.hasOwn(value, first)) return value;
  if (rest.length > 0) return { ...value, [first]: without(value[first], rest) };
  const { [first]: _, ...others } = value;
  return others;
}
