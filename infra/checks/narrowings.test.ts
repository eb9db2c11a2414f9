import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { narrowings, requestsOf } from './narrowings.ts';
import { repositoryRoot } from './temp-repository.ts';

const folder = join(repositoryRoot, 'infra/contract/v1');
const read = (path: string) => JSON.parse(readFileSync(join(folder, path), 'utf8')) as Record<string, unknown>;
const DOCUMENTS = ['callback', 'description', 'line', 'outcome', 'review', 'trigger'];
/** Functions of the last release read these, and gateways the others. */
const SENT_TO_FUNCTIONS = new Set(['review', 'trigger']);

describe('the contract since the last release', () => {
  it('has each of its documents', () => {
    expect(globSync('*.schema.json', { cwd: join(folder, 'released') }).toSorted()).toEqual(
      DOCUMENTS.map((name) => `${name}.schema.json`),
    );
  });

  it.each(DOCUMENTS.filter((name) => !SENT_TO_FUNCTIONS.has(name)))(
    '%s: gateways accept all that they have accepted (versions.md)',
    (name) => {
      const file = `${name}.schema.json`;
      expect(narrowings(read(`released/${file}`), read(file))).toEqual([]);
    },
  );

  it.each([...SENT_TO_FUNCTIONS])('%s: gateways send nothing that older functions refuse (versions.md)', (name) => {
    const file = `${name}.schema.json`;
    expect(narrowings(read(file), read(`released/${file}`))).toEqual([]);
  });
});

describe('what was asked of the cluster and of the cache since the last release', () => {
  it('ReconcileFunctions that an apiserver has taken are taken still', () => {
    const schemaOf = (path: string): object => {
      const { spec } = parse(readFileSync(join(repositoryRoot, path), 'utf8')) as {
        spec: { versions: { name: string; schema: { openAPIV3Schema: object } }[] };
      };
      return {
        properties: Object.fromEntries(spec.versions.map(({ name, schema }) => [name, schema.openAPIV3Schema])),
      };
    };
    const file = 'levelhook.dev_reconcilefunctions.yaml';
    const released = schemaOf(`infra/contract/v1/released/${file}`);
    expect(narrowings(released as never, schemaOf(`infra/crds/${file}`) as never)).toEqual([]);
  });

  it('requests have their paths, and no new parameter that they must send', () => {
    const [released, now] = ['released/openapi.json', 'openapi.json'].map((file) => requestsOf(read(file) as never));
    expect(narrowings(released!, now!)).toEqual([]);
  });

  it.each<[string, (paths: Record<string, Record<string, { parameters: object[] }>>) => void]>([
    ['a path that is gone', (paths) => delete paths['/api/{version}/{plural}']],
    ['a method that is gone', (paths) => delete paths['/']?.['post']],
    [
      'a parameter that must be sent',
      (paths) => paths['/api/{version}/{plural}']?.['get']?.parameters.push({ in: 'query', name: 'x', required: true }),
    ],
    [
      'a smaller bound of a parameter',
      (paths) =>
        paths['/api/{version}/{plural}']?.['get']?.parameters.push({
          in: 'query',
          name: 'limit',
          schema: { type: 'integer', minimum: 1, maximum: 5 },
        }),
    ],
  ])('is refused: %s', (_, change) => {
    const changed = read('openapi.json') as never as { paths: never };
    change(changed.paths);
    expect(narrowings(requestsOf(read('openapi.json') as never), requestsOf(changed))).not.toEqual([]);
  });
});

describe('narrowings', () => {
  const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more });
  const text = { type: 'string' };

  it.each<[string, object, object]>([
    ['a smaller number of items', { type: 'array', maxItems: 100 }, { type: 'array', maxItems: 64 }],
    ['a bound where there was none', text, { ...text, maxLength: 5 }],
    ['a larger minimum', { type: 'number', minimum: 0 }, { type: 'number', minimum: 1 }],
    ['a value fewer', { enum: ['a', 'b'] }, { enum: ['a'] }],
    ['another type', text, { type: 'number' }],
    ['whole numbers alone', { type: 'number' }, { type: 'integer' }],
    ['another pattern', { ...text, pattern: '^a' }, { ...text, pattern: '^b' }],
    ['a keyword that is not known', text, { ...text, contentEncoding: 'base64' }],
    ['a required field', object({ a: text }), object({ a: text }, { required: ['a'] })],
    ['a new required field', object({}), object({ a: text }, { required: ['a'] })],
    ['a strict object', object({ a: text }), object({ a: text }, { additionalProperties: false })],
    [
      'a field that is gone from a strict object',
      object({ a: text, b: text }, { additionalProperties: false }),
      object({ a: text }, { additionalProperties: false }),
    ],
    [
      'a bound of a field within a list',
      { items: object({ a: text }) },
      { items: object({ a: { ...text, maxLength: 1 } }) },
    ],
    ['a bound of a map', { additionalProperties: text }, { additionalProperties: { ...text, maxLength: 1 } }],
    ['an alternative fewer', { anyOf: [text, { type: 'null' }] }, text],
    [
      'a bound within one alternative',
      { oneOf: [text, { type: 'null' }] },
      { oneOf: [{ ...text, maxLength: 1 }, { type: 'null' }] },
    ],
    [
      'a bound behind a reference',
      { $ref: '#/$defs/a', $defs: { a: { ...text, maxLength: 9 } } },
      { $ref: '#/$defs/b', $defs: { b: { ...text, maxLength: 8 } } },
    ],
  ])('are found: %s', (_, before, now) => {
    expect(narrowings(before as never, now as never)).not.toEqual([]);
    expect(narrowings(before as never, before as never)).toEqual([]);
  });

  it.each<[string, object, object]>([
    ['a wider bound', { ...text, maxLength: 5 }, { ...text, maxLength: 6 }],
    ['an optional field', object({}), object({ a: { ...text, maxLength: 5 } })],
    [
      'an optional field of a strict object',
      object({}, { additionalProperties: false }),
      object({ a: text }, { additionalProperties: false }),
    ],
    ['a value more', { const: 'a' }, { enum: ['a', 'b'] }],
    ['an alternative more', text, { anyOf: [{ type: 'null' }, text] }],
    ['no pattern any more', { ...text, pattern: '^a' }, text],
    ['another description', { ...text, description: 'a' }, { ...text, description: 'b' }],
  ])('are none: %s', (_, before, now) => expect(narrowings(before as never, now as never)).toEqual([]));

  it('tell where and what', () => {
    const [before, now] = [64, 16].map((maxItems) => object({ names: { type: 'array', maxItems } }));
    expect(narrowings(before as never, now as never)).toEqual(['/names: maxItems was 64 and is 16']);
  });
});
