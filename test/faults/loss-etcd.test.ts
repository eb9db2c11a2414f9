import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { compareResourceVersions, formatObjectKey } from '../../src/core/index.ts';
import { decodeEntry, viewKeys } from '../../src/contract/cache-layout.ts';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { untilCacheEqualsServer, viewsOf } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { ObservedConfigMaps } from '../harness/observed-config-maps.ts';
import { type Observer, startObserver } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';

const INDEX = 'field:data.group';

describe('etcd is restored to an older state', { timeout: 180_000 }, () => {
  const kinds = [{ resource: configMaps, indexes: [INDEX] }] as const;
  let plane: ControlPlane;
  let cluster: Cluster;
  let redis: Redis;
  let namespace: string;
  let setting: Setting;
  let observer: Observer;
  let objects: ObservedConfigMaps;
  let gateway: { process: TestProcess; url: string };

  beforeAll(async () => {
    plane = await startControlPlane();
    cluster = await Cluster.connect(plane.kubeconfig);
    redis = new Redis(inject('redisUrl'));
  });

  afterAll(async () => {
    redis?.disconnect();
    await cluster?.close();
    await plane?.stop();
  });

  beforeEach(async () => {
    namespace = uniqueName('restored');
    setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
    await cluster.createNamespace(namespace);
    objects = new ObservedConfigMaps(cluster, namespace);
    for (const name of ['kept', 'changed', 'deleted', 'remade', 'ahead']) await objects.create(name, 'a');
    observer = await startObserver(setting, {
      name: uniqueName('observer'),
      for: configMaps,
      indexes: [{ resource: configMaps, index: INDEX }],
    });
    await startAndCatchUp();
  });

  afterEach(async () => {
    await gateway?.process.kill('SIGTERM');
    await observer?.process.kill('SIGTERM');
  });

  async function startAndCatchUp(): Promise<void> {
    gateway = await startGateway(setting, [observer.url]);
    await untilReady(gateway.url);
    await objects.untilSeen([observer]);
    await untilCacheEqualsServer(setting, cluster, kinds);
  }

  const data = (): string => join(plane.directory, 'etcd');
  const copy = (): string => join(plane.directory, 'etcd-copy');

  /** Takes a copy of etcd's data, as a backup would be. */
  async function backUp(): Promise<void> {
    await down();
    await rm(copy(), { recursive: true, force: true });
    await cp(data(), copy(), { recursive: true });
    await up();
  }

  async function restore(): Promise<void> {
    await down();
    await rm(data(), { recursive: true, force: true });
    await cp(copy(), data(), { recursive: true });
    await up();
  }

  async function down(): Promise<void> {
    await plane.kill('kube-apiserver');
    await plane.kill('etcd', 'SIGTERM');
  }

  async function up(): Promise<void> {
    await plane.start('etcd');
    await plane.start('kube-apiserver');
  }

  /**
   * What the backup does not know: a change, a deletion, an object made again, a new one, and one changed many times.
   */
  async function makeHistory(): Promise<void> {
    await objects.change('changed', 'b');
    await objects.delete('deleted');
    await objects.delete('remade');
    await objects.create('remade', 'b');
    await objects.create('forgotten', 'b');
    // The writes that the apiserver makes by itself at its start must not be enough to catch up.
    for (let at = 0; at < 10; at += 1) {
      await Promise.all(Array.from({ length: 10 }, (_, lane) => objects.change('ahead', `turn ${at} ${lane}`)));
    }
  }

  async function viewVersion(): Promise<string> {
    const [view] = await viewsOf(setting, cluster, kinds[0]);
    return (await redis.hget(viewKeys(view?.prefix ?? '').view, 'version')) ?? '';
  }

  async function cachedVersion(name: string): Promise<string> {
    const [view] = await viewsOf(setting, cluster, kinds[0]);
    const entry = await redis.hget(viewKeys(view?.prefix ?? '').entries, formatObjectKey({ namespace, name }));
    return decodeEntry(entry ?? '').resourceVersion;
  }

  async function repaired(from: number): Promise<void> {
    await untilCacheEqualsServer(setting, cluster, kinds);
    await objects.untilSeen([observer], from);
    await objects.untilSeenGone(observer, 'forgotten');
    await untilReady(gateway.url);
    await objects.change('kept', 'z');
    await objects.create('afterwards', 'z');
    await objects.untilSeen([observer], from);
    await untilCacheEqualsServer(setting, cluster, kinds);
  }

  it('while the gateway runs', async () => {
    await backUp();
    await untilReady(gateway.url);
    await makeHistory();
    await objects.untilSeen([observer]);
    await untilCacheEqualsServer(setting, cluster, kinds);
    const [before, ahead] = [await viewVersion(), await cachedVersion('ahead')];
    const from = observer.count;
    await restore();
    const server = await cluster.list(configMaps, namespace);
    const restored = server.items.find(({ metadata }) => metadata.name === 'ahead')?.metadata.resourceVersion ?? '';
    expect(compareResourceVersions(server.metadata.resourceVersion, before), 'the server is behind').toBeLessThan(0);
    expect(compareResourceVersions(restored, ahead), 'the cache is ahead').toBeLessThan(0);
    await repaired(from);
  });

  it('while the gateway was away', async () => {
    await backUp();
    await makeHistory();
    await objects.untilSeen([observer]);
    await untilCacheEqualsServer(setting, cluster, kinds, 60_000);
    await gateway.process.kill('SIGKILL');
    const [before, from] = [await viewVersion(), observer.count];
    await restore();
    const server = await cluster.list(configMaps, namespace);
    expect(compareResourceVersions(server.metadata.resourceVersion, before), 'the server is behind').toBeLessThan(0);
    gateway = await startGateway(setting, [observer.url]);
    await untilReady(gateway.url);
    await repaired(from);
  });

  it('while the gateway was away, and has caught up with the view’s version since', async () => {
    await backUp();
    await objects.change('changed', 'b');
    await objects.delete('deleted');
    await objects.create('forgotten', 'b');
    await objects.change('ahead', 'b');
    await objects.untilSeen([observer]);
    await untilCacheEqualsServer(setting, cluster, kinds, 60_000);
    await gateway.process.kill('SIGKILL');
    const [before, from] = [await viewVersion(), observer.count];
    await restore();
    await eventually(
      async () => {
        const { resourceVersion } = (await objects.change('kept', `${Math.random()}`)).metadata;
        expect(compareResourceVersions(resourceVersion, before)).toBeGreaterThan(0);
      },
      30_000,
      0,
    );
    gateway = await startGateway(setting, [observer.url]);
    await untilReady(gateway.url);
    await repaired(from);
  });
});
