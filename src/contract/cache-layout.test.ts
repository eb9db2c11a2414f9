import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KubernetesObject, OwnerReference } from '../core/index.ts';
import { decodeEntry, encodeEntry, indexEntriesOf, viewKeys, viewPrefix } from './cache-layout.ts';

const line = fc.stringMatching(/^[^\n]+$/);
const owner = (uid: string, controller?: boolean): OwnerReference => ({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  name: 'x',
  uid,
  ...(controller === undefined ? {} : { controller }),
});
const object = (namespace?: string, ownerReferences?: OwnerReference[]): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    name: 'a',
    uid: 'u',
    resourceVersion: '1',
    ...(namespace === undefined ? {} : { namespace }),
    ...(ownerReferences === undefined ? {} : { ownerReferences }),
  },
});

describe('an entry', () => {
  it('is the same after it was written and read', () => {
    const entry = fc.record({
      resourceVersion: fc.bigInt({ min: 1n }).map(String),
      uid: line,
      terminating: fc.boolean(),
      indexEntries: fc.array(line),
    });
    fc.assert(
      fc.property(entry, (given) => {
        expect(decodeEntry(encodeEntry(given))).toEqual(given);
      }),
    );
  });

  it('has the form that the apply script reads: version, UID, flag, indexes', () => {
    const given = { resourceVersion: '5', uid: 'u', terminating: true, indexEntries: ['namespace:a', 'orphan:a'] };
    expect(encodeEntry(given)).toBe('5\nu\nT\nnamespace:a\norphan:a');
    expect(encodeEntry({ ...given, terminating: false, indexEntries: [] })).toBe('5\nu\n');
  });
});

describe('the index entries of an object', () => {
  it.each<[string, KubernetesObject, string[]]>([
    ['without an owner', object('a'), ['namespace:a', 'orphan:a']],
    ['with a controller', object('a', [owner('o', true)]), ['namespace:a', 'controller:o']],
    ['whose owners do not manage it', object('a', [owner('o'), owner('p', false)]), ['namespace:a', 'orphan:a']],
    [
      'with a controller among its owners',
      object('a', [owner('o'), owner('p', true)]),
      ['namespace:a', 'controller:p'],
    ],
    ['of the cluster', object(), []],
    ['of the cluster with a controller', object(undefined, [owner('o', true)]), ['controller:o']],
  ])('%s', (_which, given, entries) => {
    expect(indexEntriesOf(given)).toEqual(entries);
  });
});

describe('the keys of a view', () => {
  const scope = { keyPrefix: 'levelhook', clusterId: 'c', resource: { apiVersion: 'v1', kind: 'Pod' }, settings: 's' };

  it('share one hash tag', () => {
    const prefix = viewPrefix(scope);
    const tag = /^\{([^{}]+)\}$/.exec(prefix)?.[1];
    expect(tag).toBeDefined();
    for (const key of Object.values(viewKeys(prefix))) expect(key.startsWith(`{${tag}}:`)).toBe(true);
    expect(new Set(Object.values(viewKeys(prefix))).size).toBe(6);
  });

  it('are not those of another cluster, kind, version, setting or prefix', () => {
    const others = [
      scope,
      { ...scope, keyPrefix: 'other' },
      { ...scope, clusterId: 'd' },
      { ...scope, resource: { apiVersion: 'v2', kind: 'Pod' } },
      { ...scope, resource: { apiVersion: 'v1', kind: 'Node' } },
      { ...scope, settings: 't' },
    ];
    expect(new Set(others.map(viewPrefix)).size).toBe(others.length);
  });
});
