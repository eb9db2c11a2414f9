import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { apiVersionPath, formatKind, groupOf, groupPath, resource, resourcePath, versionOf } from './resource.ts';

const anyText = fc.string({ unit: 'binary' });
const HOSTILE = [
  '',
  '.',
  '..',
  '/',
  '../..',
  '%2e%2e',
  '%2E',
  'a/b/c',
  'a//b',
  '\\',
  'a?b',
  'a#b',
  'a;b',
  ' ',
  '\n',
  '\ud800',
];

const pods = resource('v1', 'Pod');
const sets = resource('apps/v1', 'ReplicaSet');
const nodes = resource('v1', 'Node', { namespaced: false });

describe('a resource', () => {
  it('is namespaced, and its plural ends in s, unless it is said otherwise', () => {
    expect(sets).toEqual({ apiVersion: 'apps/v1', kind: 'ReplicaSet', plural: 'replicasets', namespaced: true });
    expect(resource('networking.k8s.io/v1', 'Ingress', { plural: 'ingresses', namespaced: false })).toMatchObject({
      plural: 'ingresses',
      namespaced: false,
    });
  });

  it.each([
    [pods, {}, '/api/v1/pods'],
    [pods, { namespace: 'a' }, '/api/v1/namespaces/a/pods'],
    [pods, { namespace: 'a', name: 'b' }, '/api/v1/namespaces/a/pods/b'],
    [pods, { namespace: 'a', name: 'b', subresource: 'status' }, '/api/v1/namespaces/a/pods/b/status'],
    [sets, {}, '/apis/apps/v1/replicasets'],
    [sets, { namespace: 'a', name: 'b', subresource: 'scale' }, '/apis/apps/v1/namespaces/a/replicasets/b/scale'],
    [nodes, { name: 'n' }, '/api/v1/nodes/n'],
    [nodes, { namespace: 'ignored', name: 'n' }, '/api/v1/nodes/n'],
    // Names of roles may hold a colon, and nothing may break out of the path.
    [nodes, { name: 'system:node' }, '/api/v1/nodes/system%3Anode'],
    [nodes, { name: 'c?d#e f' }, '/api/v1/nodes/c%3Fd%23e%20f'],
  ])('%# has its path', (given, at, path) => {
    expect(resourcePath(given, at)).toBe(path);
  });

  it.each<[string, Parameters<typeof resourcePath>, string]>([
    ['a namespace', [pods, { namespace: '..' }], '".." is no namespace'],
    ['an empty namespace, which would be all', [pods, { namespace: '', name: 'a' }], '"" is no namespace'],
    [
      'a namespace that is a long integer',
      [pods, { namespace: (2n ** 63n) as never }],
      '9223372036854775808 is no namespace',
    ],
    ['an object whose namespace is undefined', [pods, { name: 'a' }], 'undefined is no namespace'],
    ['a name', [pods, { namespace: 'a', name: '..' }], '".." is no name'],
    ['a name with a slash', [pods, { namespace: 'a', name: 'b/status' }], '"b/status" is no name'],
    ['an empty name, which would be all', [pods, { namespace: 'a', name: '' }], '"" is no name'],
    [
      'a name that is undefined, which would be all',
      [pods, { namespace: 'a', name: undefined as unknown as string }],
      'undefined is no name',
    ],
    ['a subresource of nothing', [pods, { namespace: 'a', subresource: 'status' }], 'undefined is no name'],
    ['a subresource', [pods, { namespace: 'a', name: 'a', subresource: '..' }], '".." is no subresource'],
    ['a resource', [{ ...pods, plural: 'pods/a' }, {}], '"pods/a" is no resource'],
    ['an API version', [{ ...pods, apiVersion: 'apps/../../api/v1' }, {}], '"apps/../../api/v1" is no API version'],
    ['text of any length', [pods, { namespace: 'x'.repeat(5000) }], `"${'x'.repeat(99)} is no namespace`],
  ])('has no path with what is no name: %s', (_what, [given, at], message) => {
    expect(() => resourcePath(given, at)).toThrow(new TypeError(message));
  });

  it('has a path that leads where its parts say, whatever the parts are', () => {
    const text = fc.oneof(anyText, fc.constantFrom(...HOSTILE), fc.constantFrom('a', 'v1', 'apps/v1', 'pods'));
    let paths = 0;
    const property = fc.property(text, text, text, text, text, (apiVersion, plural, namespace, name, subresource) => {
      let path: string;
      try {
        path = resourcePath({ apiVersion, kind: 'X', plural, namespaced: true }, { namespace, name, subresource });
      } catch (error) {
        expect(error).toBeInstanceOf(TypeError);
        return;
      }
      paths += 1;
      expect(new URL(path, 'http://x').pathname).toBe(path);
      const parts = path.split('/').slice(apiVersion.includes('/') ? 4 : 3);
      expect(parts.map(decodeURIComponent)).toEqual(['namespaces', namespace, plural, name, subresource]);
    });
    fc.assert(property, { numRuns: 20_000 });
    expect(paths).toBeGreaterThan(5);
  });

  it('has its API version and its group at a path that leads nowhere else', () => {
    expect(apiVersionPath('v1')).toBe('/api/v1');
    expect(apiVersionPath('apps/v1')).toBe('/apis/apps/v1');
    expect(groupPath('apps')).toBe('/apis/apps');
    for (const text of HOSTILE) {
      expect(() => apiVersionPath(text)).toThrow(TypeError);
      expect(() => apiVersionPath(`apps/${text}`)).toThrow(TypeError);
      expect(() => groupPath(text)).toThrow(TypeError);
    }
  });

  it('has a group, which is empty for the core, and a version', () => {
    expect(groupOf(pods)).toBe('');
    expect(groupOf(sets)).toBe('apps');
    expect(versionOf(pods)).toBe('v1');
    expect(versionOf(sets)).toBe('v1');
    expect(formatKind(pods)).toBe('v1/Pod');
    expect(formatKind(sets)).toBe('apps/v1/ReplicaSet');
  });
});
