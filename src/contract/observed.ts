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
/** Characters of the identities of an object's items that have a time of their own. Items beyond this have no time. */
const MAX_IDENTITIES = 2048;

/**
 * A field's value as text that is equal for equal values: `[]` where there is none. A list on the way counts with all
 * of its items. A value of more than 32 levels or 2000 nodes counts as changed with each version of the object.
 */
export function observedValue(object: KubernetesObject, field: string): string {
  const values = valuesOf(object, field);
  return sizeOf(values, MAX_LEVELS, MAX_NODES) <= MAX_NODES ? formatJson(values) : object.metadata.resourceVersion;
}

/** Whether a field has braces: each item of its list has a time. */
export const hasItems = (field: string): boolean => ITEM_FIELDS.test(field);

/**
 * The items that have a time of their own, each as `observedItem` names it; undefined for a field without braces, whose
 * value has one time.
 */
export function observedItems(object: KubernetesObject, field: string): string[] | undefined {
  if (!hasItems(field)) return undefined;
  const identities = valuesOf(object, field).flatMap((item) => observedItem(field, item) ?? []);
  let room = MAX_IDENTITIES;
  return [...new Set(identities)].filter((identity) => (room -= identity.length) >= 0);
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

function valuesOf(object: KubernetesObject, field: string): unknown[] {
  let values: unknown[] = [object];
  for (const { name, only } of partsOf(field)) {
    values = values.flatMap((value) => itemsOf(memberOf(value, name)));
    if (only) values = values.filter((value) => isNamed(memberOf(value, only.key), only.value));
  }
  return values;
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

function itemsOf(value: unknown): unknown[] {
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
