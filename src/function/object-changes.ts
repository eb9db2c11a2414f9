import { formatJson, isCredentialName, NewestMap, ownValue } from '../core/index.ts';

/** Changes that are named; of more only the number is given. */
const MOST = 8;
const VALUE = 60;
/** Objects that a process remembers from run to run, and characters of one of them. */
const MOST_SEEN = 256;
const SEEN = 16_384;
/** What the apiserver itself changes with every write. */
const IGNORED: ReadonlySet<string> = new Set([
  'metadata.managedFields',
  'metadata.resourceVersion',
  'metadata.generation',
]);

/**
 * Says for people what differs between two states of an object: `spec.replicas 2 → 3, metadata.labels.app was added`.
 * Lists of different lengths are compared by their lengths alone. What stands under the name of a credential is named
 * without its value.
 * @param withValues false: only the names of fields, as for a Secret.
 * @returns '' when nothing differs but what the apiserver changes with every write.
 */
export function changesBetween(before: unknown, after: unknown, withValues = true): string {
  const changes: string[] = [];
  let more = 0;
  const add = (path: string, change: string): void => {
    if (changes.length < MOST) changes.push(`${path}${change}`);
    else more += 1;
  };
  const compare = (path: string, old: unknown, now: unknown, isShown: boolean): void => {
    if (old === now || IGNORED.has(path)) return;
    if (isMap(old) && isMap(now)) {
      for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
        const isNamed = isCredentialField(old, name) || isCredentialField(now, name);
        compare(pathTo(path, name), ownValue(old, name), ownValue(now, name), isShown && !isNamed);
      }
    } else if (Array.isArray(old) && Array.isArray(now) && old.length === now.length) {
      for (const [at, each] of old.entries()) compare(`${path}[${at}]`, each, now[at], isShown);
    } else if (Array.isArray(old) && Array.isArray(now)) {
      add(path, `: ${old.length} → ${now.length} items`);
    } else if (old === undefined) {
      add(path, isShown ? ` was added: ${shown(now)}` : ' was added');
    } else if (now === undefined) {
      add(path, ' was removed');
    } else {
      add(path, isShown ? ` ${shown(old)} → ${shown(now)}` : ' was changed');
    }
  };
  compare('', before, after, withValues);
  return [...changes, ...(more > 0 ? [`and ${more} more`] : [])].join(', ');
}

/**
 * The value without what stands under the name of a credential: `password: ...`, the item `{name: 'PASSWORD', value:
 * ...}` of a list, and the operation `{path: '/spec/password', value: ...}` of a patch.
 */
export function withoutCredentials(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutCredentials);
  if (!isMap(value)) return value;
  const shownOf = (name: string): unknown =>
    isCredentialField(value, name) ? HIDDEN : withoutCredentials(ownValue(value, name));
  return Object.fromEntries(Object.keys(value).map((name) => [name, shownOf(name)]));
}

const HIDDEN = '[hidden]';

function isCredentialField(map: Record<string, unknown>, name: string): boolean {
  if (isCredentialName(name)) return true;
  if (name !== 'value') return false;
  const names = [ownValue(map, 'name'), ownValue(map, 'path')];
  return names.some((each) => typeof each === 'string' && isCredentialName(each));
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function pathTo(path: string, name: string): string {
  if (!/^[\w-]+$/.test(name)) return `${path}[${formatJson(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

function shown(value: unknown): string {
  const text = formatJson(withoutCredentials(value));
  return text.length > VALUE ? `${text.slice(0, VALUE)}…` : text;
}

/** Keeps the texts of the objects that the last runs in this process have read, so that a run can name the changes. */
export class SeenObjects {
  readonly #seen = new NewestMap<string, { readonly version: string | undefined; readonly text: string }>(MOST_SEEN);

  /** The text of an object, if it is still of this version. */
  textOf(path: string, version: string | undefined): string | undefined {
    const seen = this.#seen.get(path);
    return seen?.version === version ? seen?.text : undefined;
  }

  /** The text of the time before. */
  replace(path: string, version: string | undefined, text: string): string | undefined {
    const before = this.#seen.get(path)?.text;
    if (text.length <= SEEN) this.#seen.set(path, { version, text });
    else this.#seen.delete(path);
    return before;
  }
}
