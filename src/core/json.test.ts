import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { formatBody, formatJson, parseJson } from './json.ts';

const reviver = ((_: string, value: unknown, { source = '' }: { source?: string }): unknown =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?[0-9]{16,309}$/.test(source)
    ? BigInt(source)
    : value) as (name: string, value: unknown) => unknown;

/**
 * Uses V8's access to the source text of each number. A reviver recurses for each level, so `parseJson` cannot use it.
 */
const expected = (text: string): unknown => JSON.parse(text, reviver);

const integer = fc
  .tuple(fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), fc.integer({ min: 0, max: 70 }))
  .map(([value, bits]) => String(value >> BigInt(bits)));
const edge = fc.constantFrom(
  '9007199254740991',
  '-9007199254740991',
  '9007199254740992',
  '9007199254740993',
  '-9223372036854775808',
  '9223372036854775807',
  '18446744073709551616',
  '0.12345678901234567',
  '1.2345678901234567890e-12',
  '1e-1234567890123456',
  '100000000000000000000',
);
const float = fc.double({ noDefaultInfinity: true, noNaN: true }).map((value) => JSON.stringify(value));
const string = fc
  .oneof(
    fc.string(),
    integer.map((digits) => `, ${digits} ,"${digits}":${digits}\\`),
    fc.constantFrom('\\"9007199254740993,', '__proto__', '0'),
  )
  .map((text) => JSON.stringify(text));
const blank = fc.constantFrom('', '', '', ' ', '\n\t');
const { json } = fc.letrec<{ json: string }>((tie) => {
  const item = fc.tuple(blank, tie('json'), blank).map((parts) => parts.join(''));
  return {
    json: fc.oneof(
      { depthSize: 'small' },
      integer,
      edge,
      float,
      string,
      fc.constantFrom('null', 'true'),
      fc.array(item, { maxLength: 5 }).map((items) => `[${items.join()}]`),
      fc
        .array(fc.tuple(string, blank, item), { maxLength: 5 })
        .map((fields) => `{${fields.map(([name, space, value]) => `${name}${space}:${value}`).join()}}`),
    ),
  };
});

describe('JSON with integers of any size', () => {
  it.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992n],
    ['-9007199254740993', -9007199254740993n],
    ['{"a":[9223372036854775807]}', { a: [9223372036854775807n] }],
    ['100000000000000000000', 100000000000000000000n],
    [' [ 9007199254740993\n]', [9007199254740993n]],
    ['-0', -0],
    // Floats, for the apiserver, too.
    ['9007199254740993.0', 9007199254740992],
    ['9007199254740993e0', 9007199254740992],
    ['0.12345678901234567', Number('0.12345678901234567')],
    ['{"9007199254740993":1}', { '9007199254740993': 1 }],
    ['"a, 9007199254740993,"', 'a, 9007199254740993,'],
  ])('%s', (text, value) => {
    expect(parseJson(text)).toEqual(value);
  });

  it('is read as its source says, and written as it was read', () => {
    let bigints = 0;
    fc.assert(
      fc.property(json, (text) => {
        const value = parseJson(text);
        expect(value).toEqual(expected(text));
        const written = formatJson(value);
        expect(parseJson(written)).toEqual(value);
        if (/(?<![\d"])\d{17}/.test(written)) bigints += 1;
      }),
      { numRuns: 3000 },
    );
    expect(bigints).toBeGreaterThan(300);
  });

  it('is refused where JSON.parse refuses it', () => {
    const isRead = (read: (text: string) => unknown, text: string): boolean => {
      try {
        read(text);
        return true;
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError);
        return false;
      }
    };
    const refused = { true: 0, false: 0 };
    const cut = fc.constantFrom('', '"', ':', ',', '{', '0', '.', 'e', '-', '+', '9007199254740993', '\\');
    fc.assert(
      fc.property(json, fc.nat(), fc.nat({ max: 2 }), cut, (text, at, length, more) => {
        const from = at % (text.length + 1);
        const spoilt = text.slice(0, from) + more + text.slice(from + length);
        const read = isRead(JSON.parse, spoilt);
        expect(isRead(parseJson, spoilt), spoilt).toBe(read);
        refused[`${!read}`] += 1;
      }),
      { numRuns: 5000 },
    );
    expect(refused.true).toBeGreaterThan(500);
    expect(refused.false).toBeGreaterThan(500);
  });

  it('is YAML with the same value where the media type says so', () => {
    const body = { 'a\u2028': 'b\u007f\u0085\u009f\u2029\ufeff\uffff', n: 9007199254740993n };
    const text = formatBody(body, 'application/apply-patch+yaml');
    expect(text).toMatch(/^[\u0020-\u007e]+$/);
    expect(parseJson(text)).toEqual(body);
    expect(parseYaml(text, { intAsBigInt: true })).toEqual(body);
    expect(formatBody(body, 'application/json')).toBe(formatJson(body));
  });

  it('may have ten thousand levels', () => {
    const levels = 10_000;
    let value = parseJson(`${'['.repeat(levels)}9007199254740993${']'.repeat(levels)}`);
    for (let level = 0; level < levels; level += 1) [value] = value as unknown[];
    expect(value).toBe(9007199254740993n);
  });

  it('is written through a replacer, and not at all when it is cyclic', () => {
    expect(formatJson({ a: 9007199254740993n, b: 1 }, (name, value) => (name === 'b' ? undefined : value))).toBe(
      '{"a":9007199254740993}',
    );
    const cyclic: { self?: object; big: bigint } = { big: 2n ** 60n };
    cyclic.self = cyclic;
    expect(() => formatJson(cyclic)).toThrow(TypeError);
  });
});
