import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { cachedVersions, metric, runsOnRecord, servedVersions } from '../harness/gateway-view.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilReady,
} from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { SentinelSet } from '../harness/redis-process.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

describe.for([1, 2])('a Redis that Sentinels fail over while objects change, with %i gateways', (count) => {
  const namespace = uniqueName('sentinel');
  const started = new Started();
  const random = seededRandom('redis-sentinel');
  let redis: SentinelSet;
  let cluster: Cluster;
  let setting: Setting;
  let observer: Observer;
  const gateways: Listening[] = [];

  beforeAll(async () => {
    redis = await SentinelSet.start(started);
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    // Reads through the gateway.
    const variables = { REDIS_URL: '' };
    observer = started.keep(await startObserver(setting, configMapsOf(namespace), { variables }));
    const election = count > 1 ? { LEVELHOOK_LEASE: `${namespace}/levelhook` } : {};
    for (let at = 0; at < count; at += 1) {
      const gateway = started.keep(await startGateway(setting, [observer.url], election));
      await untilReady(gateway.url);
      gateways.push(gateway);
    }
  });

  afterAll(() => started.stop());

  it('loses no change: the master is killed, and later the next one freezes', { timeout: 240_000 }, async () => {
    const changes = new ConfigMapChanges(cluster, namespace, { count: 100, random });
    await changes.createAll();
    const recoveries = async (): Promise<number> => {
      const counts = await Promise.all(gateways.map(({ url }) => metric(url, 'levelhook_recoveries_total')));
      return counts.reduce((sum, each) => sum + each, 0);
    };
    const recovered = async (before: number): Promise<void> => {
      await eventually(async () => expect(await recoveries()).toBeGreaterThan(before), 60_000);
      for (const { url } of gateways) await untilReady(url);
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
    for (const gateway of gateways) expect(gateway.process.output).not.toContain('[ioredis]');
  });
});
