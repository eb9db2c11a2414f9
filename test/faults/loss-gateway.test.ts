import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { compareResourceVersions } from '../../src/core/index.ts';
import { type AuditedRequest, isFullList } from '../harness/audit-log.ts';
import { type AuditedPlane, startAuditedPlane } from '../harness/audited-plane.ts';
import { untilCacheEqualsServer } from '../harness/cache-equals-server.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { ObservedConfigMaps } from '../harness/observed-config-maps.ts';
import { type Observation, type Observer, startObservers } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';

describe('gateway and apiserver are killed', () => {
  const namespace = uniqueName('killed');
  const kinds = [{ resource: configMaps }];
  let audited: AuditedPlane;
  let cluster: Cluster;
  let setting: Setting;
  let observers: Observer[] = [];
  let objects: ObservedConfigMaps;
  let gateway: { process: TestProcess; url: string };

  beforeAll(async () => {
    audited = await startAuditedPlane();
    cluster = await Cluster.connect(audited.plane.kubeconfig);
    setting = createSetting({ kubeconfig: audited.gatewayKubeconfig, redisUrl: inject('redisUrl') });
    await cluster.createNamespace(namespace);
    objects = new ObservedConfigMaps(cluster, namespace);
    for (let at = 0; at < 20; at += 1) await objects.create(`one-${at}`, '0');
    const specs = ['first', 'second'].map((name) => ({ name, for: configMaps, timeoutSeconds: 5 }));
    observers = await startObservers(setting, specs);
    await start();
    await objects.untilSeen(observers);
    await untilCacheEqualsServer(setting, cluster, kinds);
  });

  afterAll(async () => {
    await gateway?.process.kill('SIGTERM');
    for (const observer of observers) await observer.process.kill('SIGTERM');
    await cluster?.close();
    await audited?.stop();
  });

  async function start(): Promise<void> {
    gateway = await startGateway(
      setting,
      observers.map(({ url }) => url),
    );
    await untilReady(gateway.url);
  }

  /** The gateway's requests about ConfigMaps since the `from`th of all. */
  async function asked(from: number): Promise<AuditedRequest[]> {
    return (await audited.requests()).slice(from).filter(({ resource }) => resource === 'configmaps');
  }

  const fullLists = (requests: readonly AuditedRequest[]): AuditedRequest[] => requests.filter(isFullList);

  const keysOf = (observations: readonly Observation[]): string[] =>
    observations.map(({ key }) => key.slice(namespace.length + 1)).toSorted();

  it('fills the view with one list and one watch for two controllers', async () => {
    const requests = await asked(0);
    expect(fullLists(requests)).toHaveLength(1);
    expect(requests.filter(({ verb }) => verb === 'watch')).toHaveLength(1);
  });

  it('resumes after SIGKILL from the version of the view, without a list, and runs only what has changed', async () => {
    // A run whose outcome was not yet recorded has to be repeated.
    await untilIdle(gateway.url);
    const from = (await audited.requests()).length;
    const counts = observers.map(({ count }) => count);
    // With an empty outbox.
    await untilCacheEqualsServer(setting, cluster, kinds);
    await gateway.process.kill('SIGKILL');
    await objects.change('one-3', 'changed while nobody watched');
    await objects.delete('one-4');
    await objects.create('new-1', '0');
    await start();
    await objects.untilSeen(observers);
    await untilCacheEqualsServer(setting, cluster, kinds);
    const requests = await asked(from);
    expect(fullLists(requests)).toEqual([]);
    // One watch from the version of the view, and a look at the server's.
    expect(requests.some(({ verb }) => verb === 'list')).toBe(true);
    const watches = requests.filter(({ verb }) => verb === 'watch');
    expect(watches).toHaveLength(1);
    expect(Number(watches[0]?.query.get('resourceVersion'))).toBeGreaterThan(0);
    await eventually(async () => {
      observers.forEach((observer, at) => {
        const seen = observer.seen({ from: counts[at] ?? 0 });
        expect(new Set(keysOf(seen))).toEqual(new Set(['new-1', 'one-3', 'one-4']));
      });
    });
  });

  it('does so again and again, under changes, with nothing lost and nothing run that had not changed', async () => {
    await untilIdle(gateway.url);
    const from = (await audited.requests()).length;
    const counts = observers.map(({ count }) => count);
    for (let round = 0; round < 3; round += 1) {
      const changes = (async () => {
        for (let at = 0; at < 15; at += 1) await objects.change(`one-${10 + (at % 5)}`, `${round}-${at}`);
      })();
      await gateway.process.kill('SIGKILL');
      await changes;
      await start();
    }
    await objects.untilSeen(observers);
    await untilCacheEqualsServer(setting, cluster, kinds);
    expect(fullLists(await asked(from))).toEqual([]);
    const changed = [0, 1, 2, 3, 4].map((at) => `one-${10 + at}`);
    observers.forEach((observer, at) => {
      expect(new Set(keysOf(observer.seen({ from: counts[at] ?? 0 })))).toEqual(new Set(changed));
    });
  });

  it('lists as a diff after a restart of the apiserver: an unchanged object wakes no key', async () => {
    await untilIdle(gateway.url);
    const from = (await audited.requests()).length;
    const counts = observers.map(({ count }) => count);
    const before = (await cluster.list(configMaps, namespace)).metadata.resourceVersion;
    // Of another kind: a restarted apiserver has events from its start on only, and that is later than the view now.
    await cluster.createNamespace(uniqueName('other'));
    await audited.plane.kill('kube-apiserver');
    await audited.plane.start('kube-apiserver');
    await objects.change('one-5', 'changed before the gateway is back');
    await objects.delete('one-6');
    await untilCacheEqualsServer(setting, cluster, kinds, 60_000);
    // The apiserver has forgotten the events from before its start: this resume had to be refused.
    const lists = fullLists(await asked(from));
    expect(lists).toHaveLength(1);
    await eventually(async () => {
      observers.forEach((observer, at) => {
        const seen = observer.seen({ from: counts[at] ?? 0 });
        expect(new Set(keysOf(seen))).toEqual(new Set(['one-5', 'one-6']));
        for (const { resourceVersion } of seen) {
          if (resourceVersion) expect(compareResourceVersions(resourceVersion, before)).toBeGreaterThan(0);
        }
      });
    });
    await objects.create('after-restart', '0');
    await objects.untilSeen(observers);
  });

  it('lists as a diff after a restart of the apiserver while the gateway was away, too', async () => {
    await untilIdle(gateway.url);
    const counts = observers.map(({ count }) => count);
    // With an empty outbox.
    await untilCacheEqualsServer(setting, cluster, kinds);
    await gateway.process.kill('SIGKILL');
    await objects.change('one-7', 'before');
    await cluster.createNamespace(uniqueName('other'));
    await audited.plane.kill('kube-apiserver');
    await audited.plane.start('kube-apiserver');
    await objects.change('one-8', 'after');
    await objects.delete('one-9');
    await start();
    await untilCacheEqualsServer(setting, cluster, kinds);
    await objects.untilSeen(observers);
    await eventually(async () => {
      observers.forEach((observer, at) => {
        const seen = observer.seen({ from: counts[at] ?? 0 });
        expect(new Set(keysOf(seen))).toEqual(new Set(['one-7', 'one-8', 'one-9']));
      });
    });
  });
});
