import { expect, it } from 'vitest';
import type { Description, IndexSpec, WatchMap } from '../../../contract/index.ts';
import type { CacheSettings } from '../../../ground/config/cache-file.ts';
import { checkEncryptedKinds } from './encrypted-kinds.ts';

const kind = (name: string) => ({ apiVersion: 'v1', kind: name });
const description = (rest: Partial<Description>): Description => ({
  version: 'v1',
  name: 'web',
  for: kind('ConfigMap'),
  owns: [],
  watches: [],
  reads: [],
  indexes: [],
  concurrency: 1,
  timeoutSeconds: 15,
  ...rest,
});
const all: CacheSettings = { defaults: {}, kinds: {} };
const metadataOnly: CacheSettings = { defaults: {}, kinds: { 'v1/Secret': { metadataOnly: true } } };
const check = (rest: Partial<Description>, settings = all, hasKeys = true) => {
  return () => checkEncryptedKinds(description(rest), settings, hasKeys);
};
const secret = kind('Secret');
const index = (of: string, spec: IndexSpec) => ({ indexes: [{ ...kind(of), index: spec }] });

it.each<[string, Partial<Description>]>([
  ['for', { for: secret }],
  ['owns', { owns: [secret] }],
  ['watches', { watches: [{ ...secret, map: { by: 'selector', path: 'spec.selector' } }] }],
  ['reads', { reads: [kind('Pod'), secret] }],
])('Secrets that are named in `%s` need keys, their metadata none', (_, declared) => {
  expect(check(declared, all, false)).toThrow(
    'the controller "web" asks for v1/Secret, which is cached only encrypted: set LEVELHOOK_CACHE_KEYS',
  );
  expect(check(declared, metadataOnly, false)).not.toThrow();
  expect(check(declared, { defaults: { metadataOnly: true }, kinds: {} }, false)).not.toThrow();
  expect(check(declared)).not.toThrow();
});

it('keys that are made of what Secrets hold are refused', () => {
  const watches = (map: WatchMap, of = secret) => ({ watches: [{ ...of, map }] });
  for (const map of [
    { by: 'field', path: 'data.password' },
    { by: 'annotation', annotation: 'a' },
    { by: 'cel', expression: 'object.data.password' },
  ] as const) {
    expect(check(watches(map))).toThrow(`the controller "web" maps v1/Secret by ${map.by} (watches.0.map)`);
    expect(check(watches(map), metadataOnly)).not.toThrow();
    expect(check(watches(map, kind('ConfigMap')))).not.toThrow();
  }
  for (const map of [{ by: 'label', label: 'a' }, { by: 'owner' }, { by: 'all' }] as const) {
    expect(check(watches(map))).not.toThrow();
  }
});

it('other kinds need none, nor do other kinds of that name', () => {
  expect(check({ reads: [kind('Pod'), { apiVersion: 'example.com/v1', kind: 'Secret' }] }, all, false)).not.toThrow();
});

it('an index of what Secrets hold is refused, since its values are names of keys', () => {
  const reads = [secret];
  for (const spec of ['field:data.password', 'field:metadata.annotations', 'annotation:a'] as const) {
    expect(check({ reads, ...index('Secret', spec) })).toThrow(`declares the index ${spec} of v1/Secret`);
    expect(check({ reads, ...index('Secret', spec) }, metadataOnly)).not.toThrow();
    expect(check({ reads, ...index('ConfigMap', spec) })).not.toThrow();
    const watches = [{ ...kind('Pod'), map: { by: 'index' as const, index: spec } }];
    expect(check({ for: secret, watches })).toThrow(spec);
    // That index is of the reconciled kind, and not of the Secrets.
    expect(check({ reads, watches })).not.toThrow();
  }
  expect(check({ reads, ...index('Secret', 'label:app') })).not.toThrow();
});

it.each<[string, string, Partial<Description>, boolean]>([
  // The name of the kind or of the controller does not matter.
  ['KindNotEncrypted', 'reads.1', { name: 'index', reads: [kind('Pod'), secret] }, false],
  ['MapNotEncrypted', 'watches.0.map', { watches: [{ ...secret, map: { by: 'field', path: 'data.a' } }] }, true],
  ['IndexNotEncrypted', 'indexes', { reads: [secret], ...index('Secret', 'field:data.password') }, true],
])('says in one word what is wrong, and where: %s at %s', (reason, field, declared, hasKeys) => {
  expect(check(declared, all, hasKeys)).toThrow(expect.objectContaining({ reason, field }));
});
