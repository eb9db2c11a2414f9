import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { clusterIdentity } from '../../src/gateway/apiserver/discovery.ts';
import { queueKeys } from '../../src/gateway/workqueue/queue-keys.ts';
import { type ControlPlane, type RedisServer, startControlPlane, startRedis } from '../../src/testing/index.ts';
import { untilCacheEqualsServer, viewsOf } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { ObservedConfigMaps } from '../harness/observed-config-maps.ts';
import { type Observer, startObserver } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';

const INDEX = 'field:data.group';
const FIRST = Array.from({ length: 6 }, (_, at) => `first-${at}`);

describe('data in Redis is lost', () => {
  let plane: ControlPlane;
  let cluster: Cluster;
  let directory: string;
  let redis: RedisServer;
  let connection: Redis;
  let namespace: string;
  let setting: Setting;
  let observer: Observer;
  let objects: ObservedConfigMaps;
  let gateway: { process: TestProcess; url: string };

  beforeAll(async () => {
    // No other test may write while the cache is compared.
    plane = await startControlPlane();
    cluster = await Cluster.connect(plane.kubeconfig);
    directory = await mkdtemp(join(tmpdir(), 'levelhook-loss-redis-'));
    redis = await startRedis({ ignoreEnvironment: true, directory: join(directory, 'redis') });
    connection = new Redis(redis.url, { maxRetriesPerRequest: null });
    connection.on('error', () => {});
  });

  afterAll(async () => {
    connection?.disconnect();
    await redis?.stop();
    await cluster?.close();
    await plane?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  beforeEach(async () => {
    namespace = uniqueName('loss');
    setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
    await cluster.createNamespace(namespace);
    objects = new ObservedConfigMaps(cluster, namespace);
    for (const name of FIRST) await objects.create(name, 'a');
    observer = await startObserver(setting, {
      name: uniqueName('observer'),
      for: configMaps,
      indexes: [{ resource: configMaps, index: INDEX }],
    });
    gateway = await startGateway(setting, [observer.url]);
    await untilReady(gateway.url);
    await objects.untilSeen([observer]);
    await untilCacheEqualsServer(setting, cluster, [cached()]);
  });

  afterEach(async () => {
    await gateway?.process.kill('SIGTERM');
    await observer?.process.kill('SIGTERM');
    await redis.start();
    await cluster.deleteNamespace(namespace);
  });

  function cached() {
    return { resource: configMaps, indexes: [INDEX] } as const;
  }

  async function repaired(from: number): Promise<void> {
    await objects.untilSeen([observer], from);
    await untilCacheEqualsServer(setting, cluster, [cached()]);
    await untilReady(gateway.url);
    // And it goes on: an event still arrives.
    await objects.create('afterwards', 'z');
    await objects.untilSeen([observer], from);
  }

  it('flushed while the gateway runs: every view is read again, every key reconciled again', async () => {
    const from = observer.count;
    await connection.flushall();
    await objects.change('first-0', 'b');
    await objects.delete('first-1');
    await repaired(from);
  });

  it('only the keys of one view', async () => {
    const [view] = await viewsOf(setting, cluster, cached());
    const from = observer.count;
    await removeKeys(`${view?.prefix}:`);
    await objects.change('first-0', 'b');
    await repaired(from);
  });

  it('only the keys of one view, after a restart of the gateway', async () => {
    await gateway.process.kill('SIGKILL');
    gateway = await startGateway(setting, [observer.url]);
    await untilReady(gateway.url);
    const [view] = await viewsOf(setting, cluster, cached());
    const from = observer.count;
    await removeKeys(`${view?.prefix}:`);
    await repaired(from);
  });

  it('only the keys of one queue: every key is reconciled again, and nothing is read again', async () => {
    const clusterId = await clusterIdentity(cluster.client);
    const keys = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, observer.name);
    const from = observer.count;
    const lists = await listsMade();
    await removeKeys(`${keys.prefix}:`);
    await repaired(from);
    expect(await listsMade()).toBe(lists);
  });

  it('restarted empty', async () => {
    const from = observer.count;
    await redis.kill();
    await rm(join(directory, 'redis', 'dump.rdb'), { force: true });
    await objects.change('first-0', 'b');
    await objects.delete('first-1');
    await redis.start();
    await repaired(from);
  });

  it('rolled back to an older snapshot', async () => {
    const copy = join(directory, 'copy.rdb');
    await connection.save();
    await copyFile(join(directory, 'redis', 'dump.rdb'), copy);
    // What the snapshot does not know: changed, deleted, created, made again under the same name, changed index
    // entries.
    await objects.change('first-0', 'b');
    await objects.delete('first-1');
    await objects.create('second', 'b');
    await objects.delete('first-2');
    await objects.create('first-2', 'c');
    await objects.untilSeen([observer]);
    await objects.untilSeenGone(observer, 'first-1');
    const from = observer.count;
    await redis.kill();
    await objects.change('first-3', 'd');
    await objects.delete('first-4');
    await copyFile(copy, join(directory, 'redis', 'dump.rdb'));
    await redis.start();
    await repaired(from);
    await objects.untilSeenGone(observer, 'first-1', from);
    await objects.untilSeenGone(observer, 'first-4', from);
  });

  async function listsMade(): Promise<number> {
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    const series = text.split('\n').filter((line) => line.startsWith('levelhook_reflector_lists_total{'));
    return series.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  async function removeKeys(prefix: string): Promise<void> {
    const found: string[] = [];
    for await (const keys of connection.scanStream({ match: `${prefix}*`, count: 1000 }) as AsyncIterable<string[]>) {
      found.push(...keys);
    }
    expect(found).not.toEqual([]);
    // At once: no reader sees half of it.
    await connection.del(...found);
  }
});
