import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Resource, resource, UserError } from '../../core/index.ts';
import { isJson, setOwn } from './json.ts';

/** A CustomResourceDefinition. The type names the fields that this module reads. */
export interface CustomResourceDefinition {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly group: string;
    readonly scope: string;
    readonly names: { readonly kind: string; readonly plural: string };
    readonly versions: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly subresources?: { readonly status?: object };
      readonly schema?: { readonly openAPIV3Schema?: DefinitionSchema };
    }[];
  };
}

/** The keywords of a structural schema that say defaults. */
interface DefinitionSchema {
  readonly default?: unknown;
  readonly nullable?: boolean;
  readonly properties?: Readonly<Record<string, DefinitionSchema>>;
  readonly additionalProperties?: boolean | DefinitionSchema;
  readonly items?: DefinitionSchema;
}

interface DefinedVersion {
  readonly resource: Resource;
  readonly hasStatus: boolean;
  readonly schema: DefinitionSchema;
}

/**
 * The CustomResourceDefinitions in the YAML files of a folder, such as those that `levelhook crds` writes.
 * @param folder Default: `crds` in the folder of the process.
 * @throws UserError when there are none.
 */
export async function readDefinitions(folder = 'crds'): Promise<CustomResourceDefinition[]> {
  const { parseAllDocuments } = await import('yaml');
  const found: CustomResourceDefinition[] = [];
  for (const file of globSync('*.{yaml,yml,json}', { cwd: folder }).toSorted()) {
    for (const document of parseAllDocuments(await readFile(join(folder, file), 'utf8'))) {
      const object: unknown = document.toJS();
      if (isJson(object) && object['kind'] === 'CustomResourceDefinition') found.push(object as never);
    }
  }
  if (found.length === 0) throw new UserError(`There is no CustomResourceDefinition in the folder ${folder}.`);
  return found;
}

/** What definitions say of a test's own kinds. */
export class Definitions {
  readonly #versions = new Map<string, DefinedVersion>();

  constructor(definitions: readonly CustomResourceDefinition[]) {
    for (const { spec } of definitions) {
      const { group, names, scope, versions } = spec;
      for (const { name, schema, subresources } of versions) {
        const { kind, plural } = names;
        const defined = resource(`${group}/${name}`, kind, { plural, namespaced: scope === 'Namespaced' });
        this.#versions.set(idOf(defined), {
          resource: defined,
          hasStatus: subresources?.status !== undefined,
          schema: schema?.openAPIV3Schema ?? {},
        });
      }
    }
  }

  resources(): Resource[] {
    return [...this.#versions.values()].map((each) => each.resource);
  }

  /** Undefined: no definition says it. */
  hasStatus(of: Resource): boolean | undefined {
    return this.#versions.get(idOf(of))?.hasStatus;
  }

  /**
   * A copy with the defaults of the definition. A null where null is not allowed counts as nothing
   * (apiextensions-apiserver pkg/apiserver/schema/defaulting/algorithm.go).
   */
  withDefaults<T extends object>(of: Resource, object: T): T {
    const defined = this.#versions.get(idOf(of));
    return defined ? (defaulted(object, defined.schema) as T) : object;
  }
}

const idOf = ({ apiVersion, plural }: Resource): string => `${apiVersion}/${plural}`;

function defaulted(value: unknown, schema: DefinitionSchema): unknown {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items ? value.map((each) => defaulted(each, items)) : value;
  }
  if (!isJson(value)) return value;
  const { additionalProperties, properties = {} } = schema;
  const result: Record<string, unknown> = { ...value };
  for (const [name, each] of Object.entries(properties)) {
    const isAbsent = !Object.hasOwn(result, name) || (result[name] === null && each.nullable !== true);
    if (isAbsent && each.default !== undefined) setOwn(result, name, structuredClone(each.default));
  }
  for (const [name, each] of Object.entries(result)) {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const any = typeof additionalProperties === 'object' ? additionalProperties : undefined;
    const of = own ?? any;
    if (of) setOwn(result, name, defaulted(each, of));
  }
  return result;
}
