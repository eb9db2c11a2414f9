import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { clusterIdentity } from '../../src/gateway/apiserver/discovery.ts';
import { queueKeys } from '../../src/gateway/workqueue/queue-keys.ts';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { untilCacheEqualsServer, viewsOf } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { type Observer, startObserver } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';

const INDEX = 'field:data.group';
const FIRST = Array.from({ length: 6 }, (_, at) => `first-${at}`);

describe('data in Redis is lost', () => {
  let cluster: Cluster;
  let directory: string;
  let redis: RedisServer;
  let connection: Redis;
  let namespace: string;
  let setting: Setting;
  let observer: Observer;
  let gateway: { process: TestProcess; url: string };

  beforeAll(async () => {
    cluster = await Cluster.connect(inject('kubeconfig'));
    directory = await mkdtemp(join(tmpdir(), 'levelhook-loss-redis-'));
    redis = await startRedis({ ignoreEnvironment: true, directory: join(directory, 'redis') });
    connection = new Redis(redis.url, { maxRetriesPerRequest: null });
    connection.on('error', () => {});
  });

  afterAll(async () => {
    connection?.disconnect();
    await redis?.stop();
    await cluster?.close();
    await rm(directory, { recursive: true, force: true });
  });

  beforeEach(async () => {
    namespace = uniqueName('loss');
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    await cluster.createNamespace(namespace);
    for (const name of FIRST) await create(name, 'a');
    observer = await startObserver(setting, {
      name: uniqueName('observer'),
      for: configMaps,
      indexes: [{ resource: configMaps, index: INDEX }],
    });
    gateway = await startGateway(setting, [observer.url]);
    await untilReady(gateway.url);
    await everySeenAtItsVersion(0);
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

  function create(name: string, group: string) {
    return cluster.create(configMaps, { metadata: { namespace, name }, data: { group } });
  }

  function change(name: string, group: string) {
    return cluster.patch(configMaps, { namespace, name }, { data: { group } });
  }

  /** Every ConfigMap of the namespace has been reconciled, since the `from`th run, at the version that the server has. */
  async function everySeenAtItsVersion(from: number): Promise<void> {
    await eventually(async () => {
      const seen = observer.seen({ from });
      for (const { metadata } of (await cluster.list(configMaps, namespace)).items) {
        const last = seen.findLast(({ key }) => key === `${namespace}/${metadata.name}`);
        expect(last, metadata.name).toMatchObject({ uid: metadata.uid, resourceVersion: metadata.resourceVersion });
      }
    });
  }

  function seenGone(name: string, from: number): Promise<void> {
    return eventually(async () => {
      const last = observer.seen({ from, key: `${namespace}/${name}` }).at(-1);
      expect(last, name).toMatchObject({ resourceVersion: null });
    });
  }

  async function repaired(from: number): Promise<void> {
    await everySeenAtItsVersion(from);
    await untilCacheEqualsServer(setting, cluster, [cached()]);
    await untilReady(gateway.url);
    // And it goes on: an event still arrives.
    await create('afterwards', 'z');
    await everySeenAtItsVersion(from);
  }

  it('flushed while the gateway runs: every view is read again, every key reconciled again', async () => {
    const from = observer.count;
    await connection.flushall();
    await change('first-0', 'b');
    await cluster.delete(configMaps, { namespace, name: 'first-1' });
    await repaired(from);
  });

  it('only the keys of one view', async () => {
    const [view] = await viewsOf(setting, cluster, cached());
    const from = observer.count;
    await removeKeys(`${view?.prefix}:`);
    await change('first-0', 'b');
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
    const keys = queueKeys({ keyPrefix: setting.keyPrefix, clusterId, name: observer.name });
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
    await change('first-0', 'b');
    await cluster.delete(configMaps, { namespace, name: 'first-1' });
    await redis.start();
    await repaired(from);
  });

  it('rolled back to an older snapshot', async () => {
    const copy = join(directory, 'copy.rdb');
    await connection.save();
    await copyFile(join(directory, 'redis', 'dump.rdb'), copy);
    // What the snapshot does not know: changed, deleted, created, made again under the same name, changed index entries.
    await change('first-0', 'b');
    await cluster.delete(configMaps, { namespace, name: 'first-1' });
    await create('second', 'b');
    await cluster.delete(configMaps, { namespace, name: 'first-2' });
    await create('first-2', 'c');
    await everySeenAtItsVersion(0);
    await seenGone('first-1', 0);
    const from = observer.count;
    await redis.kill();
    await change('first-3', 'd');
    await cluster.delete(configMaps, { namespace, name: 'first-4' });
    await copyFile(copy, join(directory, 'redis', 'dump.rdb'));
    await redis.start();
    await repaired(from);
    await seenGone('first-1', from);
    await seenGone('first-4', from);
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
    // At once: nobody sees half of it.
    await connection.del(...found);
  }
});
