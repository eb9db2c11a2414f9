import { formatKind, type Resource, type ResourceVersion, compareResourceVersions } from '../core/index.ts';
import type { CacheLocation, ViewLocation } from '../contract/index.ts';

/**
 * The views of a kind in the order of their namespaces, or the one that can hold a namespace's objects: none when the
 * namespace is not cached.
 * @throws TypeError for a kind that the controller did not declare.
 */
export function viewsOf(
  location: CacheLocation,
  resource: Resource,
  namespace: string | undefined,
): readonly ViewLocation[] {
  const views = location.views[formatKind(resource)];
  if (views === undefined) {
    throw new TypeError(
      `${formatKind(resource)} is not cached for this controller: name it in for, owns, watches or reads`,
    );
  }
  return views
    .filter((view) => namespace === undefined || view.namespace === undefined || view.namespace === namespace)
    .toSorted((a, b) => ((a.namespace ?? '') < (b.namespace ?? '') ? -1 : 1));
}

/** The version that objects of several views are all at least as new as: the oldest. */
export function oldestVersion(versions: readonly ResourceVersion[]): ResourceVersion {
  return versions.toSorted(compareResourceVersions)[0] ?? '0';
}
