import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boundedFields, boundedText, printable, textWithin } from './bounded-text.ts';

describe('boundedText', () => {
  it.each<[string, number, string]>([
    ['as it is', 10, 'as it is'],
    ['exactly so', 10, 'exactly so'],
    ['one too long', 10, 'one too l…'],
    ['a\nb\r\n\tc\u0000d\u001b[31me\u0085f\u2028g', 50, 'a b c d [31me f g'],
    ['a\u202eb\u2066c\u061cd\ufeff\u00ade', 50, 'a b c d e'],
    ['\u0645\u200c\u0646 👨\u200d👩', 50, '\u0645\u200c\u0646 👨\u200d👩'],
    ['12345678😀', 10, '12345678😀'],
    ['12345678😀9', 10, '12345678…'],
  ])('of %j in %i characters is %j', (text, max, expected) => {
    expect(boundedText(text, max)).toBe(expected);
  });
});

describe('textWithin', () => {
  it('is the well-formed beginning of a text, whose JSON has no more bytes, and says where it was cut', () => {
    const units = fc.array(fc.constantFrom('a', 'é', '名', '😀', '\ud83d', '"', '\\', '\n', '\u0001'));
    fc.assert(
      fc.property(units, fc.integer({ min: 0, max: 60 }), (parts, most) => {
        const text = parts.join('');
        const within = textWithin(text, most);
        const whole = text.toWellFormed();
        if (within !== whole && most >= 3) expect(within.endsWith('…')).toBe(true);
        if (within !== whole) expect(whole.startsWith(within.replace(/…$/, ''))).toBe(true);
        expect(Buffer.byteLength(JSON.stringify(within)) - 2).toBeLessThanOrEqual(most);
      }),
    );
    const cut = ['abcd', 'abcde', 'a名', 'a"""', '\ud800', 'a😀b'].map((text) => textWithin(text, 4));
    expect(cut).toEqual(['abcd', 'a…', 'a名', 'a…', '\ufffd', 'a…']);
    expect(textWithin('abc', 2)).toBe('');
  });
});

describe('printable', () => {
  it.each([
    ['as it is, in\n\ttwo lines', 'as it is, in\n\ttwo lines'],
    ['\u001b]0;owned\u0007\u001b[2Jk1', String.raw`\u001b]0;owned\u0007\u001b[2Jk1`],
    ['\u009b31m\u202eevil\r\u0000', String.raw`\u009b31m\u202eevil\u000d\u0000`],
    ['\u{e0041}', String.raw`\udb40\udc41`],
    ['\ud800é😀', String.raw`\ud800é😀`],
  ])('of %j is %j', (text, expected) => {
    expect(printable(text)).toBe(expected);
  });

  it('leaves JSON what it means', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value, undefined, 2);
        expect(JSON.parse(printable(text))).toEqual(JSON.parse(text));
      }),
    );
  });
});

describe('boundedFields', () => {
  it('leaves a line as it is that is short', () => {
    const fields = {
      controller: 'web',
      run: 5,
      ok: true,
      none: null,
      list: ['a', { b: 1n }],
      at: new Date(0),
      left: undefined,
    };
    expect(boundedFields(fields)).toEqual(fields);
  });

  it('makes a few KB of whatever it is given', () => {
    const deep = (depth: number): unknown => (depth === 0 ? 'end' : { next: deep(depth - 1) });
    const fields = {
      error: 'x'.repeat(600_000),
      reasons: Array.from({ length: 10_000 }, () => ({ message: 'm'.repeat(1000) })),
      deep: deep(5000),
      ['k'.repeat(100_000)]: 1,
    };
    expect(JSON.stringify(boundedFields(fields)).length).toBeLessThan(8192);
  });

  it('keeps every line one line', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (fields) => {
        expect(JSON.stringify(boundedFields(fields))).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
        expect(JSON.stringify(boundedFields(fields))).not.toMatch(/[^\\](\\\\)*\\[nr]/);
      }),
    );
  });
});
