import { Agent, request } from 'undici';
import { expect } from 'vitest';
import type { AdmissionDescription, ConversionDescription } from '../../../src/contract/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Opened, openGateway } from '../../harness/opened.ts';
import { ReviewFunction } from '../../harness/review-function.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import {
  type ConfigurationOptions,
  configureWebhook,
  reviewServing,
  reviewsUrl,
} from '../../harness/webhook-configurations.ts';
import { it, type World } from '../../harness/world.ts';

const others = uniqueName('victim-hooks');
const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
const READ = ['get', 'list', 'watch'];

let world: World;
/** The namespace of Mallory. */
let own: string;
let mallory: Tenant;
let hers: ReviewFunction;
let gateway: Opened;
let url: string;
let ca: string;

it.beforeAll(async ({ world: made }) => {
  world = made;
  const { cluster, started } = world;
  own = world.namespace;
  await cluster.createNamespace(others);
  started.add(() => cluster.deleteNamespace(others));
  await installReconcileFunctions(cluster);
  mallory = await new Tenant(cluster, own).create();
  await mallory.allow('own', [{ apiGroups: [''], resources: ['configmaps'], verbs: READ }]);
  hers = await started.open(new ReviewFunction({ name: 'hers', for: configMap, webhooks: [] }, mallory.secret));
  const serving = await reviewServing(started, world.setting.kubeconfig);
  ca = serving.ca;
  const variables = { ...settingsFor([own], [hers.url]), ...serving.settings };
  gateway = started.keep(await openGateway({ ...world.setting, secret: mallory.secret }, [], variables));
  url = `${await reviewsUrl(gateway)}/webhooks/${own}.hers`;
  await untilReady(gateway.url);
});

const webhook: AdmissionDescription = { ...configMap, type: 'validating', name: 'spy', operations: ['CREATE'] };

function declare(name: string, webhooks: readonly (AdmissionDescription | ConversionDescription)[]) {
  return mallory.declare(name, { endpoint: { url: hers.url }, for: { ...configMap, namespaces: [own] }, webhooks });
}

function configured(namespace: string): ConfigurationOptions {
  return { ...world, ca, namespace, name: `${namespace}-spy` };
}

const spy = { ...webhook, rule: ['', 'v1', 'configmaps'] as const, failurePolicy: 'Ignore' as const };

async function refused(
  name: string,
  webhooks: readonly (AdmissionDescription | ConversionDescription)[],
): Promise<string> {
  await declare(name, webhooks);
  const { message } = await mallory.until(name, 'Authorized', { status: 'False', reason: 'Forbidden' });
  await mallory.remove(name);
  return message;
}

it('a webhook for what the ServiceAccount may not read keeps the function from running', async () => {
  const account = `the ServiceAccount ${own}/reader may not`;
  expect(await refused('everywhere', [webhook])).toBe(
    `spec.webhooks[0]: ${account} get, list, watch v1/ConfigMap in all namespaces: grant it, or name namespaces in spec.webhooks[0].namespaces`,
  );
  expect(await refused('elsewhere', [{ ...webhook, namespaces: [own, others] }])).toBe(
    `spec.webhooks[0]: ${account} get, list, watch v1/ConfigMap in the namespace ${others}: grant it`,
  );
  const secrets = { ...webhook, kind: 'Secret', namespaces: [own] };
  expect(
    await refused('secrets', [
      { ...webhook, namespaces: [own] },
      { ...secrets, name: 'other' },
    ]),
  ).toBe(`spec.webhooks[1]: ${account} get, list, watch v1/Secret in the namespace ${own}: grant it`);
});

it('a webhook that changes objects needs the right to write them', async () => {
  const account = `spec.webhooks[0]: the ServiceAccount ${own}/reader may not`;
  expect(await refused('changes', [{ ...webhook, type: 'mutating', namespaces: [own] }])).toBe(
    `${account} create, update v1/ConfigMap in the namespace ${own}: grant it`,
  );
  await mallory.allow('write', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['create', 'update'] }]);
  const token = { ...webhook, type: 'mutating' as const, namespaces: [own], subresources: ['status'] };
  expect(await refused('part', [token])).toBe(
    `${account} create the subresource status of, update the subresource status of v1/ConfigMap in the namespace ${own}: grant it`,
  );
  await declare('writes', [{ ...webhook, type: 'mutating', namespaces: [own] }]);
  await mallory.until('writes', 'Authorized', { status: 'True' });
  await mallory.remove('writes');
  const conversion = { ...configMap, type: 'conversion' as const, name: 'spy', versions: ['v1', 'v2'] };
  expect(await refused('converts', [conversion])).toBe(
    `${account} get, list, watch, create, update v1/ConfigMap in all namespaces: grant it`,
  );
});

it('no webhook changes what the apiserver checks against the rights of the writer afterwards', async () => {
  const binding = { ...webhook, apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'RoleBinding', namespaces: [own] };
  await declare('binds', [{ ...binding, type: 'mutating' as const }]);
  const { message } = await mallory.until('binds', 'Authorized', { status: 'False', reason: 'ChecksTheWriter' });
  await mallory.remove('binds');
  expect(message).toMatch(
    /^spec.webhooks\[0\]: what is written of rbac.authorization.k8s.io\/v1\/RoleBinding is checked/,
  );
});

it('two webhooks of one name are refused', async () => {
  const both = [
    { ...webhook, namespaces: [own] },
    { ...webhook, namespaces: [own], operations: ['UPDATE' as const] },
  ];
  await expect(declare('twice', both)).rejects.toThrow(/spec.webhooks\[1\]: Duplicate value/);
});

it('a webhook gets the reviews of its own namespace, and of no other, whatever the configurations say', async () => {
  await declare('hers', [{ ...webhook, namespaces: [own] }]);
  await mallory.until('hers', 'Ready', { status: 'True' });
  await configureWebhook(configured(own), url, spy);
  // Someone has been talked into this one.
  await configureWebhook(configured(others), url, spy);
  let nth = 0;
  const create = (namespace: string) =>
    world.cluster.create(configMaps, { metadata: { namespace, name: `x-${(nth += 1)}` } });
  await eventually(async () => {
    await create(own);
    expect(hers.reviews.length).toBeGreaterThan(0);
  });
  const path = `${new URL(url).pathname}/spy`;
  await eventually(async () => {
    await create(others);
    expect(await (await fetch(`${gateway.url}/metrics`)).text()).toContain(`{webhook="${path}",code="403"}`);
  });
  expect(new Set(hers.reviews.map(({ request }) => request.namespace))).toEqual(new Set([own]));

  await mallory.deny('own');
  await mallory.until('hers', 'Authorized', { status: 'False' });
  await eventually(async () => {
    const before = hers.reviews.length;
    await create(own);
    expect(hers.reviews.length).toBe(before);
  });
  expect(await reason()).toContain(
    `the ReconcileFunction ${own}.hers may not get reviews: spec.for: the ServiceAccount`,
  );
});

/** What the apiserver would show of the gateway's answer. */
async function reason(): Promise<string> {
  const dispatcher = new Agent({ connect: { ca } });
  try {
    const headers = { 'content-type': 'application/json' };
    const { body, statusCode } = await request(`${url}/spy`, { dispatcher, method: 'POST', headers, body: '{}' });
    expect(statusCode).toBe(403);
    return ((await body.json()) as { message: string }).message;
  } finally {
    await dispatcher.destroy();
  }
}
