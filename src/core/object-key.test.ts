import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isName } from './names.ts';
import { decodeObjectKey, formatObjectKey, parseObjectKey } from './object-key.ts';

const name = fc.string({ unit: 'binary', minLength: 1 }).filter(isName);
const namespace = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$/);

describe('an object key', () => {
  it('is written as namespace/name, and as name alone for an object of the cluster', () => {
    expect(formatObjectKey({ namespace: 'a', name: 'b' })).toBe('a/b');
    expect(formatObjectKey({ name: 'b' })).toBe('b');
    expect(formatObjectKey({ namespace: '', name: 'b' })).toBe('b');
  });

  it('is the same after it was written and read', () => {
    fc.assert(
      fc.property(fc.option(namespace, { nil: undefined }), name, (namespace, name) => {
        const key = namespace === undefined ? { name } : { namespace, name };
        expect(parseObjectKey(formatObjectKey(key))).toEqual(key);
      }),
    );
  });

  it.each([
    '',
    '/',
    'a/',
    '/b',
    'a/b/c',
    'a//b',
    '..',
    '.',
    'a/..',
    '../a',
    'A/b',
    'a b/c',
    'a%2fb',
    'a/%2e',
    'a/\ud800',
  ])('is not "%s"', (text) => {
    expect(decodeObjectKey(text)).toBeUndefined();
    expect(() => parseObjectKey(text)).toThrow(TypeError);
  });

  it('is told from any other text without an error', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const key = decodeObjectKey(text);
        if (key) expect(formatObjectKey(key)).toBe(text);
      }),
    );
  });
});
