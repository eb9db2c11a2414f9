import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { cachedVersions, metric, runsOnRecord, servedVersions } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { configMapsOf, type Observer, startObservers } from '../harness/observer.ts';
import { RedisClusterNodes } from '../harness/redis-process.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

describe('a gateway on a Redis Cluster of three masters', () => {
  const namespace = uniqueName('redis-cluster');
  const started = new Started();
  const random = seededRandom('redis-cluster');
  let redis: RedisClusterNodes;
  let cluster: Cluster;
  let setting: Setting;
  let observers: Observer[];
  let gateway: Awaited<ReturnType<typeof startGateway>>;
  let changes: ConfigMapChanges;

  beforeAll(async () => {
    redis = await RedisClusterNodes.start(started);
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    // So many queues are on all nodes.
    const names = Array.from({ length: 6 }, (_, at) => `observer-${at}`);
    // They read through the gateway.
    observers = await startObservers(
      { ...setting, redisUrl: '' },
      names.map((name) => ({ ...configMapsOf(namespace), name })),
    );
    for (const observer of observers) started.keep(observer);
    gateway = started.keep(
      await startGateway(
        setting,
        observers.map(({ url }) => url),
      ),
    );
    await untilReady(gateway.url);
    changes = new ConfigMapChanges(cluster, namespace, { count: 50, random });
  });

  afterAll(() => started.stop());

  async function untilReconciled(): Promise<void> {
    for (const observer of observers) {
      await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 90_000);
    }
    await eventually(async () =>
      expect(await cachedVersions(setting, cluster, namespace)).toEqual(await servedVersions(cluster, namespace)),
    );
  }

  it('reconciles every change', async () => {
    await changes.createAll();
    await untilReconciled();
    const sizes = await Promise.all(redis.connections.slice(0, 3).map((node) => node.dbsize()));
    expect(sizes.filter((size) => size > 0)).toHaveLength(3);
  });

  const recoveries = () => metric(gateway.url, 'levelhook_recoveries_total');
  async function recovered(before: number): Promise<void> {
    await eventually(async () => expect(await recoveries()).toBeGreaterThan(before), 60_000);
    await untilReady(gateway.url);
  }

  it('loses none when a master without a replica is killed and restarted', { timeout: 240_000 }, async () => {
    const [master] = redis.masters;
    await changes.keepChanging(20, async () => {
      const before = await recoveries();
      await master?.kill('SIGKILL');
      await eventually(async () => expect((await fetch(`${gateway.url}/readyz`)).status).toBe(503));
      await master?.startAgain();
      await recovered(before);
    });
    await untilReconciled();
  });

  it('loses none when a replica takes over, from a killed and from a frozen master', { timeout: 240_000 }, async () => {
    const master = redis.masters[2];
    await changes.keepChanging(20, async () => {
      let before = await recoveries();
      await master?.kill('SIGKILL');
      await redis.replica.until('master', started);
      await recovered(before);
      await master?.startAgain();
      await master?.until('replica', started);

      before = await recoveries();
      await redis.replica.kill('SIGSTOP');
      await master?.until('master', started);
      await recovered(before);
      await redis.replica.kill('SIGCONT');
      await redis.replica.until('replica', started);
    });
    await untilReconciled();
    for (const { name } of observers) {
      await eventually(async () => expect(await runsOnRecord(setting, cluster, name)).toEqual([]), 20_000);
    }
    expect(gateway.process.output).not.toMatch(/CROSSSLOT|same slot|same node|\[ioredis\]/i);
  });
});
