import { formatJson, type KubernetesObject, ownValue } from '../core/index.ts';

/**
 * A field whose value is observed: names with dots between. A name may choose the items of a list whose field has a
 * value: `status.conditions[type=Ready].lastHeartbeatTime`, `spec.taints[effect=NoExecute]`.
 */
export const OBSERVED_FIELD = /^[^\s=.[\]]+(\[[^\s=.[\]]+=[^\s[\]]+\])?(\.[^\s=.[\]]+(\[[^\s=.[\]]+=[^\s[\]]+\])?)*$/;

const PART = /([^\s=.[\]]+)(?:\[([^\s=.[\]]+)=([^\s[\]]+)\])?/g;

interface Part {
  readonly name: string;
  /** Of the items of a list, those whose field `key` is `value`. */
  readonly only?: { readonly key: string; readonly value: string };
}

const partsByField = new Map<string, readonly Part[]>();

/** What a value may have, with all that is in it: more would cost every reader of the object's events. */
const MAX_LEVELS = 32;
const MAX_NODES = 2000;

/**
 * The value of a field as text that is equal for equal values: `[]` where there is none. A list on the way counts with
 * all of its items. A value of more than 32 levels or 2000 nodes counts as changed with each version of the object.
 */
export function observedValue(object: KubernetesObject, field: string): string {
  let values: unknown[] = [object];
  for (const { name, only } of partsOf(field)) {
    values = values.flatMap((value) => itemsOf(memberOf(value, name)));
    if (only) values = values.filter((value) => memberOf(value, only.key) === only.value);
  }
  return sizeOf(values, MAX_LEVELS, MAX_NODES) <= MAX_NODES ? formatJson(values) : object.metadata.resourceVersion;
}

/** How many nodes a value has; more than `most` if it has too many, or too many levels. */
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
  const parts = [...field.matchAll(PART)].map(([, name = '', key, value]): Part => {
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

/** When the value changed last, of what the HASH of an observed field has for an object: `time uid value`. */
export function observedAtMs(stored: string): number {
  return Number(stored.slice(0, stored.indexOf(' ')));
}
