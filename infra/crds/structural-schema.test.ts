import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type JsonSchema, structuralSchema, type StructuralSchema } from '../../src/cli/crds/structural-schema.ts';
import { MAX_LENGTH, reconcileFunctionCrd } from './reconcile-function-crd.ts';

const of = (schema: z.ZodType): StructuralSchema => {
  const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as JsonSchema;
  return structuralSchema(json, { maxLength: MAX_LENGTH });
};

/** Each schema within a schema, with its path. */
function* schemasIn(schema: StructuralSchema, path = 'spec'): Generator<[string, StructuralSchema]> {
  yield [path, schema];
  for (const [name, each] of Object.entries(schema.properties ?? {})) yield* schemasIn(each, `${path}.${name}`);
  if (schema.items) yield* schemasIn(schema.items, `${path}[]`);
  if (typeof schema.additionalProperties === 'object') yield* schemasIn(schema.additionalProperties, `${path}.*`);
}

describe('a structural schema', () => {
  it('says of plain fields what zod says', () => {
    const schema = z.strictObject({
      name: z
        .string()
        .regex(/^[a-z]+$/)
        .max(63)
        .describe('A name.'),
      count: z.int().min(1).max(10).default(1),
      how: z.enum(['a', 'b']).exactOptional(),
    });
    expect(of(schema)).toEqual({
      type: 'object',
      required: ['name'],
      properties: {
        name: { type: 'string', pattern: '^[a-z]+$', maxLength: 63, description: 'A name.' },
        count: { type: 'integer', minimum: 1, maximum: 10, default: 1 },
        how: { type: 'string', enum: ['a', 'b'] },
      },
    });
  });

  it('bounds texts that have no bound, since rules cost by what they may meet', () => {
    expect(of(z.array(z.string()))).toEqual({ type: 'array', items: { type: 'string', maxLength: 2048 } });
    // And says nothing of bounds that are JavaScript's own.
    expect(of(z.int())).toEqual({ type: 'integer' });
  });

  it('has one object for alternatives, and rules for what belongs together', () => {
    const schema = z.discriminatedUnion('by', [
      z.strictObject({ by: z.literal('all') }),
      z.strictObject({ by: z.literal('label'), label: z.string(), namespace: z.string().exactOptional() }),
    ]);
    expect(of(schema)).toMatchObject({
      type: 'object',
      required: ['by'],
      properties: { by: { type: 'string', enum: ['all', 'label'] }, label: {}, namespace: {} },
      'x-kubernetes-validations': [
        { rule: "self.by != 'all' || (!has(self.label) && !has(self.namespace))" },
        { rule: "self.by != 'label' || (has(self.label))" },
      ],
    });
    expect(of(z.union([z.int(), z.string()]))).toEqual({ 'x-kubernetes-int-or-string': true });
  });

  it('says of null, of a number or a text, and of anything what Kubernetes says', () => {
    expect(structuralSchema({ type: ['string', 'null'], maxLength: 3 })).toEqual({
      type: 'string',
      maxLength: 3,
      nullable: true,
    });
    expect(structuralSchema({ anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }] })).toEqual({
      type: 'integer',
      minimum: 1,
      nullable: true,
    });
    expect(structuralSchema({ type: ['number', 'string'] })).toEqual({ 'x-kubernetes-int-or-string': true });
    expect(structuralSchema({ description: 'Any.' })).toEqual({
      description: 'Any.',
      'x-kubernetes-preserve-unknown-fields': true,
    });
    expect(structuralSchema({ type: 'object', properties: {}, additionalProperties: false })).toEqual({
      type: 'object',
      properties: {},
    });
  });

  it('is refused for what it cannot say, with the place', () => {
    const inField = (schema: JsonSchema) => () => structuralSchema({ type: 'object', properties: { a: schema } });
    expect(inField({ type: 'array', items: [{ type: 'string' }] })).toThrow(/^The field a is a tuple/);
    expect(inField({ type: ['boolean', 'string'] })).toThrow(/^The field a is boolean or string/);
    expect(inField({ anyOf: [{ type: 'boolean' }, { type: 'object', properties: {} }] })).toThrow(
      /^The field a is one of several types/,
    );
    const definitions = { Tree: { type: 'object', properties: { of: { $ref: '#/definitions/Tree' } } } };
    expect(() => structuralSchema({ $ref: '#/definitions/Tree' }, { definitions })).toThrow(
      /^The field of contains itself by the type Tree/,
    );
  });

  it('is not made of a reference that leads nowhere', () => {
    expect(() => structuralSchema({ $ref: '#/$defs/Nobody' })).toThrow('no definition for #/$defs/Nobody');
  });
});

describe('the definition of ReconcileFunction', () => {
  const crd = reconcileFunctionCrd() as unknown as {
    spec: { versions: { schema: { openAPIV3Schema: { properties: { spec: StructuralSchema } } } }[] };
  };
  const spec = crd.spec.versions[0]?.schema.openAPIV3Schema.properties.spec as StructuralSchema;

  it('has a pattern for the whole of each text, never for a part of it', () => {
    const patterns = [...schemasIn(spec)].flatMap(([path, { pattern }]) =>
      typeof pattern === 'string' ? [[path, pattern] as const] : [],
    );
    expect(patterns.length).toBeGreaterThan(10);
    // A path begins with a slash, and what follows is for the function.
    const open = patterns.filter(([, pattern]) => !/^\^.*\$$/s.test(pattern)).map(([path]) => path);
    expect(open).toEqual(['spec.endpoint.service.path']);
  });

  it('bounds each text, and each list but for those of label selectors, which the size of the whole bounds', () => {
    for (const [path, schema] of schemasIn(spec)) {
      if (schema.type === 'string' && !schema.enum) expect(schema['maxLength'], path).toBeTypeOf('number');
      if (schema.type === 'array' && !/[sS]elector\./.test(path)) expect(schema['maxItems'], path).toBeTypeOf('number');
    }
  });
});
