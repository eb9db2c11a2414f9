import type { ApiClient } from '../../src/ground/apiserver/api-client.ts';

/** The part of an OpenAPI v3 schema that Kubernetes' own use. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly description?: string;
  readonly enum?: readonly string[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly allOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  /** `{}` in the field of a structure that has no pointer in Go. */
  readonly default?: unknown;
  readonly 'x-kubernetes-group-version-kind'?: readonly { group: string; version: string; kind: string }[];
}

export interface Kind {
  readonly schema: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

/** What a schema is in JSON, where its own words do not say it. */
const KNOWN: Readonly<Record<string, string>> = {
  'io.k8s.apimachinery.pkg.api.resource.Quantity': 'string',
  'io.k8s.apimachinery.pkg.util.intstr.IntOrString': 'number | string',
  'io.k8s.apimachinery.pkg.apis.meta.v1.Time': 'string',
  'io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime': 'string',
  'io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1': 'Record<string, unknown>',
  'io.k8s.apimachinery.pkg.runtime.RawExtension': 'Record<string, unknown>',
};

/** Of two that share a name the one of the earlier group has it; the other's begins with its group and version. */
const FIRST = ['core-v1', 'meta-v1', 'apps-v1', 'batch-v1', 'networking-v1', 'autoscaling-v2'];

/**
 * TypeScript of the kinds that an apiserver serves in stable versions, from its own OpenAPI v3: raw JSON, so
 * timestamps, quantities and bytes are text. By file name.
 */
export async function generateKinds(client: ApiClient): Promise<Map<string, string>> {
  const { schemas, kinds } = await readSchemas(client);
  return new Writer(schemas, kinds).files();
}

/** The stable kinds that an apiserver serves, and its schemas by name. */
export async function readSchemas(
  client: ApiClient,
): Promise<{ schemas: ReadonlyMap<string, Schema>; kinds: readonly Kind[] }> {
  const { paths } = await client.json<{ paths: Record<string, unknown> }>({ path: '/openapi/v3' });
  const versions = Object.keys(paths).filter((path) => /^(api|apis\/[^/]+)\/v[0-9]+$/.test(path));
  const schemas = new Map<string, Schema>();
  const kinds: Kind[] = [];
  for (const path of versions.toSorted()) {
    // What is not part of Kubernetes itself, a test's own definitions above all.
    if (path.startsWith('apis/') && !/^apis\/([a-z]+|[a-z.]+\.k8s\.io)\/v/.test(path)) continue;
    const document = await client.json<{ components: { schemas: Record<string, Schema> } }>({
      path: `/openapi/v3/${path}`,
    });
    for (const [name, schema] of Object.entries(document.components.schemas)) schemas.set(name, schema);
    const { resources } = await client.json<{ resources: ApiResource[] }>({ path: `/${path}` });
    kinds.push(...kindsOf(path, resources, document.components.schemas));
  }
  return { schemas, kinds };
}

interface ApiResource {
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
}

function kindsOf(path: string, resources: readonly ApiResource[], schemas: Record<string, Schema>): Kind[] {
  const apiVersion = path.replace(/^apis?\//, '');
  return resources.flatMap(({ name, kind, namespaced, verbs }) => {
    if (name.includes('/') || !verbs.includes('list') || !verbs.includes('watch')) return [];
    const schema = Object.entries(schemas).find(([, each]) =>
      each['x-kubernetes-group-version-kind']?.some(
        (one) => one.kind === kind && [one.group, one.version].filter(Boolean).join('/') === apiVersion,
      ),
    );
    return schema ? [{ schema: schema[0], apiVersion, kind, plural: name, namespaced }] : [];
  });
}

class Writer {
  readonly #schemas: ReadonlyMap<string, Schema>;
  readonly #kinds: ReadonlyMap<string, Kind>;
  /** Schemas by file. */
  readonly #files = new Map<string, Set<string>>();

  constructor(schemas: ReadonlyMap<string, Schema>, kinds: readonly Kind[]) {
    this.#schemas = schemas;
    this.#kinds = new Map(kinds.map((kind) => [kind.schema, kind]));
    for (const { schema } of kinds) this.#reach(schema);
  }

  files(): Map<string, string> {
    const names = [...this.#files.keys()].toSorted();
    const files = new Map(names.map((name) => [`${name}.ts`, this.#file(name)]));
    return files.set('index.ts', this.#index(names)).set('quantities.ts', this.#quantities());
  }

  /**
   * Of each type from which quantities can be reached the fields that lead there, for `equal`. A type in one place only
   * stands there; the kinds, and types in several places, have names.
   */
  #quantities(): string {
    const found = new Map<string, Map<string, { name: string; map: string }>>();
    for (const name of this.#kinds.keys()) this.#leadsToQuantity(name, found);
    const places = new Map<string, number>();
    for (const { name, map } of [...found.values()].flatMap((fields) => [...fields.values()])) {
      // In a map a type needs a name.
      places.set(name, (places.get(name) ?? 0) + (map ? 2 : 1));
    }
    const isNamed = (name: string): boolean => this.#kinds.has(name) || (places.get(name) ?? 0) > 1;
    type Fields = { readonly [field: string]: string | Fields };
    const fieldsOf = (name: string): Fields =>
      Object.fromEntries(
        [...(found.get(name) ?? [])].map(([field, to]) => {
          if (to.name === QUANTITY) return [field, to.map];
          return [field, isNamed(to.name) ? `${to.map}${this.#typeName(to.name)}` : fieldsOf(to.name)];
        }),
      );
    const named = [...found].filter(([name, fields]) => fields.size > 0 && isNamed(name));
    const entries = named.map(([name]) => [this.#typeName(name), fieldsOf(name)] as const);
    const sorted = Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
    return `${HEADER}
/**
 * The types with quantities, and of each the fields that lead to some: '' is a quantity, '*' before a type a map of it.
 */
export const QUANTITIES = ${JSON.stringify(sorted)} as const;\n`;
  }

  #leadsToQuantity(name: string, found: Map<string, Map<string, { name: string; map: string }>>): boolean {
    const known = found.get(name);
    if (known) return known.size > 0;
    const fields = new Map<string, { name: string; map: string }>();
    found.set(name, fields);
    for (const [field, each] of Object.entries(this.#schemas.get(name)?.properties ?? {})) {
      const target = targetOf(each);
      if (target && (target.name === QUANTITY || this.#leadsToQuantity(target.name, found))) fields.set(field, target);
    }
    return fields.size > 0;
  }

  /** `apps/v1/Deployment` of a kind, `PodSpec` of a part. */
  #typeName(name: string): string {
    const kind = this.#kinds.get(name);
    return kind ? `${kind.apiVersion}/${kind.kind}` : shortName(name);
  }

  #reach(name: string): void {
    const schema = this.#schemas.get(name);
    const file = fileOf(name);
    const reached = this.#files.get(file) ?? new Set();
    if (!schema || KNOWN[name] || reached.has(name)) return;
    this.#files.set(file, reached.add(name));
    for (const [field, each] of Object.entries(schema.properties ?? {})) {
      if (this.#kinds.has(name) && field === 'metadata') continue;
      for (const found of JSON.stringify(each).matchAll(/#\/components\/schemas\/([^"]+)"/g))
        this.#reach(found[1] ?? '');
    }
  }

  #file(file: string): string {
    const names = [...(this.#files.get(file) ?? [])].toSorted((a, b) => (shortName(a) < shortName(b) ? -1 : 1));
    const body = names.map((name) => this.#declaration(name, file)).join('\n');
    const imports = new Map<string, Set<string>>();
    for (const [, other = '', name = ''] of body.matchAll(/\/\*from ([^ ]+)\*\/(\w+)/g)) {
      imports.set(other, (imports.get(other) ?? new Set()).add(name));
    }
    const kinds = names.some((name) => this.#kinds.has(name));
    const lines = [...imports]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([other, types]) => {
        return `import type { ${[...types].toSorted().join(', ')} } from './${other}.ts';`;
      });
    if (kinds) lines.unshift(`import { type KubernetesObject, type Resource, resource } from '../../core/index.ts';`);
    return `${HEADER}${lines.join('\n')}\n\n${body.replaceAll(/\/\*from [^ ]+\*\//g, '')}`;
  }

  #declaration(name: string, file: string): string {
    const schema = this.#schemas.get(name) ?? {};
    const kind = this.#kinds.get(name);
    const own = shortName(name);
    if (!schema.properties) return `${comment(schema)}export type ${own} = ${this.#type(schema, file)};\n`;
    const fields = Object.entries(schema.properties)
      .filter(([field]) => !kind || !['apiVersion', 'kind', 'metadata'].includes(field))
      .map(([field, each]) => {
        const optional = schema.required?.includes(field) ? '' : '?';
        const key = /^[A-Za-z_$][\w$]*$/.test(field) ? field : JSON.stringify(field);
        return `${comment(each)}${key}${optional}: ${this.#type(each, file)};`;
      });
    if (!kind) return `${comment(schema)}export interface ${own} {\n${fields.join('\n')}\n}\n`;
    const { apiVersion, plural, namespaced } = kind;
    const options = [
      plural === `${kind.kind.toLowerCase()}s` ? [] : [`plural: '${plural}'`],
      namespaced ? [] : ['namespaced: false'],
    ].flat();
    const rest = options.length > 0 ? `, { ${options.join(', ')} }` : '';
    return `${comment(schema)}export interface ${own} extends KubernetesObject {\n${fields.join('\n')}\n}
export const ${own}: Resource<${own}> = /* @__PURE__ */ resource<${own}>('${apiVersion}', '${kind.kind}'${rest});\n`;
  }

  #type(schema: Schema, file: string): string {
    const [only] = schema.allOf ?? [];
    const reference = schema.$ref ?? only?.$ref;
    if (reference) {
      const name = reference.replace('#/components/schemas/', '');
      const known = KNOWN[name];
      if (known) return known;
      const other = fileOf(name);
      return other === file ? shortName(name) : `/*from ${other}*/${shortName(name)}`;
    }
    // A later server may know more values than this one.
    if (schema.enum) return `${schema.enum.map((value) => JSON.stringify(value)).join(' | ')} | (string & {})`;
    switch (schema.type) {
      case 'string':
        return 'string';
      case 'integer':
      case 'number':
        return 'number';
      case 'boolean':
        return 'boolean';
      case 'array': {
        const item = this.#type(schema.items ?? {}, file);
        return item.includes('|') ? `(${item})[]` : `${item}[]`;
      }
      case 'object':
        return `Record<string, ${schema.additionalProperties ? this.#type(schema.additionalProperties, file) : 'unknown'}>`;
      default:
        return 'unknown';
    }
  }

  #index(files: readonly string[]): string {
    const taken = new Set<string>();
    const rank = (file: string): number => (FIRST.includes(file) ? FIRST.indexOf(file) : FIRST.length);
    const lines = files
      .toSorted((a, b) => rank(a) - rank(b))
      .map((file) => {
        const entries = [...(this.#files.get(file) ?? [])].map((name) => {
          const own = shortName(name);
          const prefix = file.replaceAll(/(^|-)(\w)/g, (_, __, letter: string) => letter.toUpperCase());
          const exported = taken.has(own) ? `${prefix}${own}` : own;
          taken.add(exported);
          const type = this.#kinds.has(name) ? '' : 'type ';
          return `${type}${own}${exported === own ? '' : ` as ${exported}`}`;
        });
        return `export { ${entries.toSorted().join(', ')} } from './${file}.ts';`;
      });
    return `${HEADER}\n${lines.toSorted().join('\n')}\n`;
  }
}

const QUANTITY = 'io.k8s.apimachinery.pkg.api.resource.Quantity';

/** The type that a field is of, or has in a list or in a map. */
export function targetOf(schema: Schema, map = ''): { name: string; map: string } | undefined {
  const reference = schema.$ref ?? schema.allOf?.[0]?.$ref;
  if (reference) return { name: reference.replace('#/components/schemas/', ''), map };
  if (schema.items) return targetOf(schema.items, map);
  return schema.additionalProperties ? targetOf(schema.additionalProperties, `${map}*`) : undefined;
}

const HEADER = `// Made by infra/kinds/write-kinds.ts of the apiserver's own OpenAPI v3: do not edit.\n`;

/** `io.k8s.api.apps.v1.Deployment` is in `apps-v1`, what is of no group in `meta-v1`. */
function fileOf(name: string): string {
  const parts = name.split('.').slice(0, -1);
  return `${parts.at(-2) ?? ''}-${parts.at(-1) ?? ''}`;
}

function shortName(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

/** The first sentence of a description. */
function comment({ description }: Schema): string {
  const text = (description ?? '')
    .split(/\n\n|(?<=[a-z)`"'])\.(?:\s|$)/)[0]
    ?.replaceAll(/\s+/g, ' ')
    .replaceAll('*/', '*\\/')
    .trim();
  return text ? `/** ${text.replace(/[.]$/, '')}. */\n` : '';
}
