import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { resource } from '../../src/core/index.ts';
import { startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { type Observer, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../harness/tenant.ts';
import { untilFurnished } from '../harness/world.ts';

const namespace = uniqueName('stuck-view');
const group = `${namespace}.example.com`;
const definitions = resource('apiextensions.k8s.io/v1', 'CustomResourceDefinition', { namespaced: false });
const things = resource(`${group}/v1`, 'Thing');
const started = new Started();
let cluster: Cluster;
let redis: Redis;
let tenant: Tenant;
let configured: Observer;
let stuck: Observer;
let fine: Observer;
let gateway: { url: string };

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  await untilFurnished(cluster, namespace);
  await installReconcileFunctions(cluster);
  const server = await startRedis({ ignoreEnvironment: true });
  started.add(() => server.stop());
  redis = new Redis(server.url);
  started.add(async () => redis.disconnect());
  started.add(() => cluster.delete(definitions, { name: `things.${group}` }));
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  await cluster.create(definitions, {
    metadata: { name: `things.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind: 'Thing', plural: 'things', singular: 'thing', listKind: 'ThingList' },
      versions: [
        { name: 'v1', served: true, storage: true, schema },
        { name: 'v1beta1', served: true, storage: false, schema },
      ],
    },
  });
  await eventually(async () => cluster.create(things, { metadata: { namespace, name: 'thing' } }));
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('all', [
    { apiGroups: [''], resources: ['configmaps'] },
    { apiGroups: [group], resources: ['things'] },
  ]);
  const setting: Setting = {
    ...createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: server.url }),
    secret: tenant.secret,
  };
  const observe = async (name: string): Promise<Observer> =>
    started.keep(await startObserver(setting, { name, for: configMaps }));
  [configured, stuck, fine] = [await observe('configured'), await observe('stuck'), await observe('fine')];
  const forConfigMaps = { for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] } };
  const reads = [{ apiVersion: `${group}/v1beta1`, kind: 'Thing', namespaces: [namespace] }];
  // A run may take a quarter of an hour: after a loss its keys, and no others, wait that long.
  await tenant.declare('stuck', { endpoint: { url: stuck.url }, ...forConfigMaps, reads });
  await tenant.declare('fine', { endpoint: { url: fine.url }, ...forConfigMaps, timeoutSeconds: 1 });
  const settings = settingsFor([namespace], [stuck.url, fine.url]);
  gateway = started.keep(await startGateway(setting, [configured.url], settings));
  await untilReady(gateway.url);
  await tenant.until('stuck', 'Synced', { status: 'True' });
  await tenant.until('fine', 'Synced', { status: 'True' });
});

afterAll(() => started.stop());

const untilSeen = (observer: Observer, key: string, from = 0): Promise<void> =>
  eventually(async () => expect(observer.seen({ key, from }), observer.name).not.toEqual([]), 120_000);

test(
  'a view that cannot be read again after a loss suspends its own controllers, and no other',
  { timeout: 300_000 },
  async () => {
    await cluster.create(configMaps, { metadata: { namespace, name: 'before' }, data: {} });
    for (const observer of [configured, stuck, fine]) await untilSeen(observer, `${namespace}/before`);
    await untilIdle(gateway.url);
    // From now on a list of the kind in that version fails: nobody converts its objects.
    const clientConfig = { url: 'https://127.0.0.1:9/convert' };
    const conversion = { strategy: 'Webhook', webhook: { conversionReviewVersions: ['v1'], clientConfig } };
    await cluster.patch(definitions, { name: `things.${group}` }, { spec: { conversion } });
    const beta = resource(`${group}/v1beta1`, 'Thing');
    await eventually(async () => expect(cluster.list(beta, namespace)).rejects.toThrow());

    const [from, fromStuck] = [{ configured: configured.count, fine: fine.count }, stuck.count];
    await redis.flushall();
    await untilSeen(configured, `${namespace}/before`, from.configured);
    await untilSeen(fine, `${namespace}/before`, from.fine);
    await cluster.create(configMaps, { metadata: { namespace, name: 'afterwards' }, data: {} });
    await untilSeen(configured, `${namespace}/afterwards`);
    await untilSeen(fine, `${namespace}/afterwards`);
    await untilReady(gateway.url);
    await tenant.until('stuck', 'Ready', { status: 'False', reason: 'Recovering' });
    expect(stuck.count).toBe(fromStuck);

    // Once it can be listed again, it has all its keys.
    await cluster.patch(
      definitions,
      { name: `things.${group}` },
      { spec: { conversion: { strategy: 'None', webhook: null } } },
    );
    await untilSeen(stuck, `${namespace}/afterwards`);
    await tenant.until('stuck', 'Ready', { status: 'True' });
  },
);
