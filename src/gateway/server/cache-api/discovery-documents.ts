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
