import { describe, expect } from 'vitest';
import { controller } from 'levelhook/function';
import { redisCache } from 'levelhook/function/node';
import { deny, mutatingWebhook, validatingWebhook } from '../../../src/function/webhooks/index.ts';
import { resourcePath } from '../../../src/core/index.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { ServedFunction } from '../../harness/served-function.ts';
import { configureWebhook, reviewServing, reviewsUrl } from '../../harness/webhook-configurations.ts';
import { it } from '../../harness/world.ts';

/** Namespaces, by how the function reads. */
const spaces = { http: '', redis: uniqueName('reads-redis') };
/** By namespace, what a review was told of the age of its cache, in seconds. */
const ages = new Map<string, (number | undefined)[]>();
let cluster: Cluster;

/** A function of the SDK that lets each host be taken once in a namespace. */
function hostsOf(name: string, namespace: string) {
  const hosts = validatingWebhook({
    name: 'hosts',
    for: configMaps,
    operations: ['CREATE'],
    namespaces: [namespace],
  }).validate(async ({ object }, { cache, cacheAgeSeconds }) => {
    ages.set(namespace, [...(ages.get(namespace) ?? []), cacheAgeSeconds(configMaps)]);
    const value = object.data?.['host'] ?? '';
    const { items } = await cache.list(configMaps, { namespace, index: { spec: 'field:data.host', value } });
    const [other] = items.filter(({ metadata }) => metadata.name !== object.metadata.name);
    return other && deny(`the host ${value} belongs to ${other.metadata.name}`);
  });
  const defaults = mutatingWebhook({
    name: 'defaults',
    for: configMaps,
    operations: ['CREATE'],
    namespaces: [namespace],
  }).mutate((object) => {
    object.data = { port: '443', ...object.data };
  });
  return controller({
    name,
    for: configMaps,
    indexes: [{ resource: configMaps, index: 'field:data.host' }],
    webhooks: [hosts, defaults],
  }).reconcile(async () => {});
}

it.beforeAll(async ({ world }) => {
  const { setting, started } = world;
  ({ cluster, namespace: spaces.http } = world);
  await cluster.createNamespace(spaces.redis);
  started.add(() => cluster.deleteNamespace(spaces.redis));
  const openRedis = redisCache(setting.redisUrl);
  const http = await started.open(new ServedFunction(hostsOf('http', spaces.http), setting));
  const redis = await started.open(new ServedFunction(hostsOf('redis', spaces.redis), setting, openRedis));
  const { ca, settings } = await reviewServing(started, setting.kubeconfig);
  const url = await reviewsUrl(await world.gateway([http.url, redis.url], settings));
  for (const [name, namespace] of Object.entries(spaces)) {
    for (const type of ['validating', 'mutating'] as const) {
      const options = { cluster, started, ca, namespace, name: `${namespace}-${type}` };
      await configureWebhook(options, `${url}/webhooks/${name}`, {
        type,
        name: type === 'validating' ? 'hosts' : 'defaults',
        operations: ['CREATE'],
        rule: ['', 'v1', 'configmaps'],
      });
    }
    await create(namespace, 'first', 'shop.example.com');
    // Both are in force once the host is refused and the port filled in.
    await eventually(async () => {
      await expect(dryRun(namespace, 'shop.example.com')).rejects.toThrow(/belongs to first/);
      expect((await dryRun(namespace, 'other.example.com')).data).toHaveProperty('port', '443');
    });
  }
});

function create(namespace: string, name: string, host: string) {
  return cluster.create(configMaps, { metadata: { namespace, name }, data: { host } });
}

/** Stores nothing, so it may be tried until the cache has the last change. */
function dryRun(namespace: string, host: string) {
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'probe' }, data: { host } };
  const path = resourcePath(configMaps, { namespace });
  return cluster.client.json<typeof body>({ method: 'POST', path, query: { dryRun: 'All' }, body });
}

describe.each(['http', 'redis'] as const)('a webhook that reads the cache by %s', (reader) => {
  it('refuses a name that is taken, until it is free again', async () => {
    const namespace = spaces[reader];
    await create(namespace, 'a', 'a.example.com');
    await eventually(async () => {
      const refused = dryRun(namespace, 'a.example.com');
      await expect(refused).rejects.toThrow(/denied the request: the host a.example.com belongs to a/);
    });
    await expect(create(namespace, 'b', 'a.example.com')).rejects.toThrow(/belongs to a/);
    await cluster.delete(configMaps, { namespace, name: 'a' });
    const stored = await eventually(() => create(namespace, 'b', 'a.example.com'));
    expect(stored.data).toEqual({ host: 'a.example.com', port: '443' });
  });

  it('is told how old the cache may be', async () => {
    // A review goes on without the age that Redis does not tell within half a second.
    const told = (): number[] => (ages.get(spaces[reader]) ?? []).filter((age) => age !== undefined);
    await eventually(async () => {
      await dryRun(spaces[reader], 'b.example.com').catch(() => {});
      expect(told().length).toBeGreaterThan(2);
    });
    for (const age of told()) expect(age).toBeLessThan(120);
  });
});
