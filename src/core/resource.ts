import type { KubernetesObject } from './kubernetes-object.ts';
import { isApiVersion, isDns1035Label, isDnsSubdomain, isName, isNamespace, nameOr } from './names.ts';

/** Identifies a kind in a manifest. */
export interface GroupVersionKind {
  /** `v1`, `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
}

/**
 * A kind and its URL: enough to read and write its objects. `T` is the shape of the objects and exists for the compiler
 * alone.
 */
export interface Resource<T extends KubernetesObject = KubernetesObject> extends GroupVersionKind {
  /** The plural in URLs: `replicasets`. */
  readonly plural: string;
  readonly namespaced: boolean;
  /** Never present at run time; it makes `Resource<Pod>` and `Resource<Node>` different types. */
  readonly objectType?: T;
}

/**
 * Declares a resource. The plural defaults to the lower-case kind with an `s`, the scope to namespaced:
 * `resource<Pod>('v1', 'Pod')`, `resource<Ingress>('networking.k8s.io/v1', 'Ingress', { plural: 'ingresses' })`.
 */
export function resource<T extends KubernetesObject = KubernetesObject>(
  apiVersion: string,
  kind: string,
  options: { plural?: string; namespaced?: boolean } = {},
): Resource<T> {
  return {
    apiVersion,
    kind,
    plural: options.plural ?? `${kind.toLowerCase()}s`,
    namespaced: options.namespaced ?? true,
  };
}

/** `apps/v1/ReplicaSet`, `v1/Pod`: a kind at a version as one text, for map keys and logs. */
export function formatKind(gvk: GroupVersionKind): string {
  return `${gvk.apiVersion}/${gvk.kind}`;
}

/** `apps`, or '' for the core group. */
export function groupOf(gvk: { readonly apiVersion: string }): string {
  const slash = gvk.apiVersion.indexOf('/');
  return slash < 0 ? '' : gvk.apiVersion.slice(0, slash);
}

/** `v1` of `apps/v1`. */
export function versionOf({ apiVersion }: { readonly apiVersion: string }): string {
  return apiVersion.slice(apiVersion.indexOf('/') + 1);
}

/**
 * The URL path where the apiserver lists the resources of an API version: `/api/v1`, `/apis/apps/v1`.
 * @throws TypeError for an invalid API version
 */
export function apiVersionPath(apiVersion: string): string {
  nameOr('API version', isApiVersion, apiVersion);
  return `/api${apiVersion.includes('/') ? 's' : ''}/${apiVersion}`;
}

/** The URL path of an API group other than the core group: `/apis/apps`. @throws TypeError for an invalid group */
export function groupPath(group: string): string {
  return `/apis/${nameOr('API group', isDnsSubdomain, group)}`;
}

/**
 * The URL path of a resource, of a namespace of it, or of one object: `/apis/apps/v1/namespaces/x/replicasets/y`. No
 * part can change the structure of the path. With a name it is the path of an object; without a name and a namespace it
 * is that of all namespaces.
 * @throws TypeError for an invalid part: `..`, an empty or undefined name, or an undefined namespace of a namespaced
 *   object.
 */
export function resourcePath(
  { apiVersion, namespaced, plural }: Resource,
  at: { namespace?: string | undefined; name?: string; subresource?: string | undefined } = {},
): string {
  const { namespace, name, subresource } = at;
  const path = [apiVersionPath(apiVersion)];
  if (namespaced && (namespace !== undefined || 'name' in at)) {
    path.push('namespaces', nameOr('namespace', isNamespace, namespace));
  }
  path.push(nameOr('resource', isDns1035Label, plural));
  if ('name' in at || subresource !== undefined) path.push(encodeURIComponent(nameOr('name', isName, name)));
  if (subresource !== undefined) path.push(nameOr('subresource', isDns1035Label, subresource));
  return path.join('/');
}
