import {
  formatKind,
  groupOf,
  type LabelSelector,
  ownValue,
  type Resource,
  UserError,
  versionOf,
} from '../core/index.ts';
import type {
  AdmissionDescription,
  ConversionDescription,
  Description,
  WebhookDescription,
} from '../contract/index.ts';
import { INJECT_LABEL, INJECT_VALUE } from '../gateway/certificates/inject-label.ts';
import { excludingConditions, FUNCTION_LABEL } from './exclusions.ts';

export type Manifest = Readonly<Record<string, unknown>>;

/** How the apiserver reaches the webhooks of a function. */
export interface WebhookRoute {
  /** The address of the gateway, or with `direct` of the function itself. */
  readonly at:
    | { readonly service: { readonly namespace: string; readonly name: string; readonly port: number } }
    /** `https://`, without a slash at its end. */
    | { readonly url: string };
  /** The apiserver calls the function directly, not through the gateway. */
  readonly direct: boolean;
  /** Namespaces whose objects are not reviewed. */
  readonly excluded: readonly string[];
  /** The source of the CA bundle: the gateway, cert-manager's Certificate `namespace/name`, or this PEM text. */
  readonly authority: 'gateway' | { readonly certificate: string } | { readonly pem: string };
}

/** The fields of a definition that `kubectl apply --server-side` needs to change its conversion. */
export type ConversionManifest = Manifest & {
  readonly metadata: { readonly name: string; readonly [field: string]: unknown };
  readonly spec: { readonly conversion: object };
};

/** The apiserver's limit for each webhook. */
const MAX_CONDITIONS = 64;

/**
 * A configuration of validating webhooks and one of mutating webhooks, if the function has such. They are
 * cluster-scoped, and named after namespace and function. `../exclusions` exempts some writes from all of them.
 * @throws UserError for a webhook that would never be called, or that the apiserver would refuse.
 */
export function webhookConfigurations(
  { name, webhooks = [] }: Pick<Description, 'name' | 'webhooks'>,
  resources: readonly Resource[],
  { namespace, route }: { readonly namespace: string; readonly route: WebhookRoute },
): Manifest[] {
  const own = `${name}.${namespace}.levelhook.dev`;
  return (['Validating', 'Mutating'] as const).flatMap((type): Manifest[] => {
    const entries = webhooks
      .filter((each) => each.type !== 'conversion')
      .filter((each) => each.type === type.toLowerCase())
      .map((each) => ({
        name: `${refuseUnreviewed(each).name}.${own}`,
        clientConfig: clientConfig(each, { namespace, name }, route),
        ...callOf(each, resourceOf(each, resources)),
        namespaceSelector: namespaceSelector(each, route.excluded),
        ...(each.objectSelector ? { objectSelector: each.objectSelector } : {}),
        matchConditions: conditionsOf(each, { namespace, name }),
        admissionReviewVersions: ['v1'],
      }));
    if (entries.length === 0) return [];
    const metadata = { name: own, ...labelled(name, route) };
    const kind = `${type}WebhookConfiguration`;
    return [{ apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata, webhooks: entries }];
  });
}

/** The conversion section of each definition whose objects the function converts. */
export function conversions(
  { name, webhooks = [] }: Pick<Description, 'name' | 'webhooks'>,
  resources: readonly Resource[],
  { namespace, route }: { readonly namespace: string; readonly route: WebhookRoute },
): ConversionManifest[] {
  return webhooks
    .filter((each): each is ConversionDescription => each.type === 'conversion')
    .map((each) => ({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${resourceOf(each, resources).plural}.${groupOf(each)}`, ...labelled(name, route) },
      spec: {
        conversion: {
          strategy: 'Webhook',
          webhook: {
            clientConfig: clientConfig(each, { namespace, name }, route),
            conversionReviewVersions: ['v1'],
          },
        },
      },
    }));
}

/** The kind as the cluster defines it. */
export function resourceOf(kind: WebhookDescription, resources: readonly Resource[]): Resource {
  const found = resources.find((each) => formatKind(each) === formatKind(kind));
  if (!found) throw new Error(`${formatKind(kind)} was not looked up`);
  return found;
}

/**
 * When the apiserver calls it, and the effect of a missing answer. All fields are set, so that no default is in doubt.
 */
function callOf(webhook: AdmissionDescription, { plural, namespaced }: Resource) {
  const { failurePolicy = 'Fail', matchPolicy = 'Equivalent', operations, sideEffects = 'None' } = webhook;
  const { reinvocationPolicy = 'Never', subresources, timeoutSeconds = 10, type } = webhook;
  return {
    rules: [
      {
        apiGroups: [groupOf(webhook)],
        apiVersions: [versionOf(webhook)],
        resources: subresources ? subresources.map((each) => `${plural}/${each}`) : [plural],
        operations,
        scope: namespaced ? 'Namespaced' : 'Cluster',
      },
    ],
    matchPolicy,
    failurePolicy,
    sideEffects,
    timeoutSeconds,
    ...(type === 'mutating' ? { reinvocationPolicy } : {}),
  };
}

function namespaceSelector(
  { namespaces, namespaceSelector: own = {} }: AdmissionDescription,
  excluded: readonly string[],
): LabelSelector {
  const key = 'kubernetes.io/metadata.name';
  return {
    ...own,
    matchExpressions: [
      ...(own.matchExpressions ?? []),
      ...(namespaces ? [{ key, operator: 'In' as const, values: [...namespaces] }] : []),
      { key, operator: 'NotIn', values: [...excluded] },
    ],
  };
}

/** @returns the webhook. @throws UserError when its kind is never reviewed. */
function refuseUnreviewed(webhook: AdmissionDescription): AdmissionDescription {
  const isLease = groupOf(webhook) === 'coordination.k8s.io' && webhook.kind === 'Lease';
  if (groupOf(webhook) === 'levelhook.dev' || isLease) {
    throw new UserError(
      `The webhook ${webhook.name} is for ${formatKind(webhook)}, which no webhook of levelhook reviews: a dead one ` +
        'could not be mended.',
    );
  }
  return webhook;
}

function conditionsOf(
  webhook: AdmissionDescription,
  { namespace, name }: { readonly namespace: string; readonly name: string },
) {
  const { matchConditions = [] } = webhook;
  const excluding = excludingConditions(namespace, name);
  if (matchConditions.length + excluding.length > MAX_CONDITIONS) {
    const most = MAX_CONDITIONS - excluding.length;
    throw new UserError(
      `The webhook ${webhook.name} has more than ${most} match conditions, beside those of levelhook.`,
    );
  }
  return [...excluding, ...matchConditions];
}

function clientConfig(
  webhook: WebhookDescription,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  { at, authority, direct }: WebhookRoute,
): object {
  const path = direct ? `/webhooks/${webhook.name}` : `/webhooks/${namespace}.${name}/${webhook.name}`;
  const pem = typeof authority === 'object' ? ownValue(authority as Record<string, string>, 'pem') : undefined;
  const caBundle = pem === undefined ? {} : { caBundle: Buffer.from(pem).toString('base64') };
  return 'url' in at ? { url: at.url + path, ...caBundle } : { service: { ...at.service, path }, ...caBundle };
}

function labelled(name: string, { authority }: WebhookRoute) {
  const labels = { [FUNCTION_LABEL]: name };
  if (authority === 'gateway') return { labels: { ...labels, [INJECT_LABEL]: INJECT_VALUE } };
  if ('pem' in authority) return { labels };
  return { labels, annotations: { 'cert-manager.io/inject-ca-from': authority.certificate } };
}
