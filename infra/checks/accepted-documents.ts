/**
 * Documents at the limits of the contract. The gateway accepts each document of `infra/contract/v1/accepted`, and still
 * accepts each of `released/accepted`, which the last release accepted: see `infra/contract/versions.md`.
 */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

export interface AcceptedDocument {
  /** Its file, and the limit that it is at. */
  readonly name: string;
  /** The first word of the file's name: `outcome` of `outcome-writes.ndjson`. */
  readonly kind: string;
  readonly value: unknown;
}

/** Reads the documents of a folder: one from each line, file by file in the order of their names. */
export function acceptedDocuments(folder: string): AcceptedDocument[] {
  const files = globSync('*.ndjson', { cwd: folder }).toSorted();
  return files.flatMap((file) => {
    const [kind = ''] = file.split(/[-.]/);
    const lines = readFileSync(join(folder, file), 'utf8').trim().split('\n');
    return lines.map((line) => {
      const { what, document } = JSON.parse(line) as { what: string; document: unknown };
      return { name: `${basename(file, '.ndjson')}: ${what}`, kind, value: writtenOut(document) };
    });
  });
}

/**
 * Writes out a document that is stored in fewer words:
 *
 * - `<a*63>` in a text or in the name of a field is `a` 63 times;
 * - `{"times": 100, "of": X}` in a list is X 100 times, and `<at>` within X counts from 1, as a number where it stands
 *   alone;
 * - `{"levels": 50, "of": X}` is X within 50 lists.
 */
export function writtenOut(value: unknown, at = 0): unknown {
  if (value === '<at>') return at;
  if (typeof value === 'string') return textOf(value, at);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    return value.flatMap((each: unknown) => {
      const { count, of } = repeated(each, 'times');
      if (count === undefined) return [writtenOut(each, at)];
      return Array.from({ length: count }, (_, index) => writtenOut(of, index + 1));
    });
  }
  const { count, of } = repeated(value, 'levels');
  if (count !== undefined) return Array.from({ length: count }).reduce<unknown>((inner) => [inner], writtenOut(of, at));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [textOf(name, at), writtenOut(each, at)]));
}

/** The number and the repeated part of a value with just these two fields. */
function repeated(value: unknown, field: 'times' | 'levels'): { readonly count?: number; readonly of?: unknown } {
  const fields = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  if (Object.keys(fields).join() !== `${field},of`) return {};
  return { count: Number(fields[field]), of: fields['of'] };
}

function textOf(text: string, at: number): string {
  const repeat = (_: string, part: string, times: string): string => part.repeat(Number(times));
  return text.replaceAll('<at>', String(at)).replace(/<([^<>]+)\*(\d+)>/g, repeat);
}

type Schema = { readonly [keyword: string]: unknown };

/**
 * The bounds and the fixed values of a schema at which none of the values are, each with the nearest field:
 * `names: maxItems 256`. Places with the same field and the same bound count as one.
 */
export class UnreachedBounds {
  readonly #reached = new Map<string, boolean>();

  get list(): string[] {
    return [...this.#reached].flatMap(([bound, isReached]) => (isReached ? [] : [bound])).toSorted();
  }

  get count(): number {
    return this.#reached.size;
  }

  /** @param values at the place of the schema, which is in the field of a document with the schema `root`. */
  add(schema: Schema, values: readonly unknown[], field = '', root = schema): void {
    const reference = schema['$ref'];
    if (typeof reference === 'string') {
      const name = reference.replace('#/$defs/', '');
      return this.add((root['$defs'] as Record<string, Schema>)[name] ?? {}, values, field, root);
    }
    for (const [keyword, bound] of Object.entries(schema)) {
      const isAt = (value: unknown): boolean => SIZES[keyword]?.(value) === bound;
      if (SIZES[keyword]) this.#record(`${field}: ${keyword} ${String(bound)}`, values.some(isAt));
    }
    const fixed = 'const' in schema ? [schema['const']] : ((schema['enum'] ?? []) as unknown[]);
    for (const each of fixed) this.#record(`${field}: ${JSON.stringify(each)}`, values.includes(each));
    for (const each of (schema['anyOf'] ?? schema['oneOf'] ?? []) as Schema[]) {
      const own = values.filter((value) => isOfAlternative(each, value));
      this.add(each, own, field, root);
    }
    this.#addParts(schema, values, field, root);
  }

  #addParts(schema: Schema, values: readonly unknown[], field: string, root: Schema): void {
    const objects = values.filter((value) => typeof value === 'object' && value !== null && !Array.isArray(value));
    for (const [name, each] of Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)) {
      const inner = objects.flatMap((value) => (Object.hasOwn(value as object, name) ? [(value as Schema)[name]] : []));
      this.add(each, inner, name, root);
    }
    const parts = {
      items: values.filter(Array.isArray).flat(),
      propertyNames: objects.flatMap((value) => Object.keys(value as object)),
      additionalProperties: objects.flatMap((value) => Object.values(value as object)),
    };
    for (const [keyword, inner] of Object.entries(parts)) {
      const each = schema[keyword];
      if (typeof each === 'object' && each !== null) this.add(each as Schema, inner as unknown[], field, root);
    }
  }

  #record(bound: string, isReached: boolean): void {
    this.#reached.set(bound, isReached || this.#reached.get(bound) === true);
  }
}

const charactersOf = (value: unknown): unknown => (typeof value === 'string' ? Array.from(value).length : undefined);
const itemsOf = (value: unknown): unknown => (Array.isArray(value) ? value.length : undefined);
const SIZES: Readonly<Record<string, (value: unknown) => unknown>> = {
  minLength: charactersOf,
  maxLength: charactersOf,
  minItems: itemsOf,
  maxItems: itemsOf,
  minimum: (value) => value,
  maximum: (value) => value,
};

/** Whether the constant fields of an alternative are those of the value. */
function isOfAlternative({ properties = {} }: Schema, value: unknown): boolean {
  const constants = Object.entries(properties as Record<string, Schema>).filter(([, each]) => 'const' in each);
  return constants.every(([name, each]) => (value as Schema)[name] === each['const']);
}
