import { type KubernetesObject, ownValue } from '../core/index.ts';

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

/**
 * The value of a field as text that is equal for equal values: `[]` where there is none. A list on the way counts with
 * all of its items.
 */
export function observedValue(object: KubernetesObject, field: string): string {
  let values: unknown[] = [object];
  for (const { name, only } of partsOf(field)) {
    values = values.flatMap((value) => itemsOf(memberOf(value, name)));
    if (only) values = values.filter((value) => memberOf(value, only.key) === only.value);
  }
  return JSON.stringify(values);
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
