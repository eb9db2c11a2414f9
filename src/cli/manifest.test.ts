import { describe, expect, it } from 'vitest';
import { resource } from '../core/index.ts';
import type { Description } from '../contract/index.ts';
import { manifestsOf } from './manifest.ts';

const pods = resource('v1', 'Pod');
const configMaps = resource('v1', 'ConfigMap');
const deployments = resource('apps/v1', 'Deployment');
const nodes = resource('v1', 'Node', { namespaced: false });
const kind = ({ apiVersion, kind: name }: typeof pods) => ({ apiVersion, kind: name });
const least: Description = {
  version: 'v1',
  name: 'web',
  for: { ...kind(configMaps), namespaces: ['a'] },
  owns: [],
  watches: [],
  reads: [],
  indexes: [],
  concurrency: 2,
  timeoutSeconds: 15,
};

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly object[];
  readonly roleRef?: object;
  readonly subjects?: readonly object[];
  readonly spec?: object;
}

const made = (more: Partial<Description> = {}, namespace = 'shop') =>
  manifestsOf({ ...least, ...more }, [pods, configMaps, deployments, nodes], {
    namespace,
    serviceAccount: 'reader',
    secret: 'signing',
    endpoint: { service: { name: 'web', port: 80 } },
  }) as unknown as Manifest[];
const VERBS = ['get', 'list', 'watch'];

describe('the manifests of a function', () => {
  it('are its account, its rights and its declaration, without what says nothing', () => {
    expect(made()).toMatchObject([
      { kind: 'ServiceAccount', metadata: { name: 'reader', namespace: 'shop' } },
      { kind: 'Role', metadata: { namespace: 'a' } },
      { kind: 'RoleBinding', metadata: { namespace: 'a' } },
      { kind: 'ReconcileFunction', metadata: { name: 'web', namespace: 'shop' } },
    ]);
    expect(made().at(-1)?.spec).toEqual({
      endpoint: { service: { name: 'web', port: 80 } },
      serviceAccountName: 'reader',
      signingSecret: { name: 'signing' },
      for: least.for,
      concurrency: 2,
      timeoutSeconds: 15,
    });
  });

  it('say who gives the function its credentials, unless it has its own', () => {
    const specOf = (credentials: 'own' | 'token' | 'proxy') =>
      manifestsOf(least, [pods, configMaps], {
        namespace: 'shop',
        serviceAccount: 'reader',
        secret: 'signing',
        endpoint: { url: 'https://functions.example.com' },
        credentials,
      }).at(-1)?.['spec'];
    expect(specOf('proxy')).toMatchObject({ credentials: 'proxy' });
    expect(specOf('token')).toMatchObject({ credentials: 'token' });
    expect(specOf('own')).not.toHaveProperty('credentials');
  });

  it('give each namespace what is read there, and the cluster what is read in all', () => {
    const all = made({
      owns: [{ ...kind(pods), namespaces: ['a', 'b'] }, kind(deployments)],
      reads: [kind(nodes), { ...kind(configMaps), namespaces: ['a'] }],
    });
    const rules = all.flatMap(({ kind: of, metadata, rules: own }) => (own ? [[of, metadata.namespace, own]] : []));
    expect(rules).toEqual([
      ['Role', 'a', [{ apiGroups: [''], resources: ['configmaps', 'pods'], verbs: VERBS }]],
      ['Role', 'b', [{ apiGroups: [''], resources: ['pods'], verbs: VERBS }]],
      [
        'ClusterRole',
        undefined,
        [
          { apiGroups: ['apps'], resources: ['deployments'], verbs: VERBS },
          { apiGroups: [''], resources: ['nodes'], verbs: VERBS },
        ],
      ],
    ]);
    for (const { roleRef, subjects, metadata, kind: of } of all.filter(({ roleRef }) => roleRef !== undefined)) {
      expect(subjects).toEqual([{ kind: 'ServiceAccount', name: 'reader', namespace: 'shop' }]);
      expect(roleRef).toMatchObject({ kind: of.replace('Binding', ''), name: metadata.name });
    }
  });

  it('let the ServiceAccount write what its mutating webhooks change and its conversions convert, and nothing else', () => {
    const on = { operations: ['CREATE'] as const };
    const all = made({
      webhooks: [
        { type: 'validating', name: 'a', ...kind(pods), ...on },
        { type: 'mutating', name: 'b', ...kind(configMaps), namespaces: ['a'], subresources: ['status'], ...on },
        { type: 'conversion', name: 'c', ...kind(deployments), versions: ['v1', 'v2'] },
      ],
    });
    const rules = all.flatMap(({ kind: of, metadata, rules: own }) => (own ? [[of, metadata.namespace, own]] : []));
    const write = [...VERBS, 'create', 'update'];
    expect(rules).toEqual([
      [
        'Role',
        'a',
        [
          { apiGroups: [''], resources: ['configmaps'], verbs: write },
          { apiGroups: [''], resources: ['configmaps/status'], verbs: ['create', 'update'] },
        ],
      ],
      [
        'ClusterRole',
        undefined,
        [
          { apiGroups: [''], resources: ['pods'], verbs: VERBS },
          { apiGroups: ['apps'], resources: ['deployments'], verbs: write },
        ],
      ],
    ]);
  });

  it('let the ServiceAccount write what the function declares, and the finalizers of the owner in its references', () => {
    const rulesOf = (more: Partial<Description>) =>
      made(more).flatMap(({ kind: of, metadata, rules }) =>
        rules && metadata.name.endsWith(':writes') ? [[of, metadata.namespace, rules]] : [],
      );
    const owns = [kind(pods)];
    expect(rulesOf({ owns })).toEqual([]);
    expect(rulesOf({ owns, writes: [{ ...kind(deployments), subresource: 'status', verbs: ['update'] }] })).toEqual([
      ['ClusterRole', undefined, [{ apiGroups: ['apps'], resources: ['deployments/status'], verbs: ['update'] }]],
    ]);
    expect(
      rulesOf({
        owns,
        writes: [
          { ...kind(pods), verbs: ['create', 'delete'] },
          { ...kind(configMaps), namespaces: ['b'], verbs: ['patch'] },
        ],
      }),
    ).toEqual([
      ['ClusterRole', undefined, [{ apiGroups: [''], resources: ['pods'], verbs: ['create', 'delete'] }]],
      ['Role', 'b', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['patch'] }]],
      ['Role', 'a', [{ apiGroups: [''], resources: ['configmaps/finalizers'], verbs: ['update'] }]],
    ]);
  });

  it('carry the label by which no webhook of the function reviews them', () => {
    for (const { metadata } of made({ reads: [kind(nodes)] })) {
      expect(metadata).toMatchObject({ labels: { 'levelhook.dev/function': 'web' } });
    }
  });

  it('of two functions have no name in common, in the cluster or in a namespace that both read', () => {
    const names = (name: string, namespace: string): string[] =>
      made({ name, reads: [kind(nodes)] }, namespace)
        .filter(({ kind: of }) => of.endsWith('Role'))
        .map(({ kind: of, metadata }) => `${of} ${metadata.namespace}/${metadata.name}`);
    const all = [...names('web', 'shop'), ...names('web', 'shop-two'), ...names('two-web', 'shop')];
    expect(new Set(all).size).toBe(all.length);
  });
});
