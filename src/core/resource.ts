import type { KubernetesObject } from './kubernetes-object.ts';

/** What names a kind in a manifest. */
export interface GroupVersionKind {
  /** `v1`, `apps/v1`. */
  readonly apiVersion: string;
  readonly kind: string;
}

/**
 * A kind and how its URL is written: all that reading and writing it needs. `T` is the shape of its objects and exists
 * for the compiler alone.
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

/** `apps/v1/ReplicaSet`, `v1/Pod`: one text for one kind at one version, used as a map key and in logs. */
export function formatKind(gvk: GroupVersionKind): string {
  return `${gvk.apiVersion}/${gvk.kind}`;
}

/** `apps`, or '' for the core group. */
export function groupOf(gvk: { readonly apiVersion: string }): string {
  const slash = gvk.apiVersion.indexOf('/');
  return slash < 0 ? '' : gvk.apiVersion.slice(0, slash);
}

/** The URL path of a resource, of a namespace of it, or of one object: `/apis/apps/v1/namespaces/x/replicasets/y`. */
export function resourcePath(
  resource: Resource,
  at: { namespace?: string | undefined; name?: string | undefined; subresource?: string | undefined } = {},
): string {
  const root = resource.apiVersion.includes('/') ? `/apis/${resource.apiVersion}` : `/api/${resource.apiVersion}`;
  const namespace = resource.namespaced && at.namespace ? `/namespaces/${encodeURIComponent(at.namespace)}` : '';
  const name = at.name ? `/${encodeURIComponent(at.name)}` : '';
  const subresource = at.subresource ? `/${at.subresource}` : '';
  return `${root}${namespace}/${resource.plural}${name}${subresource}`;
}
