import { describe, expect, it } from 'vitest';
import { ApiWriter } from './api-writer.ts';
import { type DiscoveredGroup, discoverResources, discoveryOf } from './discovery.ts';

type Version = NonNullable<DiscoveredGroup['versions']>[number];
type Served = NonNullable<Version['resources']>[number];

const served = (resource: string, kind: string | null, more: Partial<Served> = {}): Served => ({
  resource,
  responseKind: kind === null ? null : { kind },
  scope: 'Namespaced',
  verbs: ['list'],
  ...more,
});

describe('discoveryOf', () => {
  it('has each resource of a group once, in the first version that serves it', () => {
    const { resources } = discoveryOf([
      {
        metadata: { name: 'apps.example.com' },
        versions: [
          { version: 'v1', freshness: 'Current', resources: [served('sites', 'Site')] },
          { version: 'v1beta1', resources: [served('sites', 'Site'), served('olds', 'Old', { scope: 'Cluster' })] },
        ],
      },
      { metadata: {}, versions: [{ version: 'v1', resources: [served('sites', 'Site', { verbs: ['get'] })] }] },
    ]);
    expect(resources).toEqual([
      { apiVersion: 'apps.example.com/v1', kind: 'Site', plural: 'sites', namespaced: true, verbs: ['list'] },
      { apiVersion: 'apps.example.com/v1beta1', kind: 'Old', plural: 'olds', namespaced: false, verbs: ['list'] },
      { apiVersion: 'v1', kind: 'Site', plural: 'sites', namespaced: true, verbs: ['get'] },
    ]);
  });

  it('names the versions whose server does not answer, and takes the next one of their group', () => {
    const { resources, stale } = discoveryOf([
      {
        metadata: { name: 'example.com' },
        versions: [
          { version: 'v2', freshness: 'Stale', resources: [served('sites', 'Site')] },
          { version: 'v1', resources: [served('sites', 'Site')] },
        ],
      },
    ]);
    expect(stale).toEqual(['example.com/v2']);
    expect(resources.map(({ apiVersion }) => apiVersion)).toEqual(['example.com/v1']);
  });

  it('leaves out what is no kind, and names what no path can contain', () => {
    const of = (group: string, version: string, resource: Served): DiscoveredGroup => ({
      metadata: { name: group },
      versions: [{ version, resources: [resource] }],
    });
    const found = discoveryOf([
      of('example.com', 'v1', served('proxies', null)),
      of('example.com', 'v1', served('../secrets', 'Secret')),
      of('example.com', 'v1/..', served('sites', 'Site')),
      of('example.com/v1', 'v1', served('sites', 'Site')),
      { metadata: { name: 'empty.example.com' } },
    ]);
    expect(found.resources).toEqual([]);
    expect(found.invalid.map(({ name }) => name)).toEqual([
      'example.com/v1/../secrets',
      'example.com/v1/../sites',
      'example.com/v1/v1/sites',
    ]);
  });
});

describe('discoverResources', () => {
  const answering = (bodies: Record<string, object>): { api: ApiWriter; asked: string[] } => {
    const asked: string[] = [];
    const api = new ApiWriter(
      async ({ method, path, accept }) => {
        asked.push(`${method} ${path} ${accept?.split(',', 1)[0]}`);
        return { status: 200, body: JSON.stringify(bodies[path] ?? {}) };
      },
      { signal: new AbortController().signal, deadlineMs: Date.now() + 10_000 },
    );
    return { api, asked };
  };

  it('asks for both lists in one form', async () => {
    const list = (name: string, resource: Served) => ({
      kind: 'APIGroupDiscoveryList',
      items: [{ metadata: { name }, versions: [{ version: 'v1', resources: [resource] }] }],
    });
    const { api, asked } = answering({
      '/api': list('', served('pods', 'Pod')),
      '/apis': list('apps', served('deployments', 'Deployment')),
    });
    const { resources } = await discoverResources(api);
    expect(resources.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`)).toEqual(['v1 Pod', 'apps/v1 Deployment']);
    const type = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
    expect(asked.toSorted()).toEqual([`GET /api ${type}`, `GET /apis ${type}`]);
    expect(api.writes).toEqual([]);
  });

  it('fails on an apiserver that lists groups alone', async () => {
    const { api } = answering({ '/api': { kind: 'APIVersions' }, '/apis': { kind: 'APIGroupList', groups: [] } });
    await expect(discoverResources(api)).rejects.toThrow('aggregated discovery');
  });
});
