import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { isApiVersion, isDns1035Label, messageOf, UserError, withoutPackage } from '../../core/index.ts';
import { pluralOf } from '../../create/plural.ts';
import { type JsonSchema, type StructuralSchema, structuralSchema } from './structural-schema.ts';

/** A version of a kind, as a type in a project and the markers in its comment declare it. */
export interface KindVersion {
  /** `example.com` */
  readonly group: string;
  /** `v1` */
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly printColumns: readonly PrintColumn[];
  readonly scale: { readonly replicas: string; readonly status: string; readonly selector?: string } | undefined;
  /** Undefined: stored if it is the only version. */
  readonly storage: boolean | undefined;
  readonly served: boolean;
  /** A warning for clients that use it. */
  readonly deprecated: string | undefined;
  readonly hasStatus: boolean;
  readonly schema: StructuralSchema;
  /** For messages. */
  readonly source: string;
}

export interface PrintColumn {
  readonly name: string;
  readonly type: string;
  readonly jsonPath: string;
}

/** Markers of a kind: doc-comment tags of its type. */
const KIND_TAGS = [
  'kind',
  'plural',
  'scope',
  'shortName',
  'category',
  'printColumn',
  'scale',
  'storage',
  'served',
  'deprecated',
] as const;
/**
 * Markers of a field, or of a kind as a whole. Those of JSON Schema, such as `@minimum`, are known to the generator.
 */
const FIELD_TAGS = ['validation', 'listType', 'listMapKey', 'mapType', 'preserveUnknownFields'] as const;
const COLUMN_TYPES = ['string', 'integer', 'number', 'boolean', 'date'];
/** Fields of each object. The apiserver knows them. */
const COMMON = new Set(['apiVersion', 'kind', 'metadata']);

/**
 * Reads the kinds that a project declares: exported types with the marker `@kind GROUP/VERSION`.
 * @param files TypeScript modules.
 * @param onFile is called before a file is read, which takes a second.
 * @throws UserError for a type that is no kind of a definition, with the type and the field.
 */
export async function kindsIn(
  files: readonly string[],
  onFile: (file: string) => void = () => {},
): Promise<KindVersion[]> {
  const generator = await import('ts-json-schema-generator').catch(withoutPackage('ts-json-schema-generator'));
  const found: KindVersion[] = [];
  for (const file of files) {
    onFile(file);
    let schema: JsonSchema;
    try {
      schema = generator
        .createGenerator({
          path: file,
          ...(existsSync('tsconfig.json') ? { tsconfig: 'tsconfig.json' } : {}),
          type: '*',
          expose: 'export',
          jsDoc: 'extended',
          skipTypeCheck: true,
          functions: 'hide',
          extraTags: [...KIND_TAGS, ...FIELD_TAGS],
        })
        .createSchema('*') as object as JsonSchema;
    } catch (error) {
      throw new UserError(
        `The types of ${file} cannot be read (${messageOf(error).split('\n', 1)[0]}): check that all of its imports are there.`,
      );
    }
    const definitions = (schema['definitions'] ?? {}) as Readonly<Record<string, JsonSchema>>;
    for (const [name, type] of Object.entries(definitions)) {
      if (type['kind'] === undefined) continue;
      found.push(kindOf(name, type, { definitions, source: `${relative('.', file)}, ${name}` }));
    }
  }
  return found;
}

function kindOf(
  kind: string,
  type: JsonSchema,
  { definitions, source }: { readonly definitions: Readonly<Record<string, JsonSchema>>; readonly source: string },
): KindVersion {
  const refuse = (what: string): never => {
    throw new UserError(`${source}: ${what}.`);
  };
  const tags = new Tags(type, refuse);
  const apiVersion = tags.text('kind') ?? '';
  const [group = '', version = '', ...more] = apiVersion.split('/');
  if (more.length > 0 || version === '' || !isApiVersion(apiVersion))
    refuse(`@kind ${apiVersion} must be GROUP/VERSION`);
  const plural = tags.text('plural') ?? pluralOf(kind);
  if (!isDns1035Label(plural))
    refuse(`@plural ${tags.text('plural') ?? kind} must be lower-case letters, digits and dashes`);
  const scope = tags.text('scope') ?? 'Namespaced';
  if (!['Namespaced', 'Cluster'].includes(scope)) refuse(`@scope ${scope} must be Namespaced or Cluster`);
  if (!type.properties) refuse('a kind is an interface with spec and status');
  const properties = Object.fromEntries(Object.entries(type.properties ?? {}).filter(([name]) => !COMMON.has(name)));
  const required = (type.required ?? []).filter((name) => name in properties && name !== 'status');
  const own: JsonSchema = {
    type: 'object',
    ...(type['description'] === undefined ? {} : { description: type['description'] }),
    ...(required.length > 0 ? { required } : {}),
    ...Object.fromEntries(FIELD_TAGS.filter((tag) => type[tag] !== undefined).map((tag) => [tag, type[tag]])),
    properties,
  };
  let schema: StructuralSchema;
  try {
    schema = structuralSchema(own, { definitions, extend: (each, path) => keywordsOf(each, path, refuse) });
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(`${source}: ${messageOf(error)}`);
  }
  const [replicas, status, selector] = tags.words('scale');
  if (replicas !== undefined && status === undefined) refuse('@scale must name the paths of spec and status replicas');
  return {
    group,
    version,
    kind,
    plural,
    namespaced: scope === 'Namespaced',
    shortNames: tags.words('shortName'),
    categories: tags.words('category'),
    printColumns: tags.lines('printColumn').map((line) => columnOf(line, refuse)),
    scale:
      replicas === undefined || status === undefined
        ? undefined
        : { replicas, status, ...(selector === undefined ? {} : { selector }) },
    storage: tags.flag('storage'),
    served: tags.flag('served') ?? true,
    deprecated: tags.text('deprecated'),
    hasStatus: 'status' in properties,
    schema: {
      ...schema,
      properties: {
        apiVersion: { type: 'string' },
        kind: { type: 'string' },
        metadata: { type: 'object' },
        ...schema.properties,
      },
    },
    source,
  };
}

/** `Ready string .status.ready` */
function columnOf(line: string, refuse: (what: string) => never): PrintColumn {
  const [, name = '', type = '', jsonPath = ''] = /^(\S+)\s+(\S+)\s+(\.\S.*)$/.exec(line) ?? [];
  if (!COLUMN_TYPES.includes(type)) {
    refuse(`@printColumn ${line} must be a name, one of ${COLUMN_TYPES.join(', ')}, and a JSON path`);
  }
  return { name, type, jsonPath };
}

/** The keywords of Kubernetes that the markers of a field say. */
function keywordsOf(schema: JsonSchema, path: string, refuse: (what: string) => never): Record<string, unknown> {
  const at = path === '' ? '' : ` of ${path}`;
  const tags = new Tags(schema, (what) => refuse(`${what}${at}`));
  const rules = tags.lines('validation').map((line) => {
    const [rule = '', message = '', ...more] = line.split(' :: ');
    if (message === '' || more.length > 0) refuse(`@validation ${line}${at} must be a CEL rule, " :: " and a message`);
    return { rule: rule.trim(), message: message.trim() };
  });
  const listType = tags.text('listType');
  const mapType = tags.text('mapType');
  const keys = tags.words('listMapKey');
  const { format } = schema;
  return {
    // TypeScript has no integers.
    ...(format === 'int32' || format === 'int64' ? { type: 'integer' } : {}),
    ...(rules.length > 0 ? { 'x-kubernetes-validations': rules } : {}),
    ...(listType === undefined ? {} : { 'x-kubernetes-list-type': listType }),
    ...(keys.length > 0 ? { 'x-kubernetes-list-map-keys': keys } : {}),
    ...(mapType === undefined ? {} : { 'x-kubernetes-map-type': mapType }),
    ...(tags.flag('preserveUnknownFields') ? { 'x-kubernetes-preserve-unknown-fields': true } : {}),
  };
}

/** The markers of one type or field. The generator reads a marker once, so that several values stand in its lines. */
class Tags {
  readonly #schema: JsonSchema;
  readonly #refuse: (what: string) => never;

  constructor(schema: JsonSchema, refuse: (what: string) => never) {
    this.#schema = schema;
    this.#refuse = refuse;
  }

  text(tag: string): string | undefined {
    const value = this.#schema[tag];
    if (value === undefined) return undefined;
    // A text that is JSON was parsed.
    return (typeof value === 'string' ? value : JSON.stringify(value)).trim();
  }

  words(tag: string): string[] {
    return (this.text(tag) ?? '').split(/[\s,]+/).filter((word) => word !== '');
  }

  lines(tag: string): string[] {
    const lines = (this.text(tag) ?? '').split('\n').map((line) => line.trim());
    return lines.filter((line) => line !== '');
  }

  flag(tag: string): boolean | undefined {
    const text = this.text(tag);
    if (text !== undefined && !['true', 'false'].includes(text)) this.#refuse(`@${tag} ${text} must be true or false`);
    return text === undefined ? undefined : text === 'true';
  }
}
