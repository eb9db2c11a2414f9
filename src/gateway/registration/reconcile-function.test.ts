import { describe, expect, it } from 'vitest';
import { decodeSpec, type ReconcileFunction } from './reconcile-function.ts';

const spec = {
  endpoint: { url: 'http://127.0.0.1:1' },
  serviceAccountName: 'reader',
  signingSecret: { name: 'signing' },
  for: { apiVersion: 'v1', kind: 'ConfigMap' },
};
/** As it comes from the apiserver. */
const objectOf = (more: object | string): ReconcileFunction => {
  const text = typeof more === 'string' ? more : JSON.stringify({ ...spec, ...more });
  return {
    apiVersion: 'levelhook.dev/v1alpha1',
    kind: 'ReconcileFunction',
    metadata: { namespace: 'a', name: 'b', uid: 'x', resourceVersion: '1' },
    spec: JSON.parse(text) as unknown,
  };
};
const source = (more: object) => ({ apiVersion: 'v1', kind: 'Pod', ...more });

/** An older definition in the cluster has no patterns, and lets all of this pass. */
describe('the spec of a ReconcileFunction, read without the definition of the cluster', () => {
  it('is taken with names that are names', () => {
    const of = (map: object) => ({ watches: [source({ map })] });
    for (const right of [
      {},
      { for: { apiVersion: 'a-b.example.com/v1beta1', kind: 'Thing', namespaces: ['a', '0'] } },
      of({ by: 'label', label: 'constructor' }),
      of({ by: 'annotation', annotation: 'Example.com/to' }),
      of({ by: 'field', path: '__proto__.a' }),
      of({ by: 'index', index: 'label:example.com/a' }),
      { serviceAccountName: 'a.b', signingSecret: { name: 'a.b', key: '_.A' } },
    ])
      expect(() => decodeSpec(objectOf(right))).not.toThrow();
  });

  it.each<[string, object]>([
    ...['apps/../../api/v1', '.../../../api/v1', 'apps/./v1', 'apps//v1', 'apps/%2e%2e', '..', 'v1\n', 'a/b/c', ''].map(
      (apiVersion): [string, object] => ['spec.for.apiVersion', { for: { apiVersion, kind: 'Pod' } }],
    ),
    ['spec.owns.0.apiVersion', { owns: [source({ apiVersion: 'v1/' })] }],
    ['spec.watches.0.apiVersion', { watches: [source({ apiVersion: '../v1', map: { by: 'all' } })] }],
    ['spec.reads.0.apiVersion', { reads: [source({ apiVersion: 'v1#' })] }],
    ['spec.indexes.0.apiVersion', { indexes: [source({ apiVersion: '.', index: 'label:a' })] }],
    ['spec.indexes.0.index', { indexes: [source({ index: 'field:a\nb' })] }],
    ['spec.indexes.0.index', { indexes: [source({ index: 'annotation:__proto__' })] }],
    ['spec.for.kind', { for: { apiVersion: 'v1', kind: 'Pod/..' } }],
    ['spec.reads.0.namespaces.0', { reads: [source({ namespaces: ['a/b'] })] }],
    ['spec.watches.0.map.label', { watches: [source({ map: { by: 'label', label: '__proto__' } })] }],
    ['spec.watches.0.map.path', { watches: [source({ map: { by: 'selector', path: 'a..b' } })] }],
    ['spec.serviceAccountName', { serviceAccountName: '../default' }],
    ['spec.signingSecret.name', { signingSecret: { name: 'a/b' } }],
    ['spec.signingSecret.key', { signingSecret: { name: 'a', key: 'a b' } }],
  ])('is refused, and the field is named: %s %#', (field, more) => {
    expect(() => decodeSpec(objectOf(more))).toThrow(field);
  });

  it('is refused with a key that would be lost on the way: what is left of the selector would select more', () => {
    const hidden = JSON.stringify({ ...spec, for: { ...spec.for, labelSelector: { matchLabels: { key: 'x' } } } });
    expect(() => decodeSpec(objectOf(hidden))).not.toThrow();
    expect(() => decodeSpec(objectOf(hidden.replace('"key"', '"__proto__"')))).toThrow('__proto__');
  });
});
