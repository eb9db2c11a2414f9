import { formatKind, groupOf, type Resource } from '../core/index.ts';
import type { Description } from '../contract/index.ts';
import type { CREDENTIALS } from '../gateway/registration/reconcile-function.ts';

export interface ManifestOptions {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** The Secret that holds what triggers are signed with, under the key `secrets`. */
  readonly secret: string;
  /** As the ReconcileFunction has it. */
  readonly endpoint:
    { readonly url: string } | { readonly service: { readonly name: string; readonly port: number | string } };
  /** Who gives the function its credentials for the apiserver. Default: own, itself. */
  readonly credentials?: (typeof CREDENTIALS)[number] | undefined;
}

type Manifest = Readonly<Record<string, unknown>>;

const RBAC = 'rbac.authorization.k8s.io';
const VERBS = ['get', 'list', 'watch'];

/**
 * The manifests that run a function in a cluster: a ServiceAccount with the right to read the declared kinds and
 * nothing else, and the ReconcileFunction. They grant no rights to write, because only the author of the function knows
 * those.
 * @param resources of all kinds that the description names, as the cluster has them.
 */
export function manifestsOf(
  description: Description,
  resources: readonly Resource[],
  options: ManifestOptions,
): Manifest[] {
  const { namespace, serviceAccount, secret, endpoint, credentials = 'own' } = options;
  const { version: _, name, ...declaration } = description;
  const metadata = { name: serviceAccount, namespace };
  const filled = Object.entries(declaration).filter(([, value]) => !(Array.isArray(value) && value.length === 0));
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    ...rightsOf(description, resources, options),
    {
      apiVersion: 'levelhook.dev/v1alpha1',
      kind: 'ReconcileFunction',
      metadata: { name, namespace },
      spec: {
        endpoint,
        serviceAccountName: serviceAccount,
        ...(credentials === 'own' ? {} : { credentials }),
        signingSecret: { name: secret },
        ...Object.fromEntries(filled),
      },
    },
  ];
}

/** A Role for each namespace that is named, and a ClusterRole for what is read in all. */
function rightsOf(
  { name, for: reconciled, owns, watches, reads }: Description,
  resources: readonly Resource[],
  { namespace, serviceAccount }: ManifestOptions,
): Manifest[] {
  /** By namespace, or '' for all: plurals by API group. */
  const wanted = new Map<string, Map<string, Set<string>>>();
  for (const source of [reconciled, ...owns, ...watches, ...reads]) {
    const resource = resources.find((each) => formatKind(each) === formatKind(source));
    if (!resource) throw new Error(`${formatKind(source)} was not looked up`);
    for (const place of source.namespaces ?? ['']) {
      const groups = wanted.get(place) ?? new Map<string, Set<string>>();
      const group = groupOf(resource);
      wanted.set(place, groups.set(group, (groups.get(group) ?? new Set()).add(resource.plural)));
    }
  }
  const subjects = [{ kind: 'ServiceAccount', name: serviceAccount, namespace }];
  return [...wanted].flatMap(([place, groups]): Manifest[] => {
    const rules = [...groups].map(([group, plurals]) => ({
      apiGroups: [group],
      resources: [...plurals],
      verbs: VERBS,
    }));
    const kind = place === '' ? 'ClusterRole' : 'Role';
    // Others of that name may be in other namespaces and read here. Neither part holds a colon, which such names may.
    const metadata = {
      name: `${namespace}:${name}:reads`,
      ...(place === '' ? {} : { namespace: place }),
    };
    const roleRef = { apiGroup: RBAC, kind, name: metadata.name };
    return [
      { apiVersion: `${RBAC}/v1`, kind, metadata, rules },
      { apiVersion: `${RBAC}/v1`, kind: `${kind}Binding`, metadata, roleRef, subjects },
    ];
  });
}
