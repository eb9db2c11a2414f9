import { compile } from 'json-schema-to-typescript';
import { z } from 'zod';
import { messageOf, UserError } from '../core/index.ts';
import { dns1035Label, dnsSubdomain } from '../contract/name-schema.ts';

const definitionSchema = z.object({
  apiVersion: z.literal('apiextensions.k8s.io/v1'),
  kind: z.literal('CustomResourceDefinition'),
  spec: z.object({
    group: dnsSubdomain,
    scope: z.enum(['Namespaced', 'Cluster']),
    names: z.object({ kind: z.string().regex(/^[A-Z][A-Za-z0-9]*$/), plural: dns1035Label }),
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

/** The first line of what is written: another file is never overwritten. */
export const TYPES_HEADER = '// Made by `levelhook types`: do not edit.';

/** @param source what is being read, for the message. @throws UserError naming the first wrong field */
export function parseDefinition(value: unknown, source: string): Definition {
  const parsed = definitionSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new UserError(
    `${source} holds no CustomResourceDefinition that can be used (${issue?.path.join('.') || 'it'}: ${issue?.message}).`,
  );
}

/** One module for each served version of a custom resource: its type and its resource. By file name. */
export async function typesOf({ spec }: Definition): Promise<Map<string, string>> {
  const { group, names, scope, versions } = spec;
  const files = new Map<string, string>();
  for (const { name: version, schema } of versions.filter(({ served }) => served)) {
    const label = `${group}/${version} ${names.kind}`;
    const options = [`plural: '${names.plural}'`, ...(scope === 'Cluster' ? ['namespaced: false'] : [])].join(', ');
    const fields = await compileFields(names.kind, schema?.openAPIV3Schema ?? {}, label);
    const text = `${TYPES_HEADER}
import { type KubernetesObject, type Resource, resource } from 'levelhook/function';

${fields}
/** ${label}, as the apiserver sends it: raw JSON, timestamps are text. */
export type ${names.kind} = KubernetesObject & ${names.kind}Fields;

export const ${names.kind}: Resource<${names.kind}> = resource<${names.kind}>('${group}/${version}', '${names.kind}', { ${options} });
`;
    files.set(`${names.plural}.${group}-${version}.ts`, text);
  }
  return files;
}

async function compileFields(kind: string, openApi: Record<string, unknown>, label: string): Promise<string> {
  const root = jsonSchema(openApi);
  const { apiVersion: _, kind: __, metadata: ___, ...properties } = root.properties ?? {};
  const required = (root.required ?? []).filter((name) => name in properties);
  try {
    return await compile(
      { ...root, type: 'object', title: `${kind}Fields`, properties, required } as never,
      `${kind}Fields`,
      {
        additionalProperties: false,
        bannerComment: '',
        // References are refused below; nothing is fetched, whatever a definition says.
        $refOptions: { resolve: { external: false } },
        style: { singleQuote: true, printWidth: 120 },
      },
    );
  } catch (error) {
    throw new UserError(`No types can be made of ${label} (${messageOf(error).split('\n', 1)[0]}).`);
  }
}

interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly additionalProperties?: boolean | JsonSchema;
}

/**
 * A structural schema of Kubernetes as JSON Schema: what says something of the shape, and nothing else. The generator
 * would follow references and take TypeScript from a schema's own words; a definition may come from any author.
 */
function jsonSchema(schema: unknown): JsonSchema {
  if (typeof schema !== 'object' || schema === null) return {};
  const given = schema as Record<string, unknown>;
  if (given['x-kubernetes-int-or-string'] === true) return { type: ['integer', 'string'] };
  const type = typeof given['type'] === 'string' ? given['type'] : undefined;
  const properties = recordOf(given['properties']);
  const map = given['additionalProperties'];
  const open = given['x-kubernetes-preserve-unknown-fields'] === true || map === true;
  const description = given['description'];
  return {
    ...(type === undefined ? {} : { type: given['nullable'] === true ? [type, 'null'] : type }),
    ...(typeof description === 'string' ? { description: description.replaceAll('*/', '* /') } : {}),
    ...(Array.isArray(given['enum']) ? { enum: given['enum'].filter((value) => typeof value !== 'object') } : {}),
    ...(properties
      ? { properties: Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, jsonSchema(each)])) }
      : {}),
    ...(Array.isArray(given['required'])
      ? { required: given['required'].filter((name) => typeof name === 'string') }
      : {}),
    ...(given['items'] === undefined ? {} : { items: jsonSchema(given['items']) }),
    ...(recordOf(map)
      ? { additionalProperties: jsonSchema(map) }
      : open || !properties
        ? { additionalProperties: true }
        : {}),
  };
}

function recordOf(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}
