/**
 * Finds what one JSON Schema refuses of the values that another one accepts, for the promise of versions.md that a
 * bound of the contract only becomes wider. It compares the keywords that zod writes, and takes any other difference
 * for a narrowing.
 */

type Schema = { readonly [keyword: string]: unknown };

/** Keywords that refuse nothing. */
const ANNOTATIONS = new Set([
  '$schema',
  '$id',
  'title',
  'description',
  'default',
  'examples',
  'id',
  '$defs',
  'definitions',
]);
const UPPER = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']);
const LOWER = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']);
const ANY_SCHEMA: Schema = {};

interface Side {
  readonly schema: Schema;
  /** The document, for `$ref`. */
  readonly root: Schema;
}

/**
 * @param before the schema of the last release.
 * @param now the schema of today.
 * @returns each narrowing as a sentence that begins with its place. A field that only `now` names counts if it is
 *   required, since senders of the last release do not send it.
 */
export function narrowings(before: Schema, now: Schema): string[] {
  return compare({ schema: before, root: before }, { schema: now, root: now }, '');
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema?: Schema;
}

/** The paths, methods and parameters of an OpenAPI document, as a schema whose fields are the requests. */
export function requestsOf({ paths }: { readonly paths: Readonly<Record<string, Schema>> }): Schema {
  const requests = Object.entries(paths).flatMap(([path, { servers: _, parameters: shared, ...methods }]) =>
    Object.entries(methods).map(([method, operation]) => {
      const { parameters = [] } = operation as { readonly parameters?: readonly Parameter[] };
      const all = [...((shared ?? []) as readonly Parameter[]), ...parameters];
      const nameOf = (parameter: Parameter): string => `${parameter.in} ${parameter.name}`;
      const properties = Object.fromEntries(all.map((each) => [nameOf(each), each.schema ?? ANY_SCHEMA]));
      return [`${method} ${path}`, { properties, required: all.filter(({ required }) => required).map(nameOf) }];
    }),
  );
  return { properties: Object.fromEntries(requests) as Schema, additionalProperties: false };
}

function compare(given: Side, taken: Side, at: string): string[] {
  const [before, now] = [resolved(given), resolved(taken)];
  const alternatives = (side: Side): Side[] | undefined => {
    const list = (side.schema['anyOf'] ?? side.schema['oneOf']) as readonly Schema[] | undefined;
    return list?.map((schema) => ({ schema, root: side.root }));
  };
  const [all, some] = [alternatives(before), alternatives(now)];
  if (all || some) return compareAlternatives(all ?? [before], some ?? [now], at);
  const keywords = new Set([...Object.keys(before.schema), ...Object.keys(now.schema)]);
  return [...keywords]
    .filter((keyword) => !ANNOTATIONS.has(keyword))
    .flatMap((keyword) => compareKeyword(keyword, before, now, at));
}

/** Each alternative must be within one of those of today. */
function compareAlternatives(all: readonly Side[], some: readonly Side[], at: string): string[] {
  return all.flatMap((each) => {
    const found = some.map((other) => compare(each, other, at)).toSorted((a, b) => a.length - b.length);
    return found[0] ?? [`${at || '/'}: nothing is accepted any more`];
  });
}

function compareKeyword(keyword: string, given: Side, taken: Side, at: string): string[] {
  const [before, now] = [given.schema[keyword], taken.schema[keyword]];
  const isSame = JSON.stringify(before) === JSON.stringify(now);
  const changed = [`${at || '/'}: ${keyword} was ${shown(before)} and is ${shown(now)}`];
  const within = (one: unknown, other: unknown, place: string): string[] =>
    compare({ schema: asSchema(one), root: given.root }, { schema: asSchema(other), root: taken.root }, place);
  if (UPPER.has(keyword)) return Number(now ?? Infinity) >= Number(before ?? Infinity) ? [] : changed;
  if (LOWER.has(keyword)) return Number(now ?? -Infinity) <= Number(before ?? -Infinity) ? [] : changed;
  switch (keyword) {
    case 'properties':
      return Object.entries((now ?? {}) as Schema)
        .flatMap(([name, schema]) => {
          const old = ((before ?? {}) as Schema)[name];
          return old === undefined ? [] : within(old, schema, `${at}/${name}`);
        })
        .concat(removed((before ?? {}) as Schema, (now ?? {}) as Schema, taken.schema, at));
    case 'required': {
      const old = new Set((before ?? []) as readonly string[]);
      const added = ((now ?? []) as readonly string[]).filter((name) => !old.has(name));
      return added.map((name) => `${at}/${name}: is required`);
    }
    case 'additionalProperties':
    case 'propertyNames':
    case 'items':
      return now === undefined || now === true
        ? []
        : isSame && typeof now === 'boolean'
          ? []
          : now === false
            ? changed
            : within(before, now, `${at}/*`);
    case 'enum':
    case 'const': {
      const [old, values] = [valuesOf(given.schema), valuesOf(taken.schema)];
      return values === undefined || (old !== undefined && old.every((each) => values.includes(each))) ? [] : changed;
    }
    case 'type':
      return typesOf(given.schema).every((type) => typesOf(taken.schema).includes(type)) ? [] : changed;
    case '$ref':
      return [];
    default:
      // A pattern, a format, or a keyword that is not known here.
      return isSame || now === undefined ? [] : changed;
  }
}

/** Fields that are refused by name today. */
function removed(before: Schema, now: Schema, schema: Schema, at: string): string[] {
  if (schema['additionalProperties'] !== false) return [];
  return Object.keys(before).flatMap((name) => (name in now ? [] : [`${at}/${name}: is no field any more`]));
}

function resolved(side: Side): Side {
  const reference = side.schema['$ref'];
  if (typeof reference !== 'string') return side;
  const names = reference.replace(/^#\/?/, '').split('/').filter(Boolean);
  const found = names.reduce<unknown>((value, name) => (value as Schema | undefined)?.[name], side.root);
  return resolved({ schema: asSchema(found), root: side.root });
}

function asSchema(value: unknown): Schema {
  if (value === false) return { not: {} };
  return typeof value === 'object' && value !== null ? (value as Schema) : ANY_SCHEMA;
}

const ALL_TYPES = ['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'];

function typesOf({ type }: Schema): readonly string[] {
  const types = type === undefined ? ALL_TYPES : ([type].flat() as string[]);
  return types.includes('number') ? [...types, 'integer'] : types;
}

function valuesOf(schema: Schema): readonly string[] | undefined {
  const values = 'const' in schema ? [schema['const']] : (schema['enum'] as readonly unknown[] | undefined);
  return values?.map((each) => JSON.stringify(each));
}

function shown(value: unknown): string {
  return value === undefined ? 'absent' : JSON.stringify(value).slice(0, 200);
}
