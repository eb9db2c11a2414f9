import { expect, it } from 'vitest';
import { resource } from '../core/index.ts';
import { controller } from './controller.ts';
import { describe } from './describe.ts';

const sites = resource('example.com/v1', 'Site');
const configMaps = resource('v1', 'ConfigMap');
const pods = resource('v1', 'Pod');
const owns = [configMaps, { resource: pods, namespaces: ['a'] }] as const;
const writesOf = (more: object) =>
  describe(controller({ name: 'site', for: sites, owns, ...more }).reconcile(async () => {})).writes;
const usual = ['create', 'update', 'patch', 'delete'];

it('a controller that declares its writes has the usual ones of what it owns', () => {
  expect(writesOf({ writes: [] })).toEqual([
    { apiVersion: 'v1', kind: 'ConfigMap', verbs: usual },
    { apiVersion: 'v1', kind: 'Pod', namespaces: ['a'], verbs: usual },
  ]);
});

it('an entry takes the place of the usual writes of its kind, and one of a part of it does not', () => {
  const status = { resource: pods, subresource: 'status', verbs: ['patch'] };
  expect(writesOf({ writes: [{ resource: configMaps, verbs: ['create'] }, status] })).toEqual([
    { apiVersion: 'v1', kind: 'Pod', namespaces: ['a'], verbs: usual },
    { apiVersion: 'v1', kind: 'ConfigMap', verbs: ['create'] },
    { apiVersion: 'v1', kind: 'Pod', subresource: 'status', verbs: ['patch'] },
  ]);
});

it('a controller that does not declare its writes says nothing of them', () => {
  expect(writesOf({})).toBeUndefined();
});
