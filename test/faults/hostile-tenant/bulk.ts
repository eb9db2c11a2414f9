/**
 * JSON that is written out only when it is sent, so that an action with 1.5 MB or 10,000 levels stays a line in a
 * recording. An object is a list of its fields, since JSON has names that an object of JavaScript takes for something
 * else.
 */
export type Bulk =
  | null
  | boolean
  | number
  | string
  | readonly Bulk[]
  | { readonly fields: readonly (readonly [key: string, value: Bulk])[] }
  /** A text many times over. */
  | { readonly text: string; readonly times: number }
  /** The same element many times over. */
  | { readonly items: Bulk; readonly times: number }
  /** A list of texts that all differ: this one with a number after it. */
  | { readonly numbered: string; readonly times: number }
  /** An object with that many fields. */
  | { readonly keys: number; readonly value: Bulk }
  /** Lists in lists, or objects in objects, around a value. */
  | { readonly nested: 'list' | 'object'; readonly levels: number; readonly value: Bulk }
  /** As it stands: a number that JavaScript would write in another way. */
  | { readonly raw: string };

export type BulkObject = Extract<Bulk, { fields: unknown }>;

/** An object of these fields; undefined values are left out. */
export function fields(entries: Readonly<Record<string, Bulk | undefined>>): BulkObject {
  return { fields: Object.entries(entries).filter((entry): entry is [string, Bulk] => entry[1] !== undefined) };
}

/** The object with these fields after its own. */
export function withEntries(
  { fields: entries }: BulkObject,
  more: Readonly<Record<string, Bulk | undefined>>,
): BulkObject {
  return { fields: [...entries, ...fields(more).fields] };
}

/** The JSON text. What is nested is repeated as text, so that no depth is too deep. */
export function textOf(bulk: Bulk): string {
  if (bulk === null || typeof bulk !== 'object') return JSON.stringify(bulk);
  if (isList(bulk)) return `[${bulk.map(textOf).join()}]`;
  if ('fields' in bulk)
    return `{${bulk.fields.map(([key, value]) => `${JSON.stringify(key)}:${textOf(value)}`).join()}}`;
  if ('text' in bulk) return JSON.stringify(bulk.text.repeat(bulk.times));
  if ('items' in bulk) return `[${Array<string>(bulk.times).fill(textOf(bulk.items)).join()}]`;
  if ('numbered' in bulk) {
    return `[${Array.from({ length: bulk.times }, (_, at) => JSON.stringify(bulk.numbered + at.toString(36))).join()}]`;
  }
  if ('keys' in bulk) {
    const value = textOf(bulk.value);
    return `{${Array.from({ length: bulk.keys }, (_, at) => `"key-${at}":${value}`).join()}}`;
  }
  if ('raw' in bulk) return bulk.raw;
  const [open, close] = bulk.nested === 'list' ? ['[', ']'] : ['{"a":', '}'];
  return `${open.repeat(bulk.levels)}${textOf(bulk.value)}${close.repeat(bulk.levels)}`;
}

function isList(bulk: Bulk): bulk is readonly Bulk[] {
  return Array.isArray(bulk);
}
