import {
  formatKind,
  type GroupVersionKind,
  isName,
  isNamespace,
  type ObjectKey,
  ownValue,
  type Resource,
  type ResourceVersion,
  compareResourceVersions,
} from '../core/index.ts';
import type { CacheLocation, ViewLocation } from '../contract/index.ts';
import type { KeptOut, ListResult } from './cache-reader.ts';

/** Whether an object with this key can exist. Without a namespace, a namespaced one would be looked for elsewhere. */
export function canExist({ namespaced }: Resource, { namespace, name }: ObjectKey): boolean {
  return isName(name) && (namespaced ? isNamespace(namespace) : namespace === undefined);
}

/** Whether a kind is encrypted in Redis, so that only the cache API can read it. */
export function isEncryptedKind(location: CacheLocation, resource: GroupVersionKind): boolean {
  return ownValue(location.encrypted, formatKind(resource)) !== undefined;
}

/** Whether a kind is cached for this controller, in Redis or through the cache API. */
export function isCached(location: CacheLocation, resource: GroupVersionKind): boolean {
  return ownValue(location.views, formatKind(resource)) !== undefined || isEncryptedKind(location, resource);
}

/**
 * The cached namespaces of a kind in the order of their names, or the given one if it is cached; undefined stands for
 * all namespaces.
 * @throws TypeError for a kind that the controller did not declare.
 */
export function namespacesOf(
  location: CacheLocation,
  resource: Resource,
  namespace: string | undefined,
): readonly (string | undefined)[] {
  const encrypted = ownValue(location.encrypted, formatKind(resource));
  if (encrypted === undefined) return viewsOf(location, resource, namespace).map((view) => view.namespace);
  if (encrypted === '*') return [undefined];
  return encrypted.filter((each) => namespace === undefined || each === namespace).toSorted();
}

/**
 * The views of a kind in the order of their namespaces, or the views that can hold objects of a namespace: none when
 * the namespace is not cached.
 * @throws TypeError for a kind that the controller did not declare, and for an encrypted kind.
 */
export function viewsOf(
  location: CacheLocation,
  resource: Resource,
  namespace: string | undefined,
): readonly ViewLocation[] {
  if (isEncryptedKind(location, resource)) {
    throw new TypeError(`${formatKind(resource)} is encrypted in Redis and cannot be read there: use the HTTP reader`);
  }
  const views = ownValue(location.views, formatKind(resource));
  if (views === undefined) {
    throw new TypeError(
      `${formatKind(resource)} is not cached for this controller: name it in for, owns, watches or reads`,
    );
  }
  return views
    .filter((view) => namespace === undefined || view.namespace === undefined || view.namespace === namespace)
    .toSorted((a, b) => ((a.namespace ?? '') < (b.namespace ?? '') ? -1 : 1));
}

/** Names a view within a run: its kind, and its only namespace. */
export const viewName = (resource: GroupVersionKind, namespace: string | undefined): string =>
  `${formatKind(resource)} ${namespace ?? ''}`;

/** Joins the lists of several views, in their order. */
export function joinedLists<T>(
  lists: readonly {
    readonly items: readonly T[];
    readonly version: ResourceVersion;
    readonly keptOut?: readonly KeptOut[];
  }[],
): ListResult<T> {
  const keptOut = lists.flatMap((list) => list.keptOut ?? []);
  return {
    items: lists.flatMap(({ items }) => items),
    version: oldestVersion(lists.map(({ version }) => version)),
    ...(keptOut.length > 0 ? { keptOut } : {}),
  };
}

/** The oldest version: objects of all views are at least as new. */
function oldestVersion(versions: readonly ResourceVersion[]): ResourceVersion {
  return versions.toSorted(compareResourceVersions)[0] ?? '0';
}
