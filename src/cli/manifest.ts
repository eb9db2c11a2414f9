import { formatKind, groupOf, type GroupVersionKind, type Resource } from '../core/index.ts';
import type { Description } from '../contract/index.ts';
import type { CREDENTIALS } from '../gateway/registration/reconcile-function.ts';
import { FUNCTION_LABEL } from './exclusions.ts';
import { type Manifest, webhookConfigurations, type WebhookRoute } from './webhook-manifests.ts';

export interface ManifestOptions {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** The Secret with the signing secrets of triggers, under the key `secrets`. */
  readonly secret: string;
  /** As in the ReconcileFunction. */
  readonly endpoint:
    { readonly url: string } | { readonly service: { readonly name: string; readonly port: number | string } };
  /** The source of the function's credentials for the apiserver. Default: own, the function itself. */
  readonly credentials?: (typeof CREDENTIALS)[number] | undefined;
  /** How the apiserver reaches its webhooks. Required if the function has any. */
  readonly route?: WebhookRoute | undefined;
}

const RBAC = 'rbac.authorization.k8s.io';
const READ = ['get', 'list', 'watch'];
const READ_AND_WRITE = [...READ, 'create', 'update'];
const WRITE = ['create', 'update'];

/**
 * The manifests that run a function in a cluster: a ServiceAccount with the rights to read the declared kinds and to
 * send the declared writes, the ReconcileFunction, and the configurations of its admission webhooks. A webhook
 * requires rights to write, too (ADR 0061). The objects carry the label `levelhook.dev/function`.
 * @param resources of all kinds that the description names, as the cluster has them.
 */
export function manifestsOf(
  description: Description,
  resources: readonly Resource[],
  options: ManifestOptions,
): Manifest[] {
  const { namespace, serviceAccount, secret, endpoint, credentials = 'own', route } = options;
  const { version: _, name, ...declaration } = description;
  const labels = { [FUNCTION_LABEL]: name };
  const metadata = { name: serviceAccount, namespace, labels };
  const filled = Object.entries(declaration).filter(([, value]) => !(Array.isArray(value) && value.length === 0));
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    ...rolesOf('reads', readRights(description), resources, { name, namespace, serviceAccount }),
    ...rolesOf('writes', writeRights(description), resources, { name, namespace, serviceAccount }),
    {
      apiVersion: 'levelhook.dev/v1alpha1',
      kind: 'ReconcileFunction',
      metadata: { name, namespace, labels },
      spec: {
        endpoint,
        serviceAccountName: serviceAccount,
        ...(credentials === 'own' ? {} : { credentials }),
        signingSecret: { name: secret },
        ...Object.fromEntries(filled),
      },
    },
    // Last, so that a webhook is called only once its function is there.
    ...(route ? webhookConfigurations(description, resources, { namespace, route }) : []),
  ];
}

/** A right to objects of a kind, or to a part of them. */
interface Right {
  readonly of: GroupVersionKind;
  /** Default: all. */
  readonly namespaces?: readonly string[] | undefined;
  readonly subresource?: string | undefined;
  readonly verbs: readonly string[];
}

/** The rights to read, and those to write that webhooks require (ADR 0061). */
function readRights({ for: reconciled, owns, watches, reads, webhooks = [] }: Description): Right[] {
  return [
    ...[reconciled, ...owns, ...watches, ...reads].map((source): Right => ({
      of: source,
      namespaces: source.namespaces,
      verbs: READ,
    })),
    ...webhooks.flatMap((webhook): Right[] => {
      const namespaces = webhook.type === 'conversion' ? undefined : webhook.namespaces;
      if (webhook.type === 'validating') return [{ of: webhook, namespaces, verbs: READ }];
      const parts = webhook.type === 'mutating' ? (webhook.subresources ?? []) : [];
      return [
        { of: webhook, namespaces, verbs: READ_AND_WRITE },
        ...parts.map((subresource): Right => ({ of: webhook, namespaces, subresource, verbs: WRITE })),
      ];
    }),
  ];
}

/**
 * What a function writes by itself. An owner reference that blocks the deletion of its owner takes the right to update
 * the owner's finalizers, where the admission plugin OwnerReferencesPermissionEnforcement is on (OpenShift).
 */
function writeRights({ for: reconciled, owns, writes = [] }: Description): Right[] {
  const refers = writes.some(({ apiVersion, kind, subresource, verbs }) => {
    const isOwned = owns.some((each) => formatKind(each) === formatKind({ apiVersion, kind }));
    return isOwned && subresource === undefined && verbs.some((verb) => !verb.startsWith('delete'));
  });
  const { namespaces } = reconciled;
  const finalizers: Right = { of: reconciled, namespaces, subresource: 'finalizers', verbs: ['update'] };
  return [
    ...writes.map(({ verbs, subresource, namespaces: places, ...of }) => ({
      of,
      namespaces: places,
      subresource,
      verbs,
    })),
    ...(refers ? [finalizers] : []),
  ];
}

/** A Role for each named namespace, and a ClusterRole for rights in all namespaces. */
function rolesOf(
  part: 'reads' | 'writes',
  rights: readonly Right[],
  resources: readonly Resource[],
  {
    name,
    namespace,
    serviceAccount,
  }: Pick<ManifestOptions, 'namespace' | 'serviceAccount'> & { readonly name: string },
): Manifest[] {
  /** Verbs by group and plural, by namespace; '' means all. */
  const wanted = new Map<string, Map<string, { group: string; plural: string; verbs: readonly string[] }>>();
  for (const { of, namespaces = [''], subresource, verbs } of rights) {
    const resource = resources.find((each) => formatKind(each) === formatKind(of));
    if (!resource) throw new Error(`${formatKind(of)} was not looked up`);
    const group = groupOf(resource);
    const plural = subresource === undefined ? resource.plural : `${resource.plural}/${subresource}`;
    const id = `${group}/${plural}`;
    for (const place of namespaces) {
      const found = wanted.get(place) ?? new Map<string, { group: string; plural: string; verbs: readonly string[] }>();
      const all = new Set([...(found.get(id)?.verbs ?? []), ...verbs]);
      wanted.set(place, found.set(id, { group, plural, verbs: [...all] }));
    }
  }
  const subjects = [{ kind: 'ServiceAccount', name: serviceAccount, namespace }];
  return [...wanted].flatMap(([place, found]): Manifest[] => {
    const same = Object.values(Object.groupBy(found.values(), ({ group, verbs }) => `${group} ${verbs.join()}`));
    const rules = same.map((each = []) => ({
      apiGroups: [each[0]?.group],
      resources: each.map(({ plural }) => plural),
      verbs: each[0]?.verbs,
    }));
    const kind = place === '' ? 'ClusterRole' : 'Role';
    // The namespace is part of the name, because a function of this name in another namespace may have rights here,
    // too. A colon separates the parts, because neither can have one.
    const metadata = {
      name: `${namespace}:${name}:${part}`,
      ...(place === '' ? {} : { namespace: place }),
      labels: { [FUNCTION_LABEL]: name },
    };
    const roleRef = { apiGroup: RBAC, kind, name: metadata.name };
    return [
      { apiVersion: `${RBAC}/v1`, kind, metadata, rules },
      { apiVersion: `${RBAC}/v1`, kind: `${kind}Binding`, metadata, roleRef, subjects },
    ];
  });
}
