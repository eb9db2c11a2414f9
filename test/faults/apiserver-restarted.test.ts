import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { cachedVersions, metric, servedVersions } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { type Random, seededRandom } from '../harness/seeded-random.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

describe('an apiserver killed and restarted while objects change', () => {
  const namespace = uniqueName('apiserver');
  const started = new Started();
  let plane: ControlPlane;
  let cluster: Cluster;
  let random: Random;
  let setting: Setting;
  let observer: Observer;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    random = seededRandom('apiserver-restarted');
    plane = await startControlPlane();
    started.add(() => plane.stop());
    cluster = await started.cluster(plane.kubeconfig, namespace);
    setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: inject('redisUrl') });
    observer = started.keep(await startObserver(setting, configMapsOf(namespace)));
    gateway = started.keep(await startGateway(setting, [observer.url]));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  const errors = (): Promise<number> =>
    metric(gateway.url, 'controller_runtime_reconcile_errors_total', { controller: observer.name });

  /** Until the gateway has seen a change that was made just now: others may have been on their way to it. */
  async function untilFollowing(name: string): Promise<void> {
    const key = `${namespace}/${name}`;
    await eventually(() => cluster.create(configMaps, { metadata: { namespace, name }, data: {} }));
    await eventually(async () => expect(observer.keys()).toContain(key));
  }

  it('loses no change and no deletion', { timeout: 180_000 }, async () => {
    const changes = new ConfigMapChanges(cluster, namespace, { count: 200, random });
    await changes.createAll();
    await changes.keepChanging(50, async () => {
      await sleep(random.between(1000, 3000));
      await changes.unwatched(async () => {
        await plane.kill('kube-apiserver');
        await plane.start('kube-apiserver');
        await untilFollowing('after-a-kill');
      });
      await sleep(random.between(0, 2000));
      // No run failed for it: functions read the cache.
      expect(await errors()).toBe(0);
      // An apiserver that starts delays early connections, so the gateway is back with the first writes. Frozen, it
      // misses a good second of them. A run that is in flight just then may miss its deadline, and is settled as lost.
      await changes.unwatched(async () => {
        process.kill(gateway.process.pid, 'SIGSTOP');
        // A new apiserver has no events before its start. The write between the two is one that the gateway has not
        // seen, so it is told to list.
        await plane.kill('kube-apiserver');
        await plane.start('kube-apiserver');
        await eventually(() => cluster.createNamespace(uniqueName('unseen')));
        await plane.kill('kube-apiserver');
        await plane.start('kube-apiserver');
        await sleep(random.between(1000, 2000));
        process.kill(gateway.process.pid, 'SIGCONT');
        await untilFollowing('after-a-stop');
      });
    });
    const endedAt = machineMs();
    await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 90_000);
    expect(changes.failed).toBeGreaterThan(0);
    expect(await metric(gateway.url, 'levelhook_reflector_lists_total', { resource: 'v1/ConfigMap' })).toBeGreaterThan(
      1,
    );
    expect(await cachedVersions(setting, cluster, namespace)).toEqual(await servedVersions(cluster, namespace));
    process.stdout.write(
      `apiserver-restarted: ${changes.acknowledged} changes (${changes.failed} attempts failed) reconciled ` +
        `${((machineMs() - endedAt) / 1000).toFixed(1)} s after the last one, ${observer.count} runs\n`,
    );
  });
});
