import type { CelInput } from '@bufbuild/cel';
import { celLibrary } from './library.ts';

/**
 * Converts parsed JSON to a CEL value. Objects convert their fields on access, because most expressions read few of
 * them. Whole numbers are integers, as they are in Kubernetes' schemas nearly everywhere; CEL compares them with
 * doubles all the same.
 */
export function celValue(json: unknown): CelInput {
  switch (typeof json) {
    case 'number':
      return Number.isSafeInteger(json) ? BigInt(json) : json;
    case 'bigint':
      // The apiserver treats an integer beyond 64 bits as a float.
      return BigInt.asIntN(64, json) === json ? json : Number(json);
    case 'string':
    case 'boolean':
      return json;
    case 'object':
      if (json === null) return null;
      return Array.isArray(json)
        ? celLibrary().celList(json.map(celValue))
        : new ObjectMap(json as Record<string, unknown>);
    default:
      return null;
  }
}

/** An object as the Map that the library reads. */
class ObjectMap extends Map<string, CelInput> {
  readonly #object: Readonly<Record<string, unknown>>;

  constructor(object: Readonly<Record<string, unknown>>) {
    super();
    this.#object = object;
  }

  // The library asks with keys of any type.
  override get(key: unknown): CelInput | undefined {
    return this.has(key) ? celValue(this.#object[key as string]) : undefined;
  }

  // Own properties only: "constructor" is a label like any other.
  override has(key: unknown): boolean {
    return typeof key === 'string' && Object.hasOwn(this.#object, key);
  }

  override get size(): number {
    return Object.keys(this.#object).length;
  }

  override keys(): MapIterator<string> {
    return Object.keys(this.#object).values();
  }

  override *values(): MapIterator<CelInput> {
    for (const key of this.keys()) yield celValue(this.#object[key]);
  }

  override *entries(): MapIterator<[string, CelInput]> {
    for (const key of this.keys()) yield [key, celValue(this.#object[key])];
  }

  override forEach(callback: (value: CelInput, key: string, map: Map<string, CelInput>) => void): void {
    for (const [key, value] of this.entries()) callback(value, key, this);
  }

  override [Symbol.iterator](): MapIterator<[string, CelInput]> {
    return this.entries();
  }
}

/** How much of a JSON value an expression may visit. */
export interface Extent {
  /** About how many values it has. A long text counts by its length. Counting stops at the limit. */
  readonly size: number;
  /** The entries of its largest list or object, which bound the steps of a loop. */
  readonly longest: number;
}

export function extentWithin(json: unknown, limit: number): Extent {
  let [size, longest] = [0, 0];
  const left: unknown[] = [json];
  while (left.length > 0 && size < limit) {
    const value = left.pop();
    size += typeof value === 'string' ? 1 + value.length / 64 : 1;
    if (typeof value !== 'object' || value === null) continue;
    const parts = Array.isArray(value) ? (value as unknown[]) : Object.values(value);
    longest = Math.max(longest, parts.length);
    for (const each of parts) left.push(each);
  }
  return { size, longest };
}
