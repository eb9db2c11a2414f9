import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withoutMember } from './json-text.ts';

const without = (object: unknown, path: readonly string[]): unknown => {
  const copy = structuredClone(object) as Record<string, unknown>;
  let at: unknown = copy;
  for (const name of path.slice(0, -1)) {
    if (typeof at !== 'object' || at === null || Array.isArray(at)) return copy;
    at = Object.hasOwn(at, name) ? (at as Record<string, unknown>)[name] : undefined;
  }
  if (typeof at === 'object' && at !== null && !Array.isArray(at))
    delete (at as Record<string, unknown>)[path.at(-1) ?? ''];
  return copy;
};

describe('withoutMember', () => {
  it.each([
    ['{"a":1}', ['a'], '{}'],
    ['{"a":1,"b":2}', ['a'], '{"b":2}'],
    ['{"a":1,"b":2}', ['b'], '{"a":1}'],
    ['{"a":1,"b":2,"c":3}', ['b'], '{"a":1,"c":3}'],
    ['{"a":{"b":[1,{"x":"}"}],"c":3},"d":null}', ['a', 'b'], '{"a":{"c":3},"d":null}'],
    [
      '{"x":{"managedFields":[1]},"metadata":{"managedFields":[2]}}',
      ['metadata', 'managedFields'],
      '{"x":{"managedFields":[1]},"metadata":{}}',
    ],
    ['{"a":"\\\\","b":"\\"b\\":1"}', ['b'], '{"a":"\\\\"}'],
    ['{"\\u0061":1,"b":2}', ['a'], '{"b":2}'],
    ['{"a":[1,2]}', ['a', '0'], '{"a":[1,2]}'],
    ['{}', ['a'], '{}'],
  ])('of %s and %j is %s', (text, path, expected) => {
    expect(withoutMember(text, path)).toBe(expected);
  });

  it('leaves all else as it is, whatever the object and however it is spaced', () => {
    const names = fc.constantFrom('metadata', 'managedFields', 'a', 'b"', '\\', '', 'ü', 'spec');
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        fc.string(),
        fc.string({ unit: 'binary' }),
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('any'), { maxLength: 4 }),
        fc.dictionary(names, tie('any'), { maxKeys: 6, noNullPrototype: true }),
      ),
    })).any;
    const object = fc.dictionary(names, value, { maxKeys: 6, noNullPrototype: true });
    fc.assert(
      fc.property(
        object,
        fc.array(names, { minLength: 1, maxLength: 3 }),
        fc.constantFrom(0, 1, '\t'),
        (each, path, indent) => {
          const text = JSON.stringify(each, null, indent);
          expect(JSON.parse(withoutMember(text, path))).toEqual(without(JSON.parse(text), path));
        },
      ),
      { numRuns: 2000 },
    );
  });
});
