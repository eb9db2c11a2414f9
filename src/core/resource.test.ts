import { describe, expect, it } from 'vitest';
import { formatKind, groupOf, resource, resourcePath } from './resource.ts';

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
    [pods, { namespace: 'a/b', name: '../c?d#e' }, '/api/v1/namespaces/a%2Fb/pods/..%2Fc%3Fd%23e'],
  ])('%# has its path', (given, at, path) => {
    expect(resourcePath(given, at)).toBe(path);
  });

  it('has a group, which is empty for the core', () => {
    expect(groupOf(pods)).toBe('');
    expect(groupOf(sets)).toBe('apps');
    expect(formatKind(pods)).toBe('v1/Pod');
    expect(formatKind(sets)).toBe('apps/v1/ReplicaSet');
  });
});
