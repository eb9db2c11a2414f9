import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type KubernetesObject, resource } from '../../src/core/index.ts';
import type { LeaseSpec } from '../../src/gateway/manager/lease.ts';
import { type ControlPlane, startControlPlane } from '../../src/testing/index.ts';
import { untilCacheEqualsServer } from '../harness/cache-equals-server.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { eventually } from '../harness/eventually.ts';
import { metric, runsOnRecord } from '../harness/gateway-view.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { SentinelSet } from '../harness/redis-process.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';

const leases = resource<KubernetesObject & { spec?: LeaseSpec }>('coordination.k8s.io/v1', 'Lease');
/** `REDIS_SENTINEL_LAG=1`: also with one gateway, and the next master lacks the last writes. */
const lags = process.env['REDIS_SENTINEL_LAG'] === '1';
/** Runs take longer than a failover: those in flight, which the new master may not know, must not be met by others. */
const RUN_MS = lags ? 6000 : 3000;
const TIMEOUT_SECONDS = lags ? 10 : 6;
const CONCURRENCY = 50;

describe('a Redis that Sentinels fail over while objects change', () => {
  const random = seededRandom('redis-sentinel');
  const planes = new Started();
  /** Its own: nothing else changes ConfigMaps while cache and server are compared. */
  let plane: ControlPlane;

  beforeAll(async () => {
    plane = await startControlPlane();
    planes.add(() => plane.stop());
  });

  afterAll(() => planes.stop());

  describe.for(lags ? [1, 3] : [3])('with %i gateways', (count) => {
    const namespace = uniqueName('sentinel');
    const lease = { namespace, name: 'levelhook' };
    const started = new Started();
    let redis: SentinelSet;
    let cluster: Cluster;
    let setting: Setting;
    let observer: Observer;
    const gateways: Listening[] = [];

    beforeAll(async () => {
      redis = await SentinelSet.start(started);
      cluster = await started.cluster(plane.kubeconfig, namespace);
      setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
      // Reads through the gateway.
      const variables = { REDIS_URL: '' };
      const spec = {
        ...configMapsOf(namespace),
        concurrency: CONCURRENCY,
        delayMs: RUN_MS,
        timeoutSeconds: TIMEOUT_SECONDS,
      };
      observer = started.keep(await startObserver(setting, spec, { variables }));
      const election = count > 1 ? { LEVELHOOK_LEASE: `${lease.namespace}/${lease.name}` } : {};
      for (let at = 0; at < count; at += 1) {
        const gateway = started.keep(await startGateway(setting, [observer.url], election));
        await untilReady(gateway.url);
        gateways.push(gateway);
      }
    });

    afterAll(() => started.stop());

    async function sum(name: string): Promise<number> {
      const counts = await Promise.all(gateways.map(({ url }) => metric(url, name)));
      return counts.reduce((total, each) => total + each, 0);
    }

    /** At a random moment. Until the data is repaired, and each gateway runs keys on the new master. */
    async function failOver(fault: () => Promise<void>): Promise<void> {
      await sleep(random.below(2000));
      const before = await sum('levelhook_recoveries_total');
      await fault();
      await eventually(async () => expect(await sum('levelhook_recoveries_total')).toBeGreaterThan(before), 60_000);
      for (const { url } of gateways) await untilReady(url);
    }

    it('loses no change: the master is killed, and later the next one freezes', { timeout: 240_000 }, async () => {
      const changes = new ConfigMapChanges(cluster, namespace, { count: 100, random });
      await changes.createAll();
      await changes.keepChanging(50, async () => {
        await failOver(async () => {
          // The next master lacks the starts of these runs.
          if (lags) await redis.master.loseReplicas(started);
          const known = observer.count;
          await eventually(async () => expect(observer.count).toBeGreaterThan(known + 5), 20_000, 20);
          await redis.master.kill('SIGKILL');
          await redis.replica.until('master', started);
        });
        await redis.master.startAgain();
        await redis.master.until('replica', started);
        await failOver(async () => {
          await redis.replica.kill('SIGSTOP');
          await redis.master.until('master', started);
        });
        // It comes back as a master that nobody has told yet.
        await redis.replica.kill('SIGCONT');
        await redis.replica.until('replica', started);
      });
      const endedAt = machineMs();
      await eventually(async () => expect(await changes.unreconciled(observer)).toEqual([]), 90_000);
      process.stdout.write(
        `redis-sentinel: ${changes.acknowledged} changes reconciled ` +
          `${((machineMs() - endedAt) / 1000).toFixed(1)} s after the last one, ${observer.count} runs, ` +
          `${await sum('levelhook_stale_outcomes_total')} of them unknown to the next master\n`,
      );
      // Otherwise the overlaps below would show less. A gateway alone puts its runs back on record.
      if (lags && count > 1) expect(await sum('levelhook_stale_outcomes_total')).toBeGreaterThan(0);
      const onMaster = { ...setting, redisUrl: `redis://127.0.0.1:${redis.master.port}` };
      await untilCacheEqualsServer(onMaster, cluster, [{ resource: configMaps }]);
      expect(observer.overlaps).toEqual([]);
      // The new master may lack the last writes, so the leader lists once; the others never do.
      expect(await sum('levelhook_reflector_lists_total')).toBeLessThanOrEqual(await sum('levelhook_recoveries_total'));
      await eventually(async () => expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]), 30_000);
      for (const { url } of gateways) await untilIdle(url);
      for (const { process } of gateways) {
        expect(process.output).not.toContain('[ioredis]');
        expect(await process.kill('SIGTERM')).toBe(0);
      }
      if (count > 1) expect((await cluster.get(leases, lease))?.spec?.holderIdentity ?? '').toBe('');
    });
  });
});
