import { ownValue, parseJson } from '../../core/index.ts';
import { isJson, isSame, type Json, setOwn } from './json.ts';
import { identityOf, listForm } from './list-keys.ts';
import { FakeApiError } from './fake-api-error.ts';

/** From the root: names of fields, the keys of an item with their values, `{value}` for a member of a set. */
type Path = readonly (string | Readonly<Record<string, string>>)[];
/** An object that is not empty has no owner itself, and its value is `{}`, as that of an empty one. */
type Part = { readonly path: Path; readonly value: unknown; readonly hasOwner: boolean };

/**
 * The owners of the fields of one object: server-side apply (structured-merge-diff), limited to its effects on the
 * object. The schemas of custom resources are unknown here, so their lists are atomic, except for the lists that every
 * kind has.
 */
export class FieldOwners {
  readonly #isBuiltIn: boolean;
  /** Manager -> paths. An applied status has a manager of its own, as the apiserver tells it by its subresource. */
  readonly #owned = new Map<string, Set<string>>();

  constructor(isBuiltIn: boolean) {
    this.#isBuiltIn = isBuiltIn;
  }

  /** @throws FakeApiError 409 that names the conflicts */
  apply(existing: Json, config: Json, { manager, force }: { manager: string; force: boolean }): Json {
    const owned = this.#parts(config).filter(({ hasOwner }) => hasOwner);
    const before = new Map(this.#parts(existing).map(({ path, value }) => [text(path), value]));
    const conflicts = owned.flatMap(({ path, value }) => {
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
    const wanted = new Set(owned.map(({ path }) => text(path)));
    const former = [...(this.#owned.get(manager) ?? [])];
    this.#owned.set(manager, wanted);
    let result = structuredClone(existing);
    // The longest first: an item is removed after its fields, unless others own a part of it.
    for (const each of former.toSorted((a, b) => b.length - a.length)) {
      const path = parseJson(each) as Path;
      if (!this.#isOwned(path)) result = without(result, path, (above) => this.#isOwned(above)) as Json;
    }
    return this.#merge(result, config) as Json;
  }

  /** Records another kind of write: its manager becomes the only owner of the changed fields. */
  changed(before: Json, after: Json, manager: string): void {
    const old = new Map(this.#parts(before).map((part) => [text(part.path), part]));
    const now = new Map(this.#parts(after).map((part) => [text(part.path), part]));
    const own = this.#owned.get(manager) ?? new Set();
    this.#owned.set(manager, own);
    for (const path of new Set([...old.keys(), ...now.keys()])) {
      if (isSame(old.get(path)?.value, now.get(path)?.value)) continue;
      for (const paths of this.#owned.values()) paths.delete(path);
      if (now.get(path)?.hasOwner) own.add(path);
    }
  }

  /** All owners as text, to compare: an apply that changes only these makes a new version, too. */
  toString(): string {
    const owners = [...this.#owned].filter(([, paths]) => paths.size > 0);
    return String(owners.map(([manager, paths]) => JSON.stringify([manager, ...[...paths].toSorted()])).toSorted());
  }

  /** Whether it has an owner, or a part of it has. */
  #isOwned(path: Path): boolean {
    const [own, below] = [text(path), `${text(path).slice(0, -1)},`];
    return [...this.#owned.values()].some(
      (paths) => paths.has(own) || [...paths].some((each) => each.startsWith(below)),
    );
  }

  #othersWith(path: string, manager: string): string[] {
    return [...this.#owned].filter(([other, paths]) => other !== manager && paths.has(path)).map(([other]) => other);
  }

  /**
   * Every value that can have an owner, including items of keyed lists, and the objects around them. The fields that
   * identify the object have no owner.
   */
  #parts({ apiVersion: _, kind: __, metadata, ...rest }: Json): Part[] {
    const { labels, annotations, finalizers, ownerReferences } = (metadata ?? {}) as Json;
    const owned = Object.entries({ labels, annotations, finalizers, ownerReferences });
    return [
      ...this.#fieldsOf(rest, []),
      ...owned.flatMap(([name, value]) => (value === undefined ? [] : this.#partsOf(value, ['metadata', name]))),
    ];
  }

  #fieldsOf(value: Json, path: Path): Part[] {
    return Object.entries(value).flatMap(([name, each]) => this.#partsOf(each, [...path, name]));
  }

  #partsOf(value: unknown, path: Path): Part[] {
    if (isJson(value)) {
      const fields = this.#fieldsOf(value, path);
      return [{ path, value: {}, hasOwner: fields.length === 0 }, ...fields];
    }
    const whole = { path, value, hasOwner: true };
    if (!Array.isArray(value)) return [whole];
    const field = path.at(-1);
    const form = listForm(typeof field === 'string' ? field : '', value, this.#isBuiltIn);
    if (form === 'atomic') return [whole];
    return (value as unknown[]).flatMap((item) => {
      if (form === 'set') return [{ path: [...path, `{${String(item)}}`], value: item, hasOwner: true }];
      // The keys identify the item, and are none of its fields.
      const keys = identityOf(item as Json, form.key);
      const fields = Object.fromEntries(Object.entries(item as Json).filter(([name]) => !Object.hasOwn(keys, name)));
      const at = [...path, keys];
      return [{ path: at, value: true, hasOwner: true }, ...this.#fieldsOf(fields, at)];
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

/**
 * The value without the part at a path, and without objects and lists that are empty then, unless they are owned. An
 * item stays while others own a part of it.
 */
function without(value: unknown, [first, ...rest]: Path, isOwned: (path: Path) => boolean, above: Path = []): unknown {
  if (first === undefined) return value;
  if (Array.isArray(value)) {
    const items = value as unknown[];
    if (typeof first === 'string') return items.filter((item) => `{${String(item)}}` !== first);
    const [key = ''] = Object.keys(first);
    const isIt = (item: unknown): boolean => isSame(identityOf(item as Json, key), first);
    const inner = (item: unknown): unknown => without(item, rest, isOwned, [...above, first]);
    if (rest.length > 0) return items.map((item) => (isIt(item) ? inner(item) : item));
    return items.filter((item) => !isIt(item) || Object.keys(item as Json).some((name) => !Object.hasOwn(first, name)));
  }
  if (typeof first !== 'string' || !isJson(value) || !Object.hasOwn(value, first)) return value;
  const { [first]: found, ...others } = value;
  if (rest.length === 0) return others;
  const path = [...above, first];
  const left = without(found, rest, isOwned, path);
  const isEmptied = typeof left === 'object' && left !== null && Object.keys(left).length === 0;
  return isEmptied && !isOwned(path) ? others : { ...value, [first]: left };
}
