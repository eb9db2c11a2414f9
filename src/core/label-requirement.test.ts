import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatLabelSelector,
  fulfils,
  parseLabelSelector,
  requirementsOf,
  SelectorError,
} from './label-requirement.ts';
import { matchesLabels } from './label-selector.ts';

describe('a label selector as text', () => {
  it.each([
    ['', []],
    ['  ', []],
    ['a', [{ key: 'a', operator: 'Exists', values: [] }]],
    ['!a', [{ key: 'a', operator: 'DoesNotExist', values: [] }]],
    ['a=b', [{ key: 'a', operator: 'In', values: ['b'] }]],
    ['a==b', [{ key: 'a', operator: 'In', values: ['b'] }]],
    ['a=', [{ key: 'a', operator: 'In', values: [''] }]],
    ['a!=b', [{ key: 'a', operator: 'NotIn', values: ['b'] }]],
    ['x.io/a in (b, c)', [{ key: 'x.io/a', operator: 'In', values: ['b', 'c'] }]],
    ['a notin (b,,c)', [{ key: 'a', operator: 'NotIn', values: ['b', '', 'c'] }]],
    ['a in ()', [{ key: 'a', operator: 'In', values: [''] }]],
    ['in in (in,notin)', [{ key: 'in', operator: 'In', values: ['in', 'notin'] }]],
    ['a>3', [{ key: 'a', operator: 'Gt', values: ['3'] }]],
    ['\ta =\r\n b ', [{ key: 'a', operator: 'In', values: ['b'] }]],
  ])('%j is read', (text, expected) => {
    expect(parseLabelSelector(text)).toEqual(expected);
  });

  it.each([
    ['a===b', "found '=', expected: identifier"],
    ['a=b=c', "found '=', expected: ',' or 'end of string'"],
    ['!a=b', "found '=', expected: ',' or 'end of string'"],
    ['a,', "found '', expected: identifier after ','"],
    [',a', "found ',', expected: !, identifier, or 'end of string'"],
    ['!', "found '', expected: identifier"],
    ['a b', "found 'b', expected: in, notin, =, ==, !=, gt, lt"],
    ['a in b', "found 'b' expected: '('"],
    ['a in (b', "found '', expected: ',' or ')'"],
    ['a in (b c)', "found 'c', expected: ',' or ')'"],
    ['a>b', 'the value must be an integer'],
    ['a>9223372036854775808', 'the value must be an integer'],
    ['a/b/c=d', 'a qualified name must consist'],
    ['A.B/c', 'prefix part must be a lowercase RFC 1123 subdomain'],
    [`${'a'.repeat(64)}=b`, 'name part must be no more than 63'],
    [`a=${'b'.repeat(64)}`, 'must be no more than 63'],
    ['a=-', 'a valid label must be an empty string'],
    // For apimachinery these are no white space.
    ['a\u00a0', 'name part must consist of'],
    ['a=b\u00a0', 'a valid label must be an empty string'],
    ['a\u2028=b', 'name part must consist of'],
    ['a=b\f', 'a valid label must be an empty string'],
    ['a in (b,\v)', 'a valid label must be an empty string'],
  ])('%j is refused', (text, message) => {
    expect(() => parseLabelSelector(text)).toThrow(SelectorError);
    expect(() => parseLabelSelector(text)).toThrow(message);
  });

  const name = fc.stringMatching(/^[a-z]([-a-zA-Z0-9_.]{0,5}[a-z0-9])?$/);
  const value = fc.oneof(name, fc.constant(''));
  const selector = fc.record({
    matchLabels: fc.dictionary(name, value, { maxKeys: 3 }),
    matchExpressions: fc.array(
      fc.oneof(
        fc.record({
          key: name,
          operator: fc.constantFrom('In' as const, 'NotIn' as const),
          values: fc.uniqueArray(value, { minLength: 1, maxLength: 3 }),
        }),
        fc.record({ key: name, operator: fc.constantFrom('Exists' as const, 'DoesNotExist' as const) }),
      ),
      { maxLength: 3 },
    ),
  });

  it('selects what the same selector as an object does', () => {
    fc.assert(
      fc.property(selector, fc.dictionary(name, value), (given, labels) => {
        const parsed = parseLabelSelector(formatLabelSelector(requirementsOf(given)));
        expect(fulfils(parsed, labels)).toBe(matchesLabels(given, labels));
      }),
    );
  });

  it('never ends in another error, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'ab=!(),<> in/.-\u0000é'.split('')) }), (text) => {
        try {
          parseLabelSelector(text);
        } catch (error) {
          expect(error).toBeInstanceOf(SelectorError);
        }
      }),
    );
  });

  it('compares numbers as numbers, and nothing else', () => {
    const size = parseLabelSelector('size>9');
    expect(fulfils(size, { size: '10' })).toBe(true);
    expect(fulfils(size, { size: '9' })).toBe(false);
    expect(fulfils(size, { size: 'large' })).toBe(false);
    expect(fulfils(size, {})).toBe(false);
    expect(fulfils(parseLabelSelector('size<9'), { size: '8' })).toBe(true);
    // As strconv.ParseInt: 64 bits, however many digits.
    expect(fulfils(size, { size: '9223372036854775807' })).toBe(true);
    expect(fulfils(size, { size: '9223372036854775808' })).toBe(false);
    expect(fulfils(size, { size: '0000000000000000000010' })).toBe(true);
  });
});
