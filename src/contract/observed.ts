import { formatJson, type KubernetesObject, NewestMap, ownValue } from '../core/index.ts';

/**
 * A field whose value is observed: names with dots between. A name may choose items of a list by the value of one of
 * their fields: `status.conditions[type=Ready].lastHeartbeatTime`, `spec.taints[effect=NoExecute]`. Fields in braces at
 * the end give each item of the list a time of its own, and identify the item:
 * `spec.taints[effect=NoExecute]{key,value}`.
 */
export const OBSERVED_FIELD =
  /^[^\s=.,[\]{}]+(\[[^\s=.[\]]+=[^\s[\]]+\])?(\.[^\s=.,[\]{}]+(\[[^\s=.[\]]+=[^\s[\]]+\])?)*(\{[^\s=.,[\]{}]+(,[^\s=.,[\]{}]+)*\})?$/;

const PART = /([^\s=.[\]]+)(?:\[([^\s=.[\]]+)=([^\s[\]]+)\])?/g;
const ITEM_FIELDS = /\{([^{}]*)\}$/;

interface Part {
  readonly name: string;
  /** Chooses the items of a list whose field `key` is `value`. */
  readonly only?: { readonly key: string; readonly value: string };
}

/** Functions that come and go name new fields, so the fields that were parsed last are kept alone. */
const partsByField = new NewestMap<string, readonly Part[]>(1000);

/** Limits of a value, nested values included. A larger one would cost every reader of the object's events. */
const MAX_LEVELS = 32;
const MAX_NODES = 2000;
/**
 * Items of an object that may have a time of their own, and the characters of their identities. Items beyond this have
 * no time.
 */
const MAX_ITEMS = 500;
const MAX_IDENTITIES = 2048;

/**
 * A field's value as text that is equal for equal values: `[]` where there is none. A list on the way counts with all
 * of its items. A value of more than 32 levels or 2000 nodes counts as changed with each version of the object, and so
 * does one behind lists of more than 2000 items.
 */
export function observedValue(object: KubernetesObject, field: string): string {
  const { values, isWhole } = valuesOf(object, field, MAX_NODES);
  const isSmall = isWhole && sizeOf(values, MAX_LEVELS, MAX_NODES) <= MAX_NODES;
  return isSmall ? formatJson(values) : object.metadata.resourceVersion;
}

/** Whether a field has braces: each item of its list has a time. */
export const hasItems = (field: string): boolean => ITEM_FIELDS.test(field);

/**
 * The items that have a time of their own, each as `observedItem` names it; undefined for a field without braces, whose
 * value has one time.
 */
export function observedItems(object: KubernetesObject, field: string): string[] | undefined {
  if (!hasItems(field)) return undefined;
  const found = new Set<string>();
  let room = MAX_IDENTITIES;
  for (const item of valuesOf(object, field, MAX_NODES).values.slice(0, MAX_ITEMS)) {
    const identity = observedItem(field, item);
    if (identity === undefined || found.has(identity) || (room -= identity.length) < 0) continue;
    found.add(identity);
  }
  return [...found];
}

/**
 * Identifies an item of the list by the values of the fields in braces, in JSON. An absent field counts as empty.
 * Undefined for an item without a time: a field is an object, or the identity is too long.
 */
export function observedItem(field: string, item: unknown): string | undefined {
  const values = (ITEM_FIELDS.exec(field)?.[1] ?? '').split(',').map((name) => memberOf(item, name) ?? '');
  if (values.some((value) => typeof value === 'object')) return undefined;
  const identity = JSON.stringify(values.map(String));
  return identity.length <= MAX_IDENTITIES ? identity : undefined;
}

/** Looks at `most` items of each step, and says whether there are no more. */
function valuesOf(
  object: KubernetesObject,
  field: string,
  most: number,
): { readonly values: readonly unknown[]; readonly isWhole: boolean } {
  let values: unknown[] = [object];
  let isWhole = true;
  for (const { name, only } of partsOf(field)) {
    const found: unknown[] = [];
    let left = most;
    for (const value of values) {
      const items = itemsOf(memberOf(value, name));
      isWhole &&= items.length <= left;
      for (const item of items.slice(0, left)) {
        if (!only || isNamed(memberOf(item, only.key), only.value)) found.push(item);
      }
      left = Math.max(0, left - items.length);
    }
    values = found;
  }
  return { values, isWhole };
}

/** Whether a value is written so: a path has text, also for numbers and booleans. */
function isNamed(value: unknown, text: string): boolean {
  if (typeof value === 'string') return value === text;
  return (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') && `${value}` === text;
}

/** The number of nodes of a value; more than `most` if it has too many nodes or too many levels. */
function sizeOf(value: unknown, levels: number, most: number): number {
  if (typeof value !== 'object' || value === null) return 1;
  if (levels === 0) return most + 1;
  let size = 1;
  for (const name in value) {
    size += sizeOf((value as Record<string, unknown>)[name], levels - 1, most - size);
    if (size > most) break;
  }
  return size;
}

function partsOf(field: string): readonly Part[] {
  const known = partsByField.get(field);
  if (known) return known;
  const parts = [...field.replace(ITEM_FIELDS, '').matchAll(PART)].map(([, name = '', key, value]): Part => {
    return key === undefined || value === undefined ? { name } : { name, only: { key, value } };
  });
  partsByField.set(field, parts);
  return parts;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? ownValue(value as Record<string, unknown>, name) : undefined;
}

function itemsOf(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}

/**
 * The time of the last change, from an object's entry in the HASH of an observed field: `time uid value`, or
 * `time uid` and for each item a line `time identity`.
 *
 * @param item as `observedItem` names it: the time when it came. Undefined is returned when it is not there.
 */
export function observedAtMs(stored: string): number;
export function observedAtMs(stored: string, item: string | undefined): number | undefined;
export function observedAtMs(stored: string, item?: string): number | undefined {
  const line = item === undefined ? stored : stored.split('\n').find((each, at) => at > 0 && identityOf(each) === item);
  return line === undefined ? undefined : Number(line.slice(0, line.indexOf(' ')));
}

const identityOf = (line: string): string => line.slice(line.indexOf(' ') + 1);
