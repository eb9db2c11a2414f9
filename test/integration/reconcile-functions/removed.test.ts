import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { gatewayKeys, viewKeys } from '../../../src/contract/cache-layout.ts';
import { systemClock } from '../../../src/core/index.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

const ROUNDS = 5;
const AT_A_TIME = 4;

let namespace: string;
let tenant: Tenant;
let redis: Redis;
let registry: string;
let views: string;
let gateway: { url: string };
let observer: Observer;

it.beforeAll(async ({ world }) => {
  const { cluster, started } = world;
  ({ namespace } = world);
  await installReconcileFunctions(cluster);
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('objects', [{ apiGroups: [''], resources: ['configmaps', 'podtemplates'] }]);
  const setting = { ...world.setting, secret: tenant.secret };
  redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  const clusterId = await clusterIdentity(cluster.client);
  ({ registry, views } = gatewayKeys({ keyPrefix: setting.keyPrefix, clusterId }));
  observer = started.keep(await openObserver(setting, { name: 'kept', for: configMaps }));
  await tenant.declare('kept', { endpoint: { url: observer.url }, ...specOf('ConfigMap') });
  gateway = started.keep(await openGateway(setting, [], settingsFor([namespace], [observer.url])));
  await untilReady(gateway.url);
  await tenant.until('kept', 'Ready', { status: 'True' });
  await cluster.create(configMaps, { metadata: { namespace, name: 'a' }, data: {} });
  await eventually(async () => expect(observer.seen({ key: `${namespace}/a` })).not.toEqual([]));
});

function specOf(kind: string): object {
  return { for: { apiVersion: 'v1', kind, namespaces: [namespace] } };
}

const metrics = async (): Promise<string> => (await fetch(`${gateway.url}/metrics`)).text();
const fieldOf = (name: string): string => `controller:${namespace}.${name}`;

async function remove(name: string): Promise<void> {
  await tenant.remove(name);
  await eventually(async () => expect(await redis.hget(registry, fieldOf(name))).toMatch(/^removed:/));
}

it(
  'twenty controllers that came and went leave nothing in the metrics, and no marks in the views',
  { timeout: 240_000 },
  async () => {
    const seriesOf = (text: string): number => text.split('\n').filter((line) => line.includes(`${namespace}.`)).length;
    const before = await metrics();
    for (let round = 0; round < ROUNDS; round += 1) {
      const names = Array.from({ length: AT_A_TIME }, (_, at) => `passing-${round}-${at}`);
      for (const name of names) {
        await tenant.declare(name, {
          endpoint: { url: observer.url },
          ...specOf('ConfigMap'),
          reads: [{ apiVersion: 'v1', kind: 'PodTemplate', namespaces: [namespace] }],
        });
      }
      for (const name of names) await tenant.until(name, 'Synced', { status: 'True' });
      await eventually(async () => expect(await metrics()).toContain(`${namespace}.passing-${round}-0`));
      await Promise.all(names.map((name) => remove(name)));
    }
    await eventually(async () => {
      const text = await metrics();
      expect(text).not.toContain('passing');
      expect(text).not.toContain('PodTemplate');
      // Those of the controller that stays have not gone with the others: some reasons and results may have been added.
      expect(seriesOf(text)).toBeGreaterThanOrEqual(seriesOf(before));
      for (const prefix of await redis.smembers(views)) {
        expect((await redis.hkeys(viewKeys(prefix).view)).filter((field) => field.includes('passing'))).toEqual([]);
      }
    });
  },
);

it('a controller that comes back when none of its runs can be left waits for none', async () => {
  const before = observer.count;
  await remove('kept');
  const declared = { endpoint: { url: observer.url }, ...specOf('ConfigMap'), timeoutSeconds: 300 };
  // A run may take longer than this test waits.
  await tenant.declare('kept', declared);
  await eventually(async () => expect(observer.count).toBeGreaterThan(before));
  await remove('kept');
  const { count } = observer;
  await tenant.declare('kept', declared);
  await eventually(async () => expect(observer.count).toBeGreaterThan(count));
});

it('a controller that comes back waits for the runs that are in flight, whichever gateway has started them', async () => {
  const [inFlight = ''] = await redis.keys(`*queue:${namespace}.kept}:queue`);
  const endMs = systemClock.now() + 20_000;
  await redis.zadd(inFlight.replace(/:queue$/, ':in-flight'), endMs, `${namespace}/other`);
  await remove('kept');
  expect((await redis.hget(registry, fieldOf('kept')))?.split(':')[2]).toBe(String(endMs));
  const { count } = observer;
  await tenant.declare('kept', { endpoint: { url: observer.url }, ...specOf('ConfigMap') });
  await eventually(async () => expect(observer.count).toBeGreaterThan(count));
  expect(systemClock.now()).toBeGreaterThan(endMs - 500);
});

it('the registry forgets a controller as soon as its last runs are over', async () => {
  await remove('kept');
  const value = await redis.hget(registry, fieldOf('kept'));
  const [, at, end] = value?.split(':') ?? [];
  expect(Number(end)).toBeLessThanOrEqual(Number(at));
  // Declared again, it does not run, and its removal tells nothing new of the runs before.
  await tenant.declare('kept', { endpoint: { url: 'http://127.0.0.1:9' }, ...specOf('ConfigMap') });
  await tenant.until('kept', 'Ready', { status: 'False' });
  await remove('kept');
  expect((await redis.hget(registry, fieldOf('kept')))?.split(':')[2]).toBe(end);
  const atMs = systemClock.now() - 20_000;
  await redis.hset(registry, fieldOf('kept'), `removed:${atMs}:${atMs}`);
  await eventually(async () => expect(await redis.hget(registry, fieldOf('kept'))).toBeNull());
});
