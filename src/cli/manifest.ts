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
 * The manifests that run a function in a cluster: a ServiceAccount with the right to read the declared kinds, the
 * ReconcileFunction, and the configurations of its admission webhooks. They grant rights to write only where a webhook
 * requires them (ADR 0061), because only the author of the function knows the others. The objects carry the label
 * `levelhook.dev/function`.
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
    ...rightsOf(description, resources, options),
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

/** A Role for each named namespace, and a ClusterRole for kinds that are read in all namespaces. */
function rightsOf(
  { name, for: reconciled, owns, watches, reads, webhooks = [] }: Description,
  resources: readonly Resource[],
  { namespace, serviceAccount }: ManifestOptions,
): Manifest[] {
  /** Verbs by group and plural, by namespace; '' means all. */
  const wanted = new Map<string, Map<string, { resource: Resource; verbs: readonly string[] }>>();
  const want = (
    source: GroupVersionKind,
    namespaces: readonly string[] = [''],
    verbs: readonly string[] = READ,
    subresource = '',
  ): void => {
    const of = resources.find((each) => formatKind(each) === formatKind(source));
    if (!of) throw new Error(`${formatKind(source)} was not looked up`);
    const resource = { ...of, plural: of.plural + subresource };
    const id = `${groupOf(resource)}/${resource.plural}`;
    for (const place of namespaces) {
      const found = wanted.get(place) ?? new Map<string, { resource: Resource; verbs: readonly string[] }>();
      const already = found.get(id)?.verbs ?? [];
      wanted.set(place, found.set(id, { resource, verbs: already.length > verbs.length ? already : verbs }));
    }
  };
  for (const source of [reconciled, ...owns, ...watches, ...reads]) want(source, source.namespaces);
  for (const webhook of webhooks) {
    if (webhook.type === 'validating') want(webhook, webhook.namespaces);
    else want(webhook, webhook.type === 'mutating' ? webhook.namespaces : undefined, READ_AND_WRITE);
    if (webhook.type !== 'mutating') continue;
    for (const each of webhook.subresources ?? []) want(webhook, webhook.namespaces, WRITE, `/${each}`);
  }
  const subjects = [{ kind: 'ServiceAccount', name: serviceAccount, namespace }];
  return [...wanted].flatMap(([place, found]): Manifest[] => {
    const rules = Object.values(
      Object.groupBy(found.values(), ({ resource, verbs }) => `${groupOf(resource)} ${verbs.join()}`),
    ).map((same = []) => ({
      apiGroups: [...new Set(same.map(({ resource }) => groupOf(resource)))],
      resources: same.map(({ resource }) => resource.plural),
      verbs: same[0]?.verbs,
    }));
    const kind = place === '' ? 'ClusterRole' : 'Role';
    // The namespace is part of the name, because a function of this name in another namespace may read here, too. A
    // colon separates the parts, because neither can have one.
    const metadata = {
      name: `${namespace}:${name}:reads`,
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
