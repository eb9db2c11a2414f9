import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatObjectKey, parseObjectKey } from './object-key.ts';

const name = fc.stringMatching(/^[^/]+$/);

describe('an object key', () => {
  it('is written as namespace/name, and as name alone for an object of the cluster', () => {
    expect(formatObjectKey({ namespace: 'a', name: 'b' })).toBe('a/b');
    expect(formatObjectKey({ name: 'b' })).toBe('b');
    expect(formatObjectKey({ namespace: '', name: 'b' })).toBe('b');
  });

  it('is the same after it was written and read', () => {
    fc.assert(
      fc.property(fc.option(name, { nil: undefined }), name, (namespace, name) => {
        const key = namespace === undefined ? { name } : { namespace, name };
        expect(parseObjectKey(formatObjectKey(key))).toEqual(key);
      }),
    );
  });

  it.each(['', '/', 'a/', '/b', 'a/b/c', 'a//b'])('is not "%s"', (text) => {
    expect(() => parseObjectKey(text)).toThrow(TypeError);
  });
});
