import { groupOf } from '../../../core/index.ts';
import type { Catalog, ServedKind } from './catalog.ts';

/** The discovery document at a path, of the kinds that the reader may read; undefined when there is none. */
export async function discoveryDocument(
  parts: readonly string[],
  kinds: readonly ServedKind[],
  catalog: Catalog,
): Promise<object | undefined> {
  const [prefix, first, second] = parts;
  if (prefix === 'api' && first === undefined) {
    return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] };
  }
  if (prefix === 'api') return resourceList(first ?? '', kinds, catalog);
  if (prefix !== 'apis') return undefined;
  const groups = groupsOf(kinds);
  if (first === undefined) return { kind: 'APIGroupList', apiVersion: 'v1', groups };
  if (second !== undefined) return resourceList(`${first}/${second}`, kinds, catalog);
  const group = groups.find(({ name }) => name === first);
  return group && { kind: 'APIGroup', apiVersion: 'v1', ...group };
}

/** The media type of `aggregatedDocument`: clients recognize the document by it (client-go, discovery_client.go). */
export const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** Everything below `/api`, or below `/apis`, in one document: kubectl asks for it first. */
export async function aggregatedDocument(
  prefix: 'api' | 'apis',
  kinds: readonly ServedKind[],
  catalog: Catalog,
): Promise<object> {
  const below = kinds.filter(({ resource }) => (groupOf(resource) === '') === (prefix === 'api'));
  const groups = Map.groupBy(below, ({ resource }) => groupOf(resource));
  // The core group is always there, see `resourceList`.
  if (prefix === 'api' && groups.size === 0) groups.set('', []);
  const items = await Promise.all(
    [...groups].map(async ([group, each]) => {
      const versions = Map.groupBy(each, ({ resource }) => resource.apiVersion.slice(group ? group.length + 1 : 0));
      if (group === '' && versions.size === 0) versions.set('v1', []);
      const described = [...versions].map(async ([version, served]) => ({
        version,
        resources: await Promise.all(served.map((kind) => aggregatedEntry({ group, version }, kind, catalog))),
        freshness: 'Current',
      }));
      return { metadata: group === '' ? {} : { name: group }, versions: await Promise.all(described) };
    }),
  );
  return { kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2', metadata: {}, items };
}

async function aggregatedEntry(of: { group: string; version: string }, served: ServedKind, catalog: Catalog) {
  const { name, singularName, namespaced, kind, verbs, shortNames, categories } = await catalog.entry(served);
  return {
    resource: name,
    responseKind: { ...of, kind },
    scope: namespaced ? 'Namespaced' : 'Cluster',
    singularResource: singularName,
    verbs,
    ...(shortNames ? { shortNames } : {}),
    ...(categories ? { categories } : {}),
  };
}

function groupsOf(kinds: readonly ServedKind[]) {
  const named = kinds.filter(({ resource }) => groupOf(resource) !== '');
  return [...Map.groupBy(named, ({ resource }) => groupOf(resource))].map(([name, each]) => {
    const versions = [...new Set(each.map(({ resource }) => resource.apiVersion))].map((groupVersion) => ({
      groupVersion,
      version: groupVersion.slice(name.length + 1),
    }));
    return { name, versions, preferredVersion: versions[0] };
  });
}

async function resourceList(groupVersion: string, kinds: readonly ServedKind[], catalog: Catalog) {
  const served = kinds.filter(({ resource }) => resource.apiVersion === groupVersion);
  // The core group is always there, as the apiserver's: a client that finds no /api/v1 takes the server for broken.
  if (served.length === 0 && groupVersion !== 'v1') return undefined;
  const resources = await Promise.all(served.map((kind) => catalog.entry(kind)));
  // That of the core group has no apiVersion in the apiserver's answer either.
  const type = groupVersion === 'v1' ? {} : { apiVersion: 'v1' };
  return { kind: 'APIResourceList', ...type, groupVersion, resources };
}
