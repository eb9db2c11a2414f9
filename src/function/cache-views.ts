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

/** Whether there can be an object of that key: a namespaced one without a namespace would be looked for elsewhere. */
export function canExist({ namespaced }: Resource, { namespace, name }: ObjectKey): boolean {
  return isName(name) && (namespaced ? isNamespace(namespace) : namespace === undefined);
}

/** Whether a kind is encrypted in Redis, and so is read through the cache API alone. */
export function isEncryptedKind(location: CacheLocation, resource: GroupVersionKind): boolean {
  return ownValue(location.encrypted, formatKind(resource)) !== undefined;
}

/** Whether a kind is cached for this controller, wherever it is read. */
export function isCached(location: CacheLocation, resource: GroupVersionKind): boolean {
  return ownValue(location.views, formatKind(resource)) !== undefined || isEncryptedKind(location, resource);
}

/**
 * The cached namespaces of a kind, or the one asked for if it is cached; undefined stands for all of them. In the order
 * of their names.
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
 * The views of a kind in the order of their namespaces, or the one that can hold a namespace's objects: none when the
 * namespace is not cached.
 * @throws TypeError for a kind that the controller did not declare, and for one that is encrypted.
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

/** By which a run knows a view: its kind, and its only namespace. */
export const viewName = (resource: GroupVersionKind, namespace: string | undefined): string =>
  `${formatKind(resource)} ${namespace ?? ''}`;

/** One list of those of several views, in their order. */
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

/** The version that objects of several views are all at least as new as: the oldest. */
function oldestVersion(versions: readonly ResourceVersion[]): ResourceVersion {
  return versions.toSorted(compareResourceVersions)[0] ?? '0';
}
