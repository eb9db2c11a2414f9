import { type KubernetesObject, matchesLabels } from '../../core/index.ts';
import { indexEntriesOf } from '../../contract/index.ts';
import type { Lookup } from './change.ts';
import type { View } from './view.ts';

const BATCH = 500;

/** The keys that a lookup stands for, as the cache is now. */
export async function resolveLookup(view: View, lookup: Lookup): Promise<string[]> {
  const { declared, entries, keys: only, labelSelector, selector } = lookup;
  const complete = declared === undefined || (await view.indexes()).includes(declared);
  // An index that is still being filled cannot be asked; the objects can.
  const usable = complete ? entries : entries.filter((entry) => !entry.startsWith(`${declared}=`));
  if (complete && !only && !selector && !labelSelector) return view.keysWith(entries);
  const candidates = only ?? (await view.keysWith(usable));
  const found: string[] = [];
  for (let from = 0; from < candidates.length; from += BATCH) {
    const keys = candidates.slice(from, from + BATCH);
    const objects = await view.objects(keys);
    keys.forEach((key, at) => {
      const object = objects[at];
      if (object ? matches(object, lookup) : only) found.push(key);
    });
  }
  return found;
}

function matches(object: KubernetesObject, { declared, entries, labelSelector, selector }: Lookup): boolean {
  const carried = indexEntriesOf(object, declared === undefined ? [] : [declared]);
  if (!entries.every((entry) => carried.includes(entry))) return false;
  if (labelSelector && !matchesLabels(labelSelector, object.metadata.labels)) return false;
  return selector === undefined || selects(fieldAt(object, selector.path), selector.labels);
}

/**
 * Whether a selector as some kind writes it selects these labels: a LabelSelector, or a plain map of labels as a Service
 * has it. One that is missing or empty selects nothing, since that is what it means in every kind that has such a field.
 */
function selects(selector: unknown, labels: Readonly<Record<string, string>>): boolean {
  if (typeof selector !== 'object' || selector === null || Object.keys(selector).length === 0) return false;
  const isMap = Object.values(selector).every((value) => typeof value === 'string');
  return matchesLabels(isMap ? { matchLabels: selector as Record<string, string> } : selector, labels);
}

function fieldAt(object: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((at, name) => {
    return typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[name] : undefined;
  }, object);
}
