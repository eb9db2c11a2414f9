import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatFieldSelector, parseFieldSelector } from './field-selector.ts';
import { SelectorError } from './label-requirement.ts';

describe('a field selector', () => {
  it.each([
    ['', []],
    ['metadata.name=a', [{ field: 'metadata.name', operator: '=', value: 'a' }]],
    [
      'a==b,c!=d,',
      [
        { field: 'a', operator: '=', value: 'b' },
        { field: 'c', operator: '!=', value: 'd' },
      ],
    ],
    ['a=', [{ field: 'a', operator: '=', value: '' }]],
    ['a=x\\,y\\=z\\\\', [{ field: 'a', operator: '=', value: 'x,y=z\\' }]],
    ['a\\=b', [{ field: 'a\\', operator: '=', value: 'b' }]],
    ['=,!=,a=', [{ field: 'a', operator: '=', value: '' }]],
  ])('%j is read', (text, expected) => {
    expect(parseFieldSelector(text)).toEqual(expected);
  });

  it.each([
    ['metadata.name', "invalid selector: 'metadata.name'; can't understand 'metadata.name'"],
    // The apiserver writes the character as its number.
    ['a=b=c', 'unescaped character in value: 61'],
    ['a\\=b=c', 'unescaped character in value: 61'],
    ['a=b\\c', 'invalid escape sequence: \\c'],
    ['a=b\\', 'invalid escape sequence'],
  ])('%j is refused', (text, message) => {
    expect(() => parseFieldSelector(text)).toThrow(message);
  });

  it('is the same after it was written and read again', () => {
    const one = fc.record({
      field: fc.stringMatching(/^[a-z.]{1,8}$/),
      operator: fc.constantFrom('=' as const, '!=' as const),
      value: fc.string(),
    });
    fc.assert(
      fc.property(fc.array(one, { maxLength: 4 }), (given) => {
        expect(parseFieldSelector(formatFieldSelector(given))).toEqual(given);
      }),
    );
  });

  it('never ends in another error, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'ab=!\\,. '.split('')) }), (text) => {
        try {
          parseFieldSelector(text);
        } catch (error) {
          expect(error).toBeInstanceOf(SelectorError);
        }
      }),
    );
  });
});
