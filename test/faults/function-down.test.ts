import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { cachedVersions, metric, runsOnRecord, servedVersions } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { type Random, seededRandom } from '../harness/seeded-random.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import type { TestProcess } from '../harness/process.ts';
import { Started } from '../harness/started.ts';

const DOWN_MS = 10_000;

describe('a function killed and down for ten seconds while objects change', () => {
  const namespace = uniqueName('function');
  const started = new Started();
  const observers: Observer<TestProcess>[] = [];
  let cluster: Cluster;
  let random: Random;
  let setting: Setting;
  let port: number;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    random = seededRandom('function-down');
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    const url = await startFunction(0);
    port = Number(new URL(url).port);
    gateway = started.keep(await startGateway(setting, [url]));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  async function startFunction(at: number): Promise<string> {
    const observer = started.keep(await startObserver(setting, configMapsOf(namespace), { port: at }));
    observers.push(observer);
    return observer.url;
  }

  it('gets every change and every deletion once it is back', async () => {
    const changes = new ConfigMapChanges(cluster, namespace, { count: 200, random });
    await changes.createAll();
    await changes.keepChanging(50, async () => {
      await sleep(random.between(1000, 3000));
      await observers[0]?.process.kill('SIGKILL');
      await sleep(DOWN_MS);
      await startFunction(port);
      await sleep(random.between(1000, 2000));
    });
    const endedAt = machineMs();
    await eventually(async () => expect(await changes.unreconciled(...observers)).toEqual([]), 90_000);
    const runs = observers.reduce((total, { count }) => total + count, 0);
    expect(await cachedVersions(setting, cluster, namespace)).toEqual(await servedVersions(cluster, namespace));
    process.stdout.write(
      `function-down: ${changes.acknowledged} changes reconciled ` +
        `${((machineMs() - endedAt) / 1000).toFixed(1)} s after the last one, ${runs} runs\n`,
    );
    // Its connections were refused, and seen as such: nothing ran, so nothing had to be waited for. It was down for
    // less than its start window, so no key has spent an attempt on that.
    const { name } = configMapsOf(namespace);
    const starting = { controller: name, reason: 'starting' };
    expect(await metric(gateway.url, 'levelhook_triggers_not_sent_total', starting)).toBeGreaterThan(0);
    const refused = { controller: name, outcome: 'refused' };
    expect(await metric(gateway.url, 'levelhook_triggers_total', refused)).toBe(0);
    await eventually(async () => expect(await runsOnRecord(setting, cluster, name)).toEqual([]));
  });
});
