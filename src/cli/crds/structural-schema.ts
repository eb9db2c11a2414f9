import { UserError } from '../../core/index.ts';

/** JSON Schema as zod and ts-json-schema-generator write it. The type names the keywords that this module reads. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly type?: string | readonly string[] | undefined;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema | readonly JsonSchema[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
}

/** A structural schema, whose type is one word and whose items have one schema. */
export interface StructuralSchema {
  readonly [keyword: string]: unknown;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, StructuralSchema>>;
  readonly items?: StructuralSchema;
  readonly additionalProperties?: StructuralSchema;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
}

export interface StructuralOptions {
  /** The schemas that references name. Default: `$defs` of the schema. */
  readonly definitions?: Readonly<Record<string, JsonSchema>>;
  /** References to objects of one property that the definition leaves open. Default: none. */
  readonly opaque?: RegExp;
  /** Bound of texts without one. Default: none. */
  readonly maxLength?: number;
  /** Keywords of Kubernetes for a schema, made of its other keywords. Default: none. */
  readonly extend?: (schema: JsonSchema, path: string) => Readonly<Record<string, unknown>>;
}

/** What a structural schema of Kubernetes takes as it is. */
const KEPT = new Set(
  'type description default enum pattern format minLength maxLength minimum maximum multipleOf minItems maxItems minProperties maxProperties required'.split(
    ' ',
  ),
);

/** The names of a property whose constant value distinguishes the alternatives of a union. */
const TAGS = ['by', 'type', 'kind'];

/**
 * Turns JSON Schema into the structural schema that a CustomResourceDefinition must have: no references, no
 * alternatives, no `false` for further properties. Alternatives of objects become one object with the properties of
 * all, and a rule for each that says which belong together; a number or a string becomes `x-kubernetes-int-or-string`,
 * a value of any kind keeps unknown fields.
 * @throws UserError for what a structural schema cannot say, with its path.
 */
export function structuralSchema(schema: JsonSchema, options: StructuralOptions = {}): StructuralSchema {
  const { definitions = schema.$defs ?? {} } = options;
  return new Conversion({ ...options, definitions }).of(schema, '', []);
}

class Conversion {
  readonly #options: StructuralOptions & { readonly definitions: Readonly<Record<string, JsonSchema>> };

  constructor(options: StructuralOptions & { readonly definitions: Readonly<Record<string, JsonSchema>> }) {
    this.#options = options;
  }

  /** @param within the references that lead here. */
  of(schema: JsonSchema, path: string, within: readonly string[]): StructuralSchema {
    const { extend } = this.#options;
    const extended = extend ? extend(schema, path) : {};
    return { ...this.#plain(schema, path, within), ...extended };
  }

  #plain(schema: JsonSchema, path: string, within: readonly string[]): StructuralSchema {
    const { maxLength } = this.#options;
    if (schema.$ref !== undefined) return this.#referenced(schema, schema.$ref, path, within);
    const alternatives = schema.anyOf ?? schema.oneOf;
    if (alternatives) return this.#alternatives(schema, alternatives, path, within);
    if (schema.const !== undefined) return { ...describedBy(schema), type: typeof schema.const, enum: [schema.const] };
    const { types, nullable } = typesOf(schema);
    if (types.length > 1) return { ...keptOf({ ...schema, type: undefined }), ...several(types, path), ...nullable };
    const [type] = types;
    if (type === undefined && schema.properties === undefined && schema.enum === undefined) {
      return { ...describedBy(schema), 'x-kubernetes-preserve-unknown-fields': true };
    }
    const kept: Record<string, unknown> = { ...keptOf({ ...schema, type }), ...nullable };
    // zod's own formats are patterns, too.
    if (kept['pattern'] !== undefined) delete kept['format'];
    if (type === 'string' && schema.enum === undefined && maxLength !== undefined) kept['maxLength'] ??= maxLength;
    if (type === 'integer') {
      // JavaScript's largest integers say nothing.
      if (Math.abs(Number(kept['maximum'])) >= Number.MAX_SAFE_INTEGER) delete kept['maximum'];
      if (Math.abs(Number(kept['minimum'])) >= Number.MAX_SAFE_INTEGER) delete kept['minimum'];
    }
    if (type === 'array') {
      const { items = {} } = schema;
      if ('length' in items) throw new UserError(`${where(path)} is a tuple, which no definition can have.`);
      return { ...kept, items: this.of(items, `${path}[]`, within) };
    }
    if (schema.properties) {
      const properties = Object.entries(schema.properties).map(([name, each]) => [
        name,
        this.of(each, path === '' ? name : `${path}.${name}`, within),
      ]);
      return { ...kept, properties: Object.fromEntries(properties) as Record<string, StructuralSchema> };
    }
    if (typeof schema.additionalProperties === 'object') {
      return { ...kept, additionalProperties: this.of(schema.additionalProperties, `${path}.*`, within) };
    }
    if (type === 'object' && schema.additionalProperties === true) kept['x-kubernetes-preserve-unknown-fields'] = true;
    return kept;
  }

  #referenced(
    { $ref: _, ...rest }: JsonSchema,
    ref: string,
    path: string,
    within: readonly string[],
  ): StructuralSchema {
    const { definitions, opaque } = this.#options;
    if (opaque?.test(ref)) {
      return { type: 'object', minProperties: 1, maxProperties: 1, 'x-kubernetes-preserve-unknown-fields': true };
    }
    const name = decodeURIComponent(ref.slice(ref.lastIndexOf('/') + 1));
    const target = definitions[name];
    if (!target) throw new Error(`no definition for ${ref}`);
    if (within.includes(name)) {
      throw new UserError(`${where(path)} contains itself by the type ${name}, which no definition can have.`);
    }
    return this.of({ ...target, ...rest }, path, [...within, name]);
  }

  #alternatives(
    schema: JsonSchema,
    alternatives: readonly JsonSchema[],
    path: string,
    within: readonly string[],
  ): StructuralSchema {
    const isNull = ({ type, const: value }: JsonSchema): boolean => type === 'null' || value === null;
    const others = alternatives.filter((each) => !isNull(each));
    const nullable = others.length < alternatives.length ? { nullable: true } : {};
    const [only] = others;
    if (only && others.length === 1)
      return { ...this.of({ ...only, ...describedBy(schema) }, path, within), ...nullable };
    if (others.every(({ type }) => type === 'integer' || type === 'number' || type === 'string')) {
      return {
        ...describedBy(schema),
        ...several(
          others.map(({ type }) => String(type)),
          path,
        ),
        ...nullable,
      };
    }
    const objects = others.map((each) => this.of(each, path, within));
    if (objects.some(({ properties }) => properties === undefined)) {
      throw new UserError(`${where(path)} is one of several types, of which a definition can say objects alone.`);
    }
    return { ...describedBy(schema), ...ofObjects(objects), ...nullable };
  }
}

function where(path: string): string {
  return path === '' ? 'The type' : `The field ${path}`;
}

function describedBy({ description }: JsonSchema): { description?: unknown } {
  return description === undefined ? {} : { description };
}

function keptOf(schema: JsonSchema): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(schema).filter(([keyword, value]) => KEPT.has(keyword) && value !== undefined),
  );
}

function typesOf({ type }: JsonSchema): { types: string[]; nullable: { nullable?: true } } {
  const all = type === undefined ? [] : typeof type === 'string' ? [type] : [...type];
  const types = all.filter((each) => each !== 'null');
  return { types, nullable: types.length < all.length ? { nullable: true } : {} };
}

function several(types: readonly string[], path: string): StructuralSchema {
  const isText = types.includes('string');
  const isNumber = types.includes('integer') || types.includes('number');
  if (isText && isNumber && new Set(types).size === 2) return { 'x-kubernetes-int-or-string': true };
  throw new UserError(`${where(path)} is ${types.join(' or ')}, which no definition can have.`);
}

function ofObjects(objects: readonly StructuralSchema[]): StructuralSchema {
  const tag = TAGS.find((each) => objects.every(({ properties }) => properties?.[each]?.enum?.length === 1)) ?? 'by';
  const properties: Record<string, StructuralSchema> = {};
  for (const { properties: own = {} } of objects) {
    for (const [name, each] of Object.entries(own)) if (name !== tag) properties[name] ??= each;
  }
  const [first, ...others] = objects;
  const common = (first?.required ?? []).filter(
    (name) => name !== tag && others.every(({ required }) => required?.includes(name)),
  );
  return {
    type: 'object',
    required: [tag, ...common],
    properties: { [tag]: { type: 'string', enum: objects.map((object) => tagOf(object, tag)) }, ...properties },
    'x-kubernetes-validations': objects.map((object) => ruleOf(object, tag, Object.keys(properties))),
  };
}

function tagOf({ properties }: StructuralSchema, tag: string): string {
  return String(properties?.[tag]?.enum?.[0]);
}

/** `self.by != 'index' || (has(self.index) && !has(self.path))` */
function ruleOf(object: StructuralSchema, tag: string, all: readonly string[]): { rule: string; message: string } {
  const value = tagOf(object, tag);
  const own = new Set(Object.keys(object.properties ?? {}));
  const required = (object.required ?? []).filter((name) => name !== tag);
  const conditions = [
    ...required.map((name) => `has(self.${name})`),
    ...all.filter((name) => !own.has(name)).map((name) => `!has(self.${name})`),
  ];
  const optional = all.filter((name) => own.has(name) && !required.includes(name));
  const wants = required.length > 0 ? required.join(' and ') : 'no other field';
  const message = `with ${tag}: ${value} there must be ${wants}${optional.length > 0 ? `, perhaps ${optional.join(' and ')}` : ''}${required.length > 0 ? ', and no other field' : ''}`;
  return { rule: `self.${tag} != '${value}' || (${conditions.join(' && ')})`, message };
}
