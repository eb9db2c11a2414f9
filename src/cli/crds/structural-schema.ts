/** JSON Schema as zod writes it, of which only what is used here is named. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly type?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly additionalProperties?: boolean | JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
}

/** What a structural schema of Kubernetes takes as it is. */
const KEPT = new Set(
  'type description default enum pattern format minLength maxLength minimum maximum minItems maxItems minProperties maxProperties required'.split(
    ' ',
  ),
);

/**
 * Predicates within predicates within predicates: written out, they would be most of the definition. The gateway checks
 * them.
 */
const OPAQUE = /Predicate[12]$/;

/** The property by which alternatives are told apart. */
const TAGS = ['by', 'type'];

/** Without a bound the apiserver reckons the cost of rules about a text to be too high. */
const MAX_LENGTH = 2048;

/**
 * Turns JSON Schema into the structural schema that a CustomResourceDefinition must have: no references, no
 * alternatives, no `false` for further properties. Alternatives of objects become one object with the properties of
 * all, and a rule for each that says which belong together; a number or a string becomes `x-kubernetes-int-or-string`.
 */
export function structuralSchema(schema: JsonSchema, definitions = schema.$defs ?? {}): JsonSchema {
  if (schema.$ref !== undefined) {
    const { $ref, ...rest } = schema;
    if (OPAQUE.test($ref))
      return { type: 'object', minProperties: 1, maxProperties: 1, 'x-kubernetes-preserve-unknown-fields': true };
    const target = definitions[$ref.replace('#/$defs/', '')];
    if (!target) throw new Error(`no definition for ${$ref}`);
    return structuralSchema({ ...target, ...rest }, definitions);
  }
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives) return ofAlternatives(schema, alternatives, definitions);
  if (schema.const !== undefined) return { type: typeof schema.const, enum: [schema.const] };
  const kept = Object.fromEntries(Object.entries(schema).filter(([keyword]) => KEPT.has(keyword)));
  // zod's own formats are patterns, too.
  if (kept['pattern'] !== undefined) delete kept['format'];
  if (schema.type === 'string' && schema.enum === undefined) kept['maxLength'] ??= MAX_LENGTH;
  if (schema.type === 'integer') {
    // JavaScript's largest integers say nothing.
    if (Math.abs(Number(kept['maximum'])) >= Number.MAX_SAFE_INTEGER) delete kept['maximum'];
    if (Math.abs(Number(kept['minimum'])) >= Number.MAX_SAFE_INTEGER) delete kept['minimum'];
  }
  if (schema.type === 'array' && schema.items) {
    return { ...kept, items: structuralSchema(schema.items, definitions) };
  }
  if (schema.properties) {
    const properties = Object.entries(schema.properties).map(([name, each]) => [
      name,
      structuralSchema(each, definitions),
    ]);
    return { ...kept, properties: Object.fromEntries(properties) };
  }
  if (typeof schema.additionalProperties === 'object') {
    return { ...kept, additionalProperties: structuralSchema(schema.additionalProperties, definitions) };
  }
  return kept;
}

function ofAlternatives(
  { description }: JsonSchema,
  alternatives: readonly JsonSchema[],
  definitions: Readonly<Record<string, JsonSchema>>,
): JsonSchema {
  const described = description === undefined ? {} : { description };
  if (alternatives.every(({ type }) => type === 'integer' || type === 'string')) {
    return { ...described, 'x-kubernetes-int-or-string': true };
  }
  const objects = alternatives.map((each) => structuralSchema(each, definitions));
  const tag = TAGS.find((each) => objects.every(({ properties }) => properties?.[each]?.enum?.length === 1)) ?? 'by';
  const properties: Record<string, JsonSchema> = {};
  for (const { properties: own = {} } of objects) {
    for (const [name, each] of Object.entries(own)) if (name !== tag) properties[name] ??= each;
  }
  const [first, ...others] = objects;
  const common = (first?.required ?? []).filter(
    (name) => name !== tag && others.every(({ required }) => required?.includes(name)),
  );
  const rules = objects.map((object) => ruleOf(object, tag, Object.keys(properties)));
  return {
    ...described,
    type: 'object',
    required: [tag, ...common],
    properties: { [tag]: { type: 'string', enum: objects.map((object) => tagOf(object, tag)) }, ...properties },
    'x-kubernetes-validations': rules,
  };
}

function tagOf({ properties }: JsonSchema, tag: string): string {
  return String(properties?.[tag]?.enum?.[0]);
}

/** `self.by != 'index' || (has(self.index) && !has(self.path))` */
function ruleOf(object: JsonSchema, tag: string, all: readonly string[]): JsonSchema {
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
