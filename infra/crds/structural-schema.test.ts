import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type JsonSchema, structuralSchema } from './structural-schema.ts';
import { reconcileFunctionCrd } from './reconcile-function-crd.ts';

const of = (schema: z.ZodType): JsonSchema =>
  structuralSchema(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', reused: 'inline' }) as JsonSchema);

/** Each schema within a schema, with its path. */
function* schemasIn(schema: JsonSchema, path = 'spec'): Generator<[string, JsonSchema]> {
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

  it('is not made of a reference that leads nowhere', () => {
    expect(() => structuralSchema({ $ref: '#/$defs/Nobody' })).toThrow('no definition for #/$defs/Nobody');
  });
});

describe('the definition of ReconcileFunction', () => {
  const crd = reconcileFunctionCrd() as unknown as {
    spec: { versions: { schema: { openAPIV3Schema: { properties: { spec: JsonSchema } } } }[] };
  };
  const spec = crd.spec.versions[0]?.schema.openAPIV3Schema.properties.spec as JsonSchema;

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
