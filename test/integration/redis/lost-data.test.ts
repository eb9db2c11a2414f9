import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { gatewayKeys } from '../../../src/contract/cache-layout.ts';
import { resource } from '../../../src/core/index.ts';
import { startRedis } from '../../../src/testing/index.ts';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { type Observer, type ObserverSpec, openObservers } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';

const CLUSTER = 'lost-data';
const secrets = resource('v1', 'Secret');
/** A kind of which no other test has objects: its view covers all namespaces. */
const podTemplates = resource('v1', 'PodTemplate');

/** Controllers that use each part of a gateway which writes to Redis. */
function specsOf(namespace: string): ObserverSpec[] {
  const where = { namespaces: [namespace] };
  return [
    {
      name: 'maps',
      for: { resource: configMaps, ...where },
      watches: [
        { resource: secrets, map: { by: 'all' }, ...where },
        { resource: podTemplates, map: { by: 'selector', path: 'data.selector' } },
      ],
      indexes: [{ resource: configMaps, index: 'field:data.to' }],
      timeoutSeconds: 60,
    },
    { name: 'secrets', for: { resource: secrets, ...where }, queue: { rateLimit: { perSecond: 100, burst: 100 } } },
    { name: 'related', for: { resource: configMaps, ...where }, relatedKinds: 'any', timeoutSeconds: 60 },
  ];
}

describe('Redis after all of its data was lost', () => {
  const started = new Started();
  const namespace = uniqueName('lost');
  let setting: Setting;
  let redis: Redis;
  let cluster: Cluster;
  let observers: Observer[];
  let gatewayUrl: string;

  beforeAll(async () => {
    const server = await startRedis({ ignoreEnvironment: true, directory: await started.directory() });
    started.add(() => server.stop());
    redis = new Redis(server.url);
    started.add(async () => redis.disconnect());
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    for (const name of ['one', 'two']) {
      await cluster.create(configMaps, { metadata: { namespace, name }, data: { to: name, [name]: 'x' } });
      const value = randomBytes(8).toString('base64');
      await cluster.create(secrets, { metadata: { namespace, name }, data: { value } });
    }
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: server.url });
    observers = await openObservers(setting, specsOf(namespace));
    for (const observer of observers) started.keep(observer);
    const urls = observers.map(({ url }) => url);
    const variables = { LEVELHOOK_CLUSTER_ID: CLUSTER, LEVELHOOK_CACHE_KEYS: CACHE_KEYS };
    ({ url: gatewayUrl } = started.keep(await openGateway(setting, urls, variables)));
    await untilReady(gatewayUrl);
    await untilIdle(gatewayUrl);
  });

  afterAll(() => started.stop());

  it('holds again what a fresh start writes', async () => {
    const fresh = await settled();
    expect(fresh.filter((each) => each.includes(':views'))).not.toEqual([]);
    const from = observers.map(({ count }) => count);
    await redis.flushall();
    await eventually(async () => {
      observers.forEach((observer, at) => expect(observer.keys(from[at]).length).toBeGreaterThanOrEqual(2));
    });
    await untilReady(gatewayUrl);
    await untilIdle(gatewayUrl);
    await eventually(async () => expect(await shapeOf(redis)).toEqual(fresh), 30_000);
  });

  it('holds again each key alone, whichever it loses', async () => {
    const { registry, views } = gatewayKeys({ keyPrefix: setting.keyPrefix, clusterId: CLUSTER });
    const fresh = await settled();
    for (const key of [registry, views]) {
      await redis.del(key);
      await eventually(async () => expect(await shapeOf(redis)).toEqual(fresh), 30_000);
    }
  });

  /** The shape once it has stayed the same for some time. */
  async function settled(): Promise<string[]> {
    let before: string[] = [];
    await eventually(
      async () => {
        const now = await shapeOf(redis);
        const isSame = JSON.stringify(now) === JSON.stringify(before);
        before = now;
        if (!isSame) throw new Error('it changes');
      },
      60_000,
      3000,
    );
    return before;
  }
});

/** What comes with the time, of runs that were repeated, and of the objects of other tests. */
const OF_THE_DAY = /:(?:samples|stalled-check|events|id|history:[^:]*)$|:index:/;

/** Each key and its type, and the fields of each hash, without what identifies a gateway, a run or an object. */
async function shapeOf(redis: Redis): Promise<string[]> {
  const shape: string[] = [];
  for (const key of await redis.keys('*')) {
    const type = await redis.type(key);
    const fields = type === 'hash' && !/:(objects|entries)$/.test(key) ? await redis.hkeys(key) : [];
    if (OF_THE_DAY.test(key)) continue;
    const members = key.endsWith(':views') ? await redis.smembers(key) : [];
    const settings = key.endsWith(':meta') ? await redis.hvals(key) : [];
    shape.push(`${key} ${type} ${[...fields, ...members, ...settings].toSorted().join(' ')}`);
  }
  return shape.toSorted();
}
