import { groupOf, type Resource, versionOf } from '../../core/index.ts';

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];

/** Aggregated discovery of kinds, as the apiserver answers at `/api` (the core group) and `/apis` (all others). */
export function memoryDiscovery(path: string, resources: Iterable<Resource>): object {
  const groups = new Map<string, Map<string, object[]>>();
  for (const { apiVersion, kind, plural, namespaced } of resources) {
    const [group, version] = [groupOf({ apiVersion }), versionOf({ apiVersion })];
    if ((group === '') !== (path === 'api')) continue;
    const versions = groups.get(group) ?? new Map<string, object[]>();
    groups.set(group, versions.set(version, versions.get(version) ?? []));
    versions.get(version)?.push({
      resource: plural,
      responseKind: { group, version, kind },
      scope: namespaced ? 'Namespaced' : 'Cluster',
      verbs: VERBS,
    });
  }
  const items = [...groups].map(([name, versions]) => ({
    metadata: name ? { name } : {},
    versions: [...versions].map(([version, of]) => ({ version, freshness: 'Current', resources: of })),
  }));
  return { kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2', metadata: {}, items };
}
