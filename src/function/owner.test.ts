import { describe, expect, it } from 'vitest';
import { type ObjectMeta, resource } from '../core/index.ts';
import { controllerReference, OwnerError, setControllerReference } from './owner.ts';

const Site = resource('example.com/v1', 'Site');
const owner = {
  apiVersion: 'example.com/v1',
  kind: 'Site',
  metadata: { namespace: 'a', name: 'blog', uid: 'u', resourceVersion: '1' },
};
const clusterOwner = { ...owner, metadata: { ...owner.metadata, namespace: '' } };
const ours = controllerReference(Site, owner);
const child = (metadata: Partial<ObjectMeta> = {}) => ({ metadata: { namespace: 'a', name: 'child', ...metadata } });

describe('setControllerReference', () => {
  it('makes the owner the controller, beside other owners', () => {
    const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'c', uid: 'c' };
    const object = child({ ownerReferences: [other] });
    expect(setControllerReference(Site, owner, object)).toBe(object);
    expect(object.metadata.ownerReferences).toEqual([other, ours]);
    expect(setControllerReference(Site, owner, object).metadata.ownerReferences).toEqual([other, ours]);
  });

  it('replaces a reference to the same name at another version, or of another UID', () => {
    const old = { ...ours, apiVersion: 'example.com/v1beta1', uid: 'before' };
    expect(setControllerReference(Site, owner, child({ ownerReferences: [old] })).metadata.ownerReferences).toEqual([
      ours,
    ]);
  });

  it.each([
    [
      'another controller',
      owner,
      child({ ownerReferences: [{ ...ours, name: 'other', uid: 'o' }] }),
      'Site other controls it',
    ],
    ['an owner of another namespace', owner, child({ namespace: 'b' }), 'different namespaces'],
    ['a namespaced owner of a cluster-scoped object', owner, { metadata: { name: 'n' } }, 'cluster-scoped'],
  ])('refuses %s, and changes nothing', (_, of, object, message) => {
    const before = structuredClone(object);
    expect(() => setControllerReference(Site, of, object)).toThrow(OwnerError);
    expect(() => setControllerReference(Site, of, object)).toThrow(message);
    expect(object).toEqual(before);
  });

  it('allows a cluster-scoped owner of both kinds', () => {
    for (const object of [child(), { metadata: { name: 'n' } }]) {
      expect(setControllerReference(Site, clusterOwner, object).metadata).toHaveProperty('ownerReferences', [ours]);
    }
  });
});
