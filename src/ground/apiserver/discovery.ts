import {
  apiVersionPath,
  formatKind,
  groupOf,
  groupPath,
  type GroupVersionKind,
  isApiVersion,
  isDns1035Label,
  orUndefined,
  resource,
  type Resource,
  resourcePath,
  UserError,
  versionOf,
} from '../../core/index.ts';
import type { ApiClient } from './api-client.ts';

interface ApiResource {
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
  readonly verbs: readonly string[];
  /** Absent: the list's own. */
  readonly group?: string;
  readonly version?: string;
}

interface ApiResourceList {
  readonly groupVersion: string;
  readonly resources: readonly ApiResource[];
}

const NAMESPACE = resource('v1', 'Namespace', { namespaced: false });

/** The cluster does not serve a kind as it is needed. */
export class DiscoveryError extends UserError {
  readonly reason: 'ApiVersionNotServed' | 'KindNotServed' | 'KindNotWatchable';

  constructor(reason: DiscoveryError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/**
 * Asks the apiserver how a kind is written in URLs and whether it is namespaced.
 * @throws DiscoveryError when the cluster does not serve that kind, or not with list and watch.
 */
export async function discoverResource(client: ApiClient, gvk: GroupVersionKind): Promise<Resource> {
  const { apiVersion, kind } = gvk;
  const list = isApiVersion(apiVersion) ? await resourcesOf(client, apiVersion) : undefined;
  if (!list) {
    throw new DiscoveryError(
      'ApiVersionNotServed',
      `The cluster does not serve the API version ${apiVersion} of ${formatKind(gvk)}.`,
    );
  }
  const found = list.find((entry) => entry.kind === kind);
  if (!found) throw new DiscoveryError('KindNotServed', `The cluster serves no kind ${kind} in ${apiVersion}.`);
  if (!found.verbs.includes('list') || !found.verbs.includes('watch')) {
    throw new DiscoveryError(
      'KindNotWatchable',
      `${formatKind(gvk)} cannot be watched: the cluster offers ${found.verbs.join(', ')} only.`,
    );
  }
  return { apiVersion, kind, plural: found.name, namespaced: found.namespaced };
}

/**
 * The resources that the cluster serves in an API version; undefined when it does not serve the version. An answer
 * about another version counts as none, because the gateway asks for rights on these resources and then reads them.
 */
async function resourcesOf(
  client: ApiClient,
  apiVersion: string,
  signal?: AbortSignal,
): Promise<ApiResource[] | undefined> {
  const list = await orUndefined(client.json<ApiResourceList>({ path: apiVersionPath(apiVersion), signal }));
  if (list?.groupVersion !== apiVersion) return undefined;
  // A subresource is listed as `pods/status`, with a kind of its own, and may be another group's.
  return (list.resources ?? []).filter(
    ({ name, group, version }) =>
      isDns1035Label(name) &&
      (group || groupOf({ apiVersion })) === groupOf({ apiVersion }) &&
      (version || versionOf({ apiVersion })) === versionOf({ apiVersion }),
  );
}

/**
 * The API versions, of a resource's own group, in which the cluster serves the resource: `['example.com/v1']`. Under
 * another plural or in another scope its kind is another resource.
 */
export async function versionsOf(
  client: ApiClient,
  { apiVersion, kind, plural, namespaced }: Resource,
  signal: AbortSignal,
): Promise<string[]> {
  const group = groupOf({ apiVersion });
  // The core group has one version, which does not go.
  if (group === '') return [apiVersion];
  const found = await orUndefined(
    client.json<{ versions: { groupVersion: string }[] }>({ path: groupPath(group), signal }),
  );
  const served: string[] = [];
  for (const { groupVersion } of found?.versions ?? []) {
    const list = await resourcesOf(client, groupVersion, signal);
    const isServed = list?.some((each) => each.kind === kind && each.name === plural && each.namespaced === namespaced);
    if (isServed) served.push(groupVersion);
  }
  return served;
}

/** The cluster's identity: the UID of kube-system, which lives as long as the cluster does. */
export async function clusterIdentity(client: ApiClient, signal?: AbortSignal): Promise<string> {
  const path = resourcePath(NAMESPACE, { name: 'kube-system' });
  const namespace = await client.json<{ metadata: { uid: string } }>({ path, signal });
  return namespace.metadata.uid;
}
