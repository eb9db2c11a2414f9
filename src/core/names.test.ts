import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  fieldAt,
  isApiVersion,
  isDns1035Label,
  isDnsSubdomain,
  isFieldPath,
  isFormattedKind,
  isKind,
  isLabelKey,
  isName,
  isNamedName,
  isNamespace,
  isUid,
  ownValue,
} from './names.ts';

const label63 = 'a'.repeat(63);

/** Each case is one rule of apimachinery or apiextensions-apiserver. */
describe.each<[string, (text: unknown) => boolean, valid: unknown[], wrong: unknown[]]>([
  ['a namespace', isNamespace, ['a', '0', 'kube-system', label63], ['A', 'a.b', '-a', 'a-', `${label63}a`]],
  ['a DNS subdomain', isDnsSubdomain, ['apps', 'a.b-c.0'], ['a..b', '.a', 'a.', 'A.b', 'a.'.repeat(127)]],
  ['a version', isDns1035Label, ['v1', 'v1alpha1', label63], ['1', 'V1', 'v1.2', `${label63}a`]],
  [
    'an API version',
    isApiVersion,
    ['v1', 'apps/v1', 'a.example.com/v1beta1', `${'a.'.repeat(126)}a/${label63}`],
    ['apps/v1/x', '/v1', 'apps/', 'apps/./v1', '../v1', 'apps//v1', 'mine.example.com/../../api/v1', 'a/%2e%2e', 'V1'],
  ],
  ['a kind', isKind, ['Pod', 'pod', 'API-Thing', 'X0'], ['0Pod', 'Po/d', 'P.d', 'Pod-', `${label63}a`]],
  ['a kind of a version', isFormattedKind, ['v1/Pod', 'apps/v1/ReplicaSet'], ['Pod', 'v1/', '/Pod', 'a/b/c/Pod']],
  [
    'a name',
    isName,
    ['a', 'system:node', 'A b\n', '...', '..a', 'é', '😀', 'a'.repeat(2000), '__proto__'],
    ['.', '..', 'a/b', '%', 'a%2f', '\ud800'],
  ],
  [
    'a name that other text gives',
    isNamedName,
    ['a', 'system:node', 'A b', 'é', '😀', 'a'.repeat(1024)],
    ['..', 'A b\n', 'a\u0000', '\ufffd', '\u001b[2J', 'a\u202eb', 'a'.repeat(1025)],
  ],
  [
    "a label's key",
    isLabelKey,
    ['a', 'A_b.c-0', 'a.b/C', 'constructor', label63],
    ['__proto__', 'a/b/c', '/a', 'a/', 'a b', `${label63}a`, '-a'],
  ],
  [
    'a path of fields',
    isFieldPath,
    ['a', 'spec.nodeName', 'constructor', '__proto__', 'x'.repeat(512), '😀'.repeat(512)],
    ['a..b', '.a', 'a ', 'a\nb', 'a=b', 'x'.repeat(513), '😀'.repeat(513)],
  ],
  ['a UID', isUid, ['x', '8f5b1d5e-1f0b-4b0e-8d0e-2b8f0c1d2e3f'], ['a\nb', 'a b', 'é', 'x'.repeat(129)]],
])('%s', (_what, is, valid, wrong) => {
  it.each(valid)('may be %j', (text) => expect(is(text)).toBe(true));
  it.each([...wrong, '', undefined, null, 5, {}, ['a'], Object('a')])('is not %j', (text) =>
    expect(is(text)).toBe(false),
  );

  it('is told within a moment, whatever the text', () => {
    // A pattern with exponential backtracking would not return.
    for (const part of ['a', 'a-', 'a.', '.', '-', 'a/', '/'])
      expect(is(`${part.repeat(100_000)}\n`)).toBeTypeOf('boolean');
  });
});

describe('the value of a key', () => {
  it('is that of an own property, whatever the key is called', () => {
    const parsed = JSON.parse('{"__proto__": "a", "constructor": "b"}') as Record<string, string>;
    expect(ownValue(parsed, '__proto__')).toBe('a');
    expect(ownValue(parsed, 'constructor')).toBe('b');
    for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      expect(ownValue({}, key)).toBeUndefined();
      expect(ownValue(undefined, key)).toBeUndefined();
      expect(fieldAt({ a: {} }, `a.${key}`)).toBeUndefined();
    }
    expect(fieldAt({ a: { b: 1 } }, 'a.b')).toBe(1);
    expect(fieldAt({ a: { 'b.c': 1 } }, ['a', 'b.c'])).toBe(1);
    expect(fieldAt(1, [])).toBe(1);
    expect(fieldAt({ a: 'text' }, 'a.length')).toBeUndefined();
  });

  it('is found in whatever JSON has', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string(), (value, path) => {
        fieldAt(value, path);
      }),
    );
  });
});
