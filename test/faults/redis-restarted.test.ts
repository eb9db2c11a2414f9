import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { cachedVersions, metric, runsOnRecord, servedVersions } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { type Random, seededRandom } from '../harness/seeded-random.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

/**
 * With its append-only file, a Redis that is killed loses nothing, and one whose machine stops loses up to a second: an
 * object deleted in it is found missing when the server is read again. In memory alone all is lost, and of an object
 * that was deleted just before nobody knows that it ever was.
 */
describe.each([
  { kept: 'with its append-only file, and then without the last second of it', appendOnly: true },
  { kept: 'empty', appendOnly: false },
])('a Redis killed and restarted $kept while objects change', ({ appendOnly }) => {
  const namespace = uniqueName('redis');
  const started = new Started();
  let directory: string;
  let redis: RedisServer;
  let cluster: Cluster;
  let random: Random;
  let setting: Setting;
  let observer: Observer;
  let gateway: Awaited<ReturnType<typeof startGateway>>;

  beforeAll(async () => {
    random = seededRandom(`redis-restarted, append-only ${appendOnly}`);
    directory = await started.directory();
    redis = await startRedis({ appendOnly, directory, ignoreEnvironment: true });
    started.add(() => redis.stop());
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    observer = started.keep(await startObserver(setting, configMapsOf(namespace)));
    gateway = started.keep(await startGateway(setting, [observer.url]));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  async function appendOnlyFile(): Promise<string> {
    const folder = join(directory, 'appendonlydir');
    const name = (await readdir(folder)).find((each) => each.endsWith('.incr.aof'));
    expect(name).toBeDefined();
    return join(folder, name ?? '');
  }

  async function fileLength(): Promise<number> {
    return (await stat(await appendOnlyFile())).size;
  }

  async function isNotReady(): Promise<void> {
    expect((await fetch(`${gateway.url}/readyz`)).status).toBe(503);
  }

  const held = { namespace, name: 'held' };
  const scope = `key/${namespace}/held`;
  const runsOfHeld = (): number => observer.seen({ key: `${namespace}/held` }).length;
  const change = (verb: 'pause' | 'resume'): Promise<Response> =>
    fetch(`${gateway.url}/queues/${observer.name}/${verb}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ scope }),
    });

  it('loses no change, and the gateway is ready again', { timeout: 180_000 }, async () => {
    const changes = new ConfigMapChanges(cluster, namespace, { count: 200, random, deletions: appendOnly });
    await changes.createAll();
    await cluster.create(configMaps, { metadata: held, data: {} });
    await eventually(async () => expect(runsOfHeld()).toBeGreaterThan(0));
    if (appendOnly) expect((await change('pause')).status).toBe(200);
    const runs = runsOfHeld();
    await changes.keepChanging(50, async () => {
      for (const restart of [1, 2]) {
        await sleep(random.between(0, 2000));
        const length = appendOnly && restart === 2 ? await fileLength() : undefined;
        await sleep(1000);
        await redis.kill('SIGKILL');
        await eventually(isNotReady);
        if (length !== undefined) await truncate(await appendOnlyFile(), length);
        await redis.start();
        await untilReady(gateway.url);
        // Ready means recovered, not only connected.
        expect(await metric(gateway.url, 'levelhook_recoveries_total')).toBeGreaterThanOrEqual(restart + 1);
      }
    });
    const endedAt = machineMs();
    if (appendOnly) await cluster.patch(configMaps, held, { data: { changed: 'while paused' } });
    await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 90_000);
    await eventually(async () =>
      expect(await cachedVersions(setting, cluster, namespace)).toEqual(await servedVersions(cluster, namespace)),
    );
    if (appendOnly) {
      // Recovery queues all keys and ends its own pause, and not the one of a person.
      await eventually(async () => {
        const answer = await fetch(`${gateway.url}/queues/${observer.name}/keys/${namespace}/held`);
        expect(await answer.json()).toMatchObject({ waits: [{ reason: 'paused', by: scope }] });
      });
      expect(runsOfHeld()).toBe(runs);
      await change('resume');
      await eventually(async () => expect(runsOfHeld()).toBeGreaterThan(runs));
    }
    process.stdout.write(
      `redis-restarted, append-only ${appendOnly}: ${changes.acknowledged} changes reconciled ` +
        `${((machineMs() - endedAt) / 1000).toFixed(1)} s after the last one, ${observer.count} runs\n`,
    );
    await eventually(async () => expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]), 10_000);
  });
});
