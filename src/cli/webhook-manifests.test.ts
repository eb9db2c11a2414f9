import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { resource } from '../core/index.ts';
import type { WebhookDescription } from '../contract/index.ts';
import { conversions, webhookConfigurations, type WebhookRoute } from './webhook-manifests.ts';

const configMaps = resource('v1', 'ConfigMap');
const greetings = resource('example.com/v1', 'Greeting');
const nodes = resource('v1', 'Node', { namespaced: false });

const throughGateway: WebhookRoute = {
  at: { service: { namespace: 'levelhook', name: 'levelhook', port: 443 } },
  direct: false,
  excluded: ['kube-system', 'levelhook'],
  authority: 'gateway',
};

const names: WebhookDescription = {
  type: 'validating',
  name: 'names',
  apiVersion: 'v1',
  kind: 'ConfigMap',
  operations: ['CREATE', 'UPDATE'],
};

const made = (webhooks: readonly WebhookDescription[], route: Partial<WebhookRoute> = {}) =>
  webhookConfigurations({ name: 'greeting', webhooks }, [configMaps, greetings, nodes], {
    namespace: 'shop',
    route: { ...throughGateway, ...route },
  });

interface Entry {
  readonly name: string;
  readonly clientConfig: object;
  readonly rules: readonly object[];
  readonly namespaceSelector: object;
  readonly matchConditions: readonly { readonly name: string }[];
}

const entries = (webhooks: readonly WebhookDescription[], route: Partial<WebhookRoute> = {}): Entry[] =>
  made(webhooks, route).flatMap((each) => each['webhooks'] as Entry[]);

describe('the configurations of webhooks', () => {
  it('say everything that the apiserver has a default for, and what is never reviewed', () => {
    expect(stringify(made([names])[0], { lineWidth: 0 })).toBe(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: greeting.shop.levelhook.dev
  labels:
    levelhook.dev/function: greeting
    levelhook.dev/inject-ca: "true"
webhooks:
  - name: names.greeting.shop.levelhook.dev
    clientConfig:
      service:
        namespace: levelhook
        name: levelhook
        port: 443
        path: /webhooks/shop.greeting/names
    rules:
      - apiGroups:
          - ""
        apiVersions:
          - v1
        resources:
          - configmaps
        operations:
          - CREATE
          - UPDATE
        scope: Namespaced
    matchPolicy: Equivalent
    failurePolicy: Fail
    sideEffects: None
    timeoutSeconds: 10
    namespaceSelector:
      matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: NotIn
          values:
            - kube-system
            - levelhook
    matchConditions:
      - name: levelhook.dev/no-levelhook
        expression: request.resource.group != 'levelhook.dev' && !(request.resource.resource == 'customresourcedefinitions' && has(request.name) && request.name.endsWith('.levelhook.dev'))
      - name: levelhook.dev/no-leases
        expression: "!(request.resource.group == 'coordination.k8s.io' && request.resource.resource == 'leases')"
      - name: levelhook.dev/not-itself
        expression: "!(has(request.namespace) && request.namespace == 'shop' && ((has(request.subResource) && !(request.subResource in ['', 'status'])) || (request.operation == 'DELETE' ? [oldObject] : [object]).exists(o, o != null && has(o.metadata) && has(o.metadata.labels) && 'levelhook.dev/function' in o.metadata.labels && o.metadata.labels['levelhook.dev/function'] == 'greeting')))"
    admissionReviewVersions:
      - v1
`);
  });

  it('are one for each type, with an entry for each webhook', () => {
    const mutating: WebhookDescription = {
      ...names,
      type: 'mutating',
      name: 'defaults',
      reinvocationPolicy: 'IfNeeded',
    };
    const all = made([mutating, names, { ...names, name: 'lengths', failurePolicy: 'Ignore' }]);
    expect(all).toMatchObject([
      {
        kind: 'ValidatingWebhookConfiguration',
        webhooks: [
          { name: 'names.greeting.shop.levelhook.dev', failurePolicy: 'Fail' },
          { name: 'lengths.greeting.shop.levelhook.dev', failurePolicy: 'Ignore' },
        ],
      },
      {
        kind: 'MutatingWebhookConfiguration',
        webhooks: [{ name: 'defaults.greeting.shop.levelhook.dev', reinvocationPolicy: 'IfNeeded' }],
      },
    ]);
    expect(entries([names])[0]).not.toHaveProperty('reinvocationPolicy');
    expect(made([])).toEqual([]);
  });

  it('carry what the description says: subresources, scope, namespaces, selectors and conditions', () => {
    const selector = { matchLabels: { env: 'live' }, matchExpressions: [{ key: 'tier', operator: 'Exists' as const }] };
    const [status, cluster] = entries([
      {
        ...names,
        subresources: ['status', 'scale'],
        namespaces: ['a', 'b'],
        namespaceSelector: selector,
        objectSelector: { matchLabels: { a: 'b' } },
        matchConditions: [{ name: 'mine', expression: 'true' }],
        sideEffects: 'NoneOnDryRun',
        matchPolicy: 'Exact',
        timeoutSeconds: 3,
      },
      { ...names, name: 'nodes', kind: 'Node' },
    ]);
    expect(status).toMatchObject({
      rules: [{ resources: ['configmaps/status', 'configmaps/scale'], scope: 'Namespaced' }],
      namespaceSelector: {
        matchLabels: { env: 'live' },
        matchExpressions: [
          { key: 'tier', operator: 'Exists' },
          { key: 'kubernetes.io/metadata.name', operator: 'In', values: ['a', 'b'] },
          { key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['kube-system', 'levelhook'] },
        ],
      },
      objectSelector: { matchLabels: { a: 'b' } },
      sideEffects: 'NoneOnDryRun',
      matchPolicy: 'Exact',
      timeoutSeconds: 3,
    });
    expect(status?.matchConditions.map(({ name }) => name)).toEqual([
      'levelhook.dev/no-levelhook',
      'levelhook.dev/no-leases',
      'levelhook.dev/not-itself',
      'mine',
    ]);
    expect(cluster?.rules).toMatchObject([{ resources: ['nodes'], scope: 'Cluster' }]);
  });

  it('lead to the gateway at a URL, or to the function itself, with the CA from where it is said', () => {
    const at = { url: 'https://gateway.example.com/hooks' };
    expect(entries([names], { at })[0]?.clientConfig).toEqual({
      url: 'https://gateway.example.com/hooks/webhooks/shop.greeting/names',
    });
    const service = { namespace: 'shop', name: 'greeting', port: 8443 };
    const direct = { at: { service }, direct: true };
    const certified = made([names], { ...direct, authority: { certificate: 'shop/greeting' } })[0];
    expect(certified).toMatchObject({
      metadata: { annotations: { 'cert-manager.io/inject-ca-from': 'shop/greeting' } },
      webhooks: [{ clientConfig: { service: { ...service, path: '/webhooks/names' } } }],
    });
    expect(JSON.stringify(certified)).not.toContain('inject-ca"');
    expect(entries([names], { ...direct, authority: { pem: 'a certificate' } })[0]?.clientConfig).toEqual({
      service: { ...service, path: '/webhooks/names' },
      caBundle: Buffer.from('a certificate').toString('base64'),
    });
  });

  it('are refused where a webhook would never be called, or has too many conditions', () => {
    expect(() => made([{ ...names, apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' }])).toThrow(
      'The webhook names is for coordination.k8s.io/v1/Lease, which no webhook of levelhook reviews',
    );
    expect(() => made([{ ...names, apiVersion: 'levelhook.dev/v1alpha1', kind: 'ReconcileFunction' }])).toThrow(
      'which no webhook of levelhook reviews',
    );
    const conditions = (count: number) =>
      Array.from({ length: count }, (_, at) => ({ name: `c${at}`, expression: 'true' }));
    expect(entries([{ ...names, matchConditions: conditions(61) }])[0]?.matchConditions).toHaveLength(64);
    expect(() => made([{ ...names, matchConditions: conditions(62) }])).toThrow('more than 61 match conditions');
  });
});

it('a conversion is the section of a definition, and no configuration', () => {
  const conversion: WebhookDescription = {
    type: 'conversion',
    name: 'versions',
    apiVersion: 'example.com/v1',
    kind: 'Greeting',
    versions: ['v1', 'v2'],
  };
  expect(made([conversion])).toEqual([]);
  const description = { name: 'greeting', webhooks: [names, conversion] };
  expect(conversions(description, [greetings], { namespace: 'shop', route: throughGateway })).toEqual([
    {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: {
        name: 'greetings.example.com',
        labels: { 'levelhook.dev/function': 'greeting', 'levelhook.dev/inject-ca': 'true' },
      },
      spec: {
        conversion: {
          strategy: 'Webhook',
          webhook: {
            clientConfig: {
              service: {
                namespace: 'levelhook',
                name: 'levelhook',
                port: 443,
                path: '/webhooks/shop.greeting/versions',
              },
            },
            conversionReviewVersions: ['v1'],
          },
        },
      },
    },
  ]);
});
