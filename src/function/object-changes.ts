import { formatJson, NewestMap, ownValue } from '../core/index.ts';

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
 * Lists of different lengths are compared by their lengths alone.
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
  const compare = (path: string, old: unknown, now: unknown): void => {
    if (old === now || IGNORED.has(path)) return;
    if (isMap(old) && isMap(now)) {
      for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
        compare(pathTo(path, name), ownValue(old, name), ownValue(now, name));
      }
    } else if (Array.isArray(old) && Array.isArray(now) && old.length === now.length) {
      for (const [at, each] of old.entries()) compare(`${path}[${at}]`, each, now[at]);
    } else if (Array.isArray(old) && Array.isArray(now)) {
      add(path, `: ${old.length} → ${now.length} items`);
    } else if (old === undefined) {
      add(path, withValues ? ` was added: ${shown(now)}` : ' was added');
    } else if (now === undefined) {
      add(path, ' was removed');
    } else {
      add(path, withValues ? ` ${shown(old)} → ${shown(now)}` : ' was changed');
    }
  };
  compare('', before, after);
  return [...changes, ...(more > 0 ? [`and ${more} more`] : [])].join(', ');
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function pathTo(path: string, name: string): string {
  if (!/^[\w-]+$/.test(name)) return `${path}[${formatJson(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

function shown(value: unknown): string {
  const text = formatJson(value);
  return text.length > VALUE ? `${text.slice(0, VALUE)}…` : text;
}

/** Keeps the texts of the objects that the last runs in this process have read, so that a run can name the changes. */
export class SeenObjects {
  readonly #texts = new NewestMap<string, string>(MOST_SEEN);

  /** The text of the time before. */
  replace(path: string, text: string): string | undefined {
    const before = this.#texts.get(path);
    if (text.length <= SEEN) this.#texts.set(path, text);
    else this.#texts.delete(path);
    return before;
  }
}
