import { isApiVersion, isDns1035Label, isKind, type Resource } from '../core/index.ts';
import type { ApiWriter } from './api-writer.ts';

/** A kind that the cluster serves. */
export interface DiscoveredResource extends Resource {
  /** The supported operations: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`. */
  readonly verbs: readonly string[];
}

/** The kinds that the cluster serves at one moment. */
export interface Discovery {
  /** One entry for each resource of a group, in the group's most preferred version that has it. */
  readonly resources: readonly DiscoveredResource[];
  /**
   * API versions whose resources are unknown, because their aggregated server does not answer:
   * `['metrics.k8s.io/v1beta1']`. They are not among `resources`.
   */
  readonly stale: readonly string[];
  /** Resources with a name that no path can contain, as `GROUP/VERSION/PLURAL`. They are not among `resources`. */
  readonly invalid: readonly {
    readonly name: string;
    readonly namespaced: boolean;
    readonly verbs: readonly string[];
  }[];
}

/**
 * Asks the apiserver which kinds the cluster serves now, built-in, custom and aggregated ones, as client-go's
 * `ServerPreferredResources`: for work on all kinds, or on kinds that are known only at run time. It takes two GETs and
 * is not cached. Every user may ask (`system:discovery`).
 *
 * ```ts
 * const { resources } = await discoverResources(context.api);
 * const deletable = resources.filter(({ namespaced, verbs }) => namespaced && verbs.includes('delete'));
 * ```
 *
 * @throws ApiError; Error for an apiserver without aggregated discovery, which Kubernetes has since 1.30
 */
export async function discoverResources(api: ApiWriter): Promise<Discovery> {
  const lists = await Promise.all(['/api', '/apis'].map((path) => api.getPath<Partial<GroupList>>(path, AGGREGATED)));
  return discoveryOf(
    lists.flatMap(({ kind, items }) => {
      if (kind === 'APIGroupDiscoveryList') return items ?? [];
      throw new Error('the apiserver does not offer aggregated discovery (apidiscovery.k8s.io/v2)');
    }),
  );
}

const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json';

interface GroupList {
  readonly kind: string;
  readonly items: readonly DiscoveredGroup[];
}

/** `apidiscovery.k8s.io/v2` APIGroupDiscovery: the fields that are used. */
export interface DiscoveredGroup {
  /** Absent for the core group. */
  readonly metadata?: { readonly name?: string };
  /** The preferred one first. */
  readonly versions?: readonly {
    readonly version: string;
    readonly freshness?: string;
    readonly resources?: readonly {
      readonly resource: string;
      /** Absent for a path that has only subresources. */
      readonly responseKind?: { readonly kind?: string } | null;
      readonly scope: string;
      readonly verbs?: readonly string[];
    }[];
  }[];
}

/** The resources of groups as the apiserver lists them. */
export function discoveryOf(groups: readonly DiscoveredGroup[]): Discovery {
  const resources: DiscoveredResource[] = [];
  const stale: string[] = [];
  const invalid: Discovery['invalid'][number][] = [];
  for (const { metadata, versions = [] } of groups) {
    const group = metadata?.name ?? '';
    const known = new Set<string>();
    for (const { version, freshness, resources: served = [] } of versions) {
      const apiVersion = group ? `${group}/${version}` : version;
      if (freshness === 'Stale') {
        stale.push(apiVersion);
        continue;
      }
      for (const { resource: plural, responseKind, scope, verbs = [] } of served) {
        const kind = responseKind?.kind;
        if (!kind || known.has(plural)) continue;
        known.add(plural);
        if (isApiVersion(apiVersion) && isDns1035Label(plural) && isKind(kind)) {
          resources.push({ apiVersion, kind, plural, namespaced: scope === 'Namespaced', verbs });
        } else invalid.push({ name: `${apiVersion}/${plural}`, namespaced: scope === 'Namespaced', verbs });
      }
    }
  }
  return { resources, stale, invalid };
}
