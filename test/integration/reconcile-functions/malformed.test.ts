import { createServer, type RequestListener } from 'node:http';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { resource, resourcePath } from '../../../src/core/index.ts';
import { generateSecret } from '../../../src/contract/index.ts';
import { ReconcileFunction } from '../../../src/gateway/registration/reconcile-function.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';

const namespace = uniqueName('malformed');
const started = new Started();
const ok = { for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] } };
const kindOf = (apiVersion: string, kind: string, more: object = {}) => ({
  apiVersion,
  kind,
  namespaces: [namespace],
  ...more,
});
const configMapWith = (predicate: object) => ({ for: { ...ok.for, predicate } });

let cluster: Cluster;
let tenant: Tenant;
let healthy: Observer;
let selective: Observer;
let stranger: Observer;
/** Origins of servers that are no functions, each in its own way. */
const wrong: Record<string, string> = {};

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  await installReconcileFunctions(cluster);
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('config-maps', [{ apiGroups: [''], resources: ['configmaps'] }]);
  await createSecrets();
  await createServices();
  const setting = {
    ...createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') }),
    secret: tenant.secret,
  };
  healthy = started.keep(await openObserver(setting, { name: 'healthy', for: configMaps }));
  selective = started.keep(await openObserver(setting, { name: 'selective', for: configMaps }));
  stranger = started.keep(
    await openObserver({ ...setting, secret: generateSecret() }, { name: 'stranger', for: configMaps }),
  );
  await serve('plain', (_, response) => response.end('hello'));
  await serve('missing', (_, response) => response.writeHead(404).end());
  await serve('old', (_, response) => response.end('{"version":"v0"}'));
  await serve('odd', (_, response) => response.end('{"version":"v1","name":"odd"}'));
  await serve('large', (_, response) => response.end('x'.repeat(2_000_000)));
  await serve('cut', (request) => request.socket.destroy());
  await serve('silent', () => {});
  const origins = [
    healthy.url,
    selective.url,
    stranger.url,
    ...Object.values(wrong),
    'http://127.0.0.1:9',
    'http://169.254.169.254',
  ];
  const gateway = started.keep(await openGateway(setting, [], settingsFor([namespace], origins)));
  await untilReady(gateway.url);
  await tenant.declare('healthy', { endpoint: { url: healthy.url }, ...ok });
  await tenant.until('healthy', 'Ready', { status: 'True' });
});

afterAll(() => started.stop());

async function serve(name: string, listener: RequestListener): Promise<void> {
  const { url } = await started.open(new LoopbackServer(createServer(listener)));
  wrong[name] = url;
}

async function createSecrets(): Promise<void> {
  const secrets = resource('v1', 'Secret');
  await cluster.create(secrets, {
    metadata: { namespace, name: 'malformed' },
    stringData: { secrets: 'hunter2', empty: ' ' },
  });
}

async function createServices(): Promise<void> {
  const services = resource('v1', 'Service');
  await cluster.create(services, {
    metadata: { namespace, name: 'external' },
    spec: { type: 'ExternalName', externalName: 'kubernetes.default.svc' },
  });
  await cluster.create(services, {
    metadata: { namespace, name: 'anywhere' },
    spec: { ports: [{ name: 'web', port: 80 }] },
  });
  await cluster.create(services, {
    metadata: { namespace, name: 'ports' },
    spec: { selector: { app: 'ports' }, ports: [{ name: 'web', port: 80 }] },
  });
}

/** A spec, the condition that tells of it, its reason, and the field that the message names. */
type Case = [reason: string, condition: 'Ready' | 'Authorized' | 'Reachable', field: string, spec: () => object];
const at = (origin: string | undefined) => ({ endpoint: { url: origin ?? '' }, ...ok });
const CASES: Case[] = [
  ['ApiVersionNotServed', 'Ready', 'spec.for', () => ({ ...at(healthy.url), for: kindOf('example.com/v7', 'Thing') })],
  ['KindNotServed', 'Ready', 'spec.owns[0]', () => ({ ...at(healthy.url), owns: [kindOf('v1', 'Thing')] })],
  [
    'KindNotWatchable',
    'Ready',
    'spec.reads[0]',
    () => ({ ...at(healthy.url), reads: [kindOf('authorization.k8s.io/v1', 'SubjectAccessReview')] }),
  ],
  ['KindHasNoNamespace', 'Ready', 'spec.reads', () => ({ ...at(healthy.url), reads: [kindOf('v1', 'Node')] })],
  ['KindNotEncrypted', 'Ready', 'spec', () => ({ ...at(healthy.url), reads: [kindOf('v1', 'Secret')] })],
  [
    'SelectorInvalid',
    'Ready',
    'spec.for',
    () => ({
      ...at(healthy.url),
      ...configMapWith({ labelSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: [] }] } }),
    }),
  ],
  ['ExpressionInvalid', 'Ready', 'spec.for', () => ({ ...at(healthy.url), ...configMapWith({ cel: 'object.data.' }) })],
  [
    'PredicateTooLarge',
    'Ready',
    'spec.for',
    () => ({
      ...at(healthy.url),
      ...configMapWith({
        all: Array.from({ length: 6 }, () => ({ any: Array.from({ length: 6 }, () => ({ changed: 'labels' })) })),
      }),
    }),
  ],
  [
    'TooManyExpressions',
    'Ready',
    'spec.watches.8.map.expression',
    () => ({
      ...at(healthy.url),
      ...configMapWith({ any: Array.from({ length: 8 }, (_, each) => ({ cel: `object.data.a${each} == ""` })) }),
      watches: Array.from({ length: 9 }, (_, each) =>
        kindOf('v1', 'ConfigMap', { map: { by: 'cel', expression: `object.data.a${each}` } }),
      ),
    }),
  ],
  [
    'SpecTooLarge',
    'Ready',
    'spec',
    () => ({
      ...at(healthy.url),
      watches: Array.from({ length: 12 }, () =>
        kindOf('v1', 'ConfigMap', {
          map: { by: 'owner' },
          namespaces: Array.from({ length: 100 }, (_, each) => `a-namespace-with-a-long-name-${each}`),
        }),
      ),
    }),
  ],
  [
    'InvalidSpec',
    'Ready',
    'spec.for.predicate',
    () => ({ ...at(healthy.url), ...configMapWith({ not: { not: { not: { changed: 'mind' } } } }) }),
  ],
  ['InvalidName', 'Ready', 'metadata.name', () => at(healthy.url)],
  ['EndpointInvalid', 'Reachable', 'spec.endpoint.url', () => at('ftp://127.0.0.1')],
  ['EndpointHasPassword', 'Reachable', 'spec.endpoint.url', () => at(healthy.url.replace('http://', 'http://a:b@'))],
  ['EndpointNotAllowed', 'Reachable', 'spec.endpoint.url', () => at('http://127.0.0.1:1')],
  ['EndpointAddressRefused', 'Reachable', 'spec.endpoint.url', () => at('http://169.254.169.254')],
  [
    'CertificateInvalid',
    'Reachable',
    'spec.endpoint.caBundle',
    () => ({ ...ok, endpoint: { url: healthy.url, caBundle: 'aGVsbG8=' } }),
  ],
  [
    'ServiceNotFound',
    'Reachable',
    'spec.endpoint.service.name',
    () => ({ ...ok, endpoint: { service: { name: 'nobody', port: 80 } } }),
  ],
  [
    'ServiceIsExternalName',
    'Reachable',
    'spec.endpoint.service.name',
    () => ({ ...ok, endpoint: { service: { name: 'external', port: 80 } } }),
  ],
  [
    'ServiceWithoutSelector',
    'Reachable',
    'spec.endpoint.service.name',
    () => ({ ...ok, endpoint: { service: { name: 'anywhere', port: 80 } } }),
  ],
  [
    'ServicePortNotFound',
    'Reachable',
    'spec.endpoint.service.port',
    () => ({ ...ok, endpoint: { service: { name: 'ports', port: 'metrics' } } }),
  ],
  [
    'EndpointNotSecure',
    'Ready',
    'spec.endpoint',
    () => ({ ...ok, endpoint: { service: { name: 'ports', port: 'web' } } }),
  ],
  [
    'SecretNotFound',
    'Ready',
    'spec.signingSecret.name',
    () => ({ ...at(healthy.url), signingSecret: { name: 'nobody' } }),
  ],
  [
    'SecretKeyNotFound',
    'Ready',
    'spec.signingSecret.key',
    () => ({ ...at(healthy.url), signingSecret: { name: 'signing', key: 'other' } }),
  ],
  [
    'SecretInvalid',
    'Ready',
    'spec.signingSecret',
    () => ({ ...at(healthy.url), signingSecret: { name: 'malformed' } }),
  ],
  [
    'SecretEmpty',
    'Ready',
    'spec.signingSecret.key',
    () => ({ ...at(healthy.url), signingSecret: { name: 'malformed', key: 'empty' } }),
  ],
  [
    'ServiceAccountNotFound',
    'Authorized',
    'spec.serviceAccountName',
    () => ({ ...at(healthy.url), serviceAccountName: 'nobody' }),
  ],
  ['Forbidden', 'Authorized', 'spec.owns[0]', () => ({ ...at(healthy.url), owns: [kindOf('v1', 'Pod')] })],
  ['ConnectionRefused', 'Reachable', 'spec.endpoint', () => at('http://127.0.0.1:9')],
  ['ConnectionFailed', 'Reachable', 'spec.endpoint', () => at(wrong['cut'])],
  ['AnswerTimedOut', 'Reachable', 'spec.endpoint', () => at(wrong['silent'])],
  ['AnswerTooLarge', 'Reachable', 'spec.endpoint', () => at(wrong['large'])],
  ['SignatureRefused', 'Reachable', 'spec.endpoint', () => at(stranger.url)],
  ['NotAFunction', 'Reachable', 'spec.endpoint', () => at(wrong['missing'])],
  ['NoJson', 'Reachable', 'spec.endpoint', () => at(wrong['plain'])],
  ['ContractMismatch', 'Reachable', 'spec.endpoint', () => at(wrong['old'])],
  ['DescriptionInvalid', 'Reachable', 'spec.endpoint', () => at(wrong['odd'])],
  ['NameMismatch', 'Reachable', 'metadata.name', () => at(healthy.url)],
];

it('a selector of 1,000 values is not malformed, to the apiserver and to the gateway', async () => {
  const values = Array.from({ length: 1000 }, (_, at) => `v${at}`);
  const matchLabels = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`l${at}`, 'x']));
  const labelSelector = { matchLabels, matchExpressions: [{ key: 'a', operator: 'In', values }] };
  await tenant.declare('selective', { ...at(selective.url), ...configMapWith({ labelSelector }) });
  await tenant.until('selective', 'Ready', { status: 'True' });
});

it('a status with the largest integers stops no declaration', async () => {
  await cluster.client.json({
    method: 'PATCH',
    path: `${resourcePath(ReconcileFunction, { namespace, name: 'healthy' })}/status`,
    body: { status: { observedGeneration: 2n ** 63n - 1n } },
    contentType: 'application/merge-patch+json',
  });
  await tenant.declare('later', { ...at(healthy.url) });
  await tenant.until('later', 'Ready', { status: 'False', reason: 'NameMismatch' });
});

describe('a malformed ReconcileFunction', () => {
  it('is shown on its own object, with a reason and a field of its own, while a healthy one runs on', async () => {
    const stop = new AbortController();
    const runsAtEach: number[] = [];
    const changing = (async () => {
      for (let at = 0; !stop.signal.aborted; at += 1) {
        const name = `object-${at % 5}`;
        await cluster.create(configMaps, { metadata: { namespace, name: `${name}-${at}` }, data: {} });
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    })();
    const nameOf = (reason: string): string => (reason === 'InvalidName' ? 'with.a.dot' : reason.toLowerCase());
    for (const [reason, , , spec] of CASES) await tenant.declare(nameOf(reason), spec() as Record<string, unknown>);
    for (const [reason, type, field] of CASES) {
      const { message } = await tenant.until(nameOf(reason), type, { status: 'False', reason });
      expect(message.startsWith(field), `${reason}: ${message}`).toBe(true);
      // What Ready says is the same: who looks at one column sees it.
      await tenant.until(nameOf(reason), 'Ready', { status: 'False', reason });
      // Nothing of what a Secret holds, or a server that is no function says.
      expect(message).not.toMatch(/hunter2|hello/);
      const before = healthy.count;
      await eventually(async () => expect(healthy.count).toBeGreaterThan(before));
      runsAtEach.push(healthy.count);
    }
    stop.abort();
    await changing;
    expect(new Set(CASES.map(([reason]) => reason)).size).toBeGreaterThanOrEqual(30);
    expect(runsAtEach).toEqual(runsAtEach.toSorted((a, b) => a - b));
    await tenant.until('healthy', 'Ready', { status: 'True' });
  }, 240_000);

  it.each<[string, object, string]>([
    ['an endpoint of neither kind', { endpoint: {} }, 'spec.endpoint must have either url or service'],
    ['one of both', { endpoint: { url: 'https://a', service: { name: 'a', port: 1 } } }, 'either url or service'],
    ['no time at all', { timeoutSeconds: 0 }, 'spec.timeoutSeconds'],
    [
      'a map without its field',
      { watches: [{ ...ok.for, map: { by: 'label' } }] },
      'with by: label there must be label',
    ],
    [
      'a map of another kind',
      { watches: [{ ...ok.for, map: { by: 'all', label: 'x' } }] },
      'with by: all there must be no other field',
    ],
    ['a predicate of two parts', configMapWith({ changed: 'labels', cel: 'true' }), 'spec.for.predicate'],
    ['nothing to reconcile', { for: null }, 'spec.for'],
    [
      'too many kinds in all',
      {
        owns: Array.from({ length: 16 }, () => ok.for),
        reads: Array.from({ length: 16 }, () => ok.for),
      },
      'spec: for, owns, watches and reads together must name 32 kinds at most',
    ],
    ['too many kinds in one field', { reads: Array.from({ length: 40 }, () => ok.for) }, 'spec.reads'],
    [
      'too many indexes',
      { indexes: Array.from({ length: 17 }, () => ({ apiVersion: 'v1', kind: 'ConfigMap', index: 'label:a' })) },
      'spec.indexes',
    ],
  ])('is refused by the apiserver itself with %s', async (_what, spec, field) => {
    await expect(tenant.declare('refused', { ...at('https://a'), ...spec })).rejects.toThrow(field);
  });
});
