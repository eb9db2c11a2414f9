import {
  ApiError,
  formatKind,
  groupOf,
  type GroupVersionKind,
  orUndefined,
  type Resource,
  UserError,
} from '../../core/index.ts';
import type { ApiClient } from './api-client.ts';

interface ApiResourceList {
  resources: { name: string; kind: string; namespaced: boolean; verbs: string[] }[];
}

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
  const path = gvk.apiVersion.includes('/') ? `/apis/${gvk.apiVersion}` : `/api/${gvk.apiVersion}`;
  let list: ApiResourceList;
  try {
    list = await client.json<ApiResourceList>({ path });
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 404) throw error;
    throw new DiscoveryError(
      'ApiVersionNotServed',
      `The cluster does not serve the API version ${gvk.apiVersion} of ${formatKind(gvk)}.`,
    );
  }
  // A subresource is listed as `pods/status`, with a kind of its own.
  const found = list.resources.find((entry) => entry.kind === gvk.kind && !entry.name.includes('/'));
  if (!found) throw new DiscoveryError('KindNotServed', `The cluster serves no kind ${gvk.kind} in ${gvk.apiVersion}.`);
  if (!found.verbs.includes('list') || !found.verbs.includes('watch')) {
    throw new DiscoveryError(
      'KindNotWatchable',
      `${formatKind(gvk)} cannot be watched: the cluster offers ${found.verbs.join(', ')} only.`,
    );
  }
  return { apiVersion: gvk.apiVersion, kind: gvk.kind, plural: found.name, namespaced: found.namespaced };
}

/** The API versions, of a kind's own group, in which the cluster serves that kind: `['example.com/v1']`. */
export async function versionsOf(client: ApiClient, gvk: GroupVersionKind, signal: AbortSignal): Promise<string[]> {
  const group = groupOf(gvk);
  // The core group has one version, which does not go.
  if (group === '') return [gvk.apiVersion];
  const found = await orUndefined(
    client.json<{ versions: { groupVersion: string }[] }>({ path: `/apis/${group}`, signal }),
  );
  const served: string[] = [];
  for (const { groupVersion } of found?.versions ?? []) {
    const list = await orUndefined(client.json<ApiResourceList>({ path: `/apis/${groupVersion}`, signal }));
    if (list?.resources.some(({ kind, name }) => kind === gvk.kind && !name.includes('/'))) served.push(groupVersion);
  }
  return served;
}

/** The cluster's identity: the UID of kube-system, which lives as long as the cluster does. */
export async function clusterIdentity(client: ApiClient): Promise<string> {
  const namespace = await client.json<{ metadata: { uid: string } }>({ path: '/api/v1/namespaces/kube-system' });
  return namespace.metadata.uid;
}
