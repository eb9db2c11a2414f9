import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { cachedVersions, metric, runsOnRecord, servedVersions } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { SentinelSet } from '../harness/redis-process.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

describe('a Redis that Sentinels fail over while objects change', () => {
  const namespace = uniqueName('sentinel');
  const started = new Started();
  const random = seededRandom('redis-sentinel');
  let redis: SentinelSet;
  let cluster: Cluster;
  let setting: Setting;
  let observer: Observer;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    redis = await SentinelSet.start(started);
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    // Reads through the gateway.
    const variables = { REDIS_URL: '' };
    observer = started.keep(await startObserver(setting, configMapsOf(namespace), { variables }));
    gateway = started.keep(await startGateway(setting, [observer.url]));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  it('loses no change: the master is killed, and later the next one freezes', { timeout: 240_000 }, async () => {
    const changes = new ConfigMapChanges(cluster, namespace, { count: 100, random });
    await changes.createAll();
    const recoveries = () => metric(gateway.url, 'levelhook_recoveries_total');
    const recovered = async (before: number): Promise<void> => {
      await eventually(async () => expect(await recoveries()).toBeGreaterThan(before), 60_000);
      await untilReady(gateway.url);
    };
    await changes.keepChanging(50, async () => {
      let before = await recoveries();
      await redis.master.kill('SIGKILL');
      await redis.replica.until('master', started);
      await recovered(before);
      await redis.master.startAgain();
      await redis.master.until('replica', started);

      before = await recoveries();
      await redis.replica.kill('SIGSTOP');
      await redis.master.until('master', started);
      await recovered(before);
      // It comes back as a master that nobody has told yet.
      await redis.replica.kill('SIGCONT');
      await redis.replica.until('replica', started);
    });
    const endedAt = machineMs();
    await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 90_000);
    await eventually(async () =>
      expect(await cachedVersions(setting, cluster, namespace)).toEqual(await servedVersions(cluster, namespace)),
    );
    process.stdout.write(
      `redis-sentinel: ${changes.acknowledged} changes reconciled ` +
        `${((machineMs() - endedAt) / 1000).toFixed(1)} s after the last one, ${observer.count} runs\n`,
    );
    await eventually(async () => expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]), 10_000);
    expect(gateway.process.output).not.toContain('[ioredis]');
  });
});
