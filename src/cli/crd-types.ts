import { z } from 'zod';
import { messageOf, UserError, withoutPackage } from '../core/index.ts';
import { dns1035Label, dnsSubdomain, kind } from '../contract/name-schema.ts';

const definitionSchema = z.object({
  apiVersion: z.literal('apiextensions.k8s.io/v1'),
  kind: z.literal('CustomResourceDefinition'),
  spec: z.object({
    group: dnsSubdomain,
    scope: z.enum(['Namespaced', 'Cluster']),
    names: z.object({ kind, plural: dns1035Label }),
    versions: z.array(
      z.object({
        name: dns1035Label,
        served: z.boolean(),
        schema: z.object({ openAPIV3Schema: z.record(z.string(), z.unknown()) }).exactOptional(),
      }),
    ),
  }),
});

export type Definition = z.infer<typeof definitionSchema>;

/** The first line of generated files. Files without it are never overwritten. */
export const TYPES_HEADER = '// Made by `levelhook types`: do not edit.';

/** @param source names the input in the message. @throws UserError with the first wrong field */
export function parseDefinition(value: unknown, source: string): Definition {
  const parsed = definitionSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new UserError(
    `${source} holds no CustomResourceDefinition that can be used (${issue?.path.join('.') || 'it'}: ${issue?.message}).`,
  );
}

/**
 * The name of a kind's type. It begins with a capital letter and has no dash, as is usual for types, and so is no
 * reserved word of the language. A kind may be `postgresql` or `Hyph-en`.
 */
function typeName(kindName: string): string {
  return kindName.replaceAll(/(?:^|-+)([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** An import, renamed if the type has the same name. No type has an underscore. */
function imported(name: string, type: string): { readonly name: string; readonly text: string } {
  return name === type ? { name: `${name}_`, text: `${name} as ${name}_` } : { name, text: name };
}

/**
 * One module for each served version of a custom resource, with its type and its resource. By file name.
 * @param from the package that the modules import.
 */
export async function typesOf({ spec }: Definition, from: string): Promise<Map<string, string>> {
  const { group, names, scope, versions } = spec;
  const files = new Map<string, string>();
  for (const { name: version, schema } of versions.filter(({ served }) => served)) {
    const label = `${group}/${version} ${names.kind}`;
    const options = [`plural: '${names.plural}'`, ...(scope === 'Cluster' ? ['namespaced: false'] : [])].join(', ');
    const type = typeName(names.kind);
    const [object, ofResource] = [imported('KubernetesObject', type), imported('Resource', type)];
    const fields = await compileFields(type, schema?.openAPIV3Schema ?? {}, label);
    const text = `${TYPES_HEADER}
import { type ${object.text}, type ${ofResource.text}, resource } from '${from}';

${fields}
/** ${label}, as the apiserver sends it: raw JSON, timestamps are text. */
export type ${type} = ${object.name} & ${type}Fields;

export const ${type}: ${ofResource.name}<${type}> = resource<${type}>('${group}/${version}', '${names.kind}', {
  ${options},
});
`;
    files.set(`${names.plural}.${group}-${version}.ts`, text);
  }
  return files;
}

/** The generator changes most names by its own rules, but not this one. */
const FIELDS = 'Fields';

async function compileFields(type: string, openApi: Record<string, unknown>, label: string): Promise<string> {
  const root = jsonSchema(openApi);
  const { apiVersion: _, kind: __, metadata: ___, ...properties } = root.properties ?? {};
  const required = (root.required ?? []).filter((name) => name in properties);
  const { compile } = await import('json-schema-to-typescript').catch(withoutPackage('json-schema-to-typescript'));
  try {
    const text = await compile({ ...root, type: 'object', title: FIELDS, properties, required } as never, FIELDS, {
      additionalProperties: false,
      bannerComment: '',
      // `jsonSchema` drops references, and nothing is fetched, whatever a definition says.
      $refOptions: { resolve: { external: false } },
      style: { singleQuote: true, printWidth: 120 },
    });
    return text.replace(/^export (interface|type) Fields\b/m, (_, word: string) => `export ${word} ${type}${FIELDS}`);
  } catch (error) {
    throw new UserError(`No types can be made of ${label} (${messageOf(error).split('\n', 1)[0]}).`);
  }
}

interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly tsType?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly additionalProperties?: boolean | JsonSchema;
}

/**
 * The type of an enum, as `enum` or in TypeScript: JSON Schema has no integers beyond 2^53, which are read as bigints.
 * An empty enum allows every value, and objects have no literals.
 */
function literals(values: unknown, isNullable: boolean): Pick<JsonSchema, 'enum' | 'tsType'> {
  const given = Array.isArray(values) ? values.filter((value) => value !== null) : [];
  if (given.length === 0 || given.some((value) => typeof value === 'object')) return {};
  // The generator takes no literals where null is a type, too.
  if (!isNullable && !given.some((value) => typeof value === 'bigint')) return { enum: given };
  const texts = given.map((value) => (typeof value === 'bigint' ? `${value}n` : JSON.stringify(value)));
  return { tsType: `(${[...texts, ...(isNullable ? ['null'] : [])].join(' | ')})` };
}

/**
 * A structural schema of Kubernetes as JSON Schema, with only the keywords that describe the shape. The generator would
 * follow references and take TypeScript code from a schema, and a definition may come from any author.
 */
function jsonSchema(schema: unknown): JsonSchema {
  if (typeof schema !== 'object' || schema === null) return {};
  const given = schema as Record<string, unknown>;
  const isNullable = given['nullable'] === true;
  if (given['x-kubernetes-int-or-string'] === true) {
    return { type: ['integer', 'string', ...(isNullable ? ['null'] : [])] };
  }
  const type = typeof given['type'] === 'string' ? given['type'] : undefined;
  const properties = recordOf(given['properties']);
  const map = given['additionalProperties'];
  const open = given['x-kubernetes-preserve-unknown-fields'] === true || map === true;
  const description = given['description'];
  return {
    ...(type === undefined ? {} : { type: isNullable ? [type, 'null'] : type }),
    ...(typeof description === 'string' ? { description: description.replaceAll('*/', '* /') } : {}),
    ...literals(given['enum'], isNullable),
    ...(properties
      ? { properties: Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, jsonSchema(each)])) }
      : {}),
    ...(Array.isArray(given['required'])
      ? { required: given['required'].filter((name) => typeof name === 'string') }
      : {}),
    ...(given['items'] === undefined ? {} : { items: jsonSchema(given['items']) }),
    ...(recordOf(map)
      ? { additionalProperties: jsonSchema(map) }
      : // Without a type it is any JSON, a text too.
        (type !== undefined || properties) && (open || !properties)
        ? { additionalProperties: true }
        : {}),
  };
}

function recordOf(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}
