import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { ConfigMapChanges } from '../harness/config-map-changes.ts';
import { CuttingProxy } from '../harness/cutting-proxy.ts';
import { eventually } from '../harness/eventually.ts';
import { createSetting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { ROUNDS, type Sight, sightsOf, startSeer, unfinished } from '../harness/seer.ts';
import { seededRandom } from '../harness/seeded-random.ts';
import { Started } from '../harness/started.ts';
import { type Tampering, TriggerProxy } from '../harness/trigger-proxy.ts';

const PARENTS = 10;
/** 1,000 of each by `npm run soak read-your-writes`: 10,000 runs. */
const RUNS_EACH = Number(process.env['READ_YOUR_WRITES_RUNS'] ?? 30);
/** How much later than the function the gateway hears of a pod. */
const LAG_MS = 50;

describe('what a run has written', () => {
  let started: Started;

  beforeEach(() => {
    started = new Started();
  });

  afterEach(() => started.stop());

  /** Sights of all runs, while other objects change, through a gateway that lags, and how long a round took. */
  async function look(tampering: Tampering, runsEach: number, lagMs = LAG_MS) {
    const namespace = uniqueName('seen');
    const cluster: Cluster = await started.cluster(inject('kubeconfig'), namespace);
    const directory = await started.directory();
    const kubeconfig = inject('kubeconfig');
    const lag = await CuttingProxy.beforeApiserver(kubeconfig, lagMs);
    started.add(() => lag.stop());
    const setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
    const fn = started.keep(await startSeer(setting, namespace));
    const proxy = new TriggerProxy(fn.url, setting.secret);
    await proxy.open();
    started.add(() => proxy.close());
    proxy.tampering = tampering;
    const lagging = { ...setting, kubeconfig: await lag.kubeconfig(kubeconfig, join(directory, 'lagging')) };
    const gateway = started.keep(await startGateway(lagging, [proxy.url], { LEVELHOOK_LOG_TRIGGERS: 'false' }));
    await untilReady(gateway.url);
    const parents = Array.from({ length: PARENTS }, (_, at) => `parent-${at}`);
    const changes = new ConfigMapChanges(cluster, namespace, { count: 20, random: seededRandom('read-your-writes') });
    await changes.createAll();
    let tookMs = 0;
    await changes.keepChanging(20, async () => {
      const startedMs = performance.now();
      for (const name of parents) {
        await cluster.create(configMaps, { metadata: { namespace, name }, data: { [ROUNDS]: String(runsEach) } });
      }
      await eventually(
        async () => expect(unfinished(fn.process, parents, runsEach)).toEqual([]),
        60_000 + PARENTS * runsEach * 100,
        500,
      );
      tookMs = performance.now() - startedMs;
    });
    return { sights: sightsOf(fn.process), roundMs: tookMs / runsEach };
  }

  const timeout = 200_000 + PARENTS * RUNS_EACH * 150;

  it('is in the cache when the next one starts: what it made, and what it deleted', { timeout }, async () => {
    const { sights } = await look('pass', RUNS_EACH);
    expect(sights.filter(({ missed, undead }) => missed || undead)).toEqual([]);
  });

  it('is not in the cache when the next one starts without the barrier', { timeout: 200_000 }, async () => {
    // What was made is missing while a run and a requeue take less than the lag; what was deleted is there while two
    // take more. So the lag follows the time of a round, which is longer on a slow machine.
    const sights: Sight[] = [];
    let lagMs = 100;
    for (const rounds of [1.5, 1, 2]) {
      const { sights: more, roundMs } = await look('forget-writes', 10, lagMs);
      sights.push(...more);
      if (sights.some(({ missed }) => missed) && sights.some(({ undead }) => undead)) return;
      lagMs = Math.round(rounds * roundMs);
    }
    expect(sights.filter(({ missed }) => missed).length).toBeGreaterThan(0);
    expect(sights.filter(({ undead }) => undead).length).toBeGreaterThan(0);
  });
});
