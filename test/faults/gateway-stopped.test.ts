import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { metric, runsOnRecord } from '../harness/gateway-view.ts';
import { createSetting, type Setting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { configMapsOf, type Observer, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

const DRAIN_SECONDS = 10;
const RUN_MS = 1500;
const NAMES = Array.from({ length: 30 }, (_, at) => `cm-${at}`);

describe('a gateway stopped with SIGTERM during runs', () => {
  const namespace = uniqueName('stopped');
  const keys = NAMES.map((name) => `${namespace}/${name}`);
  const started = new Started();
  let cluster: Cluster;
  let setting: Setting;
  let observer: Observer;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    observer = started.keep(await startObserver(setting, { ...configMapsOf(namespace), delayMs: RUN_MS }));
  });

  afterAll(() => started.stop());

  async function start(variables = {}): Promise<Awaited<ReturnType<typeof startGateway>>> {
    const gateway = started.keep(
      await startGateway(setting, [observer.url], { LEVELHOOK_DRAIN_SECONDS: String(DRAIN_SECONDS), ...variables }),
    );
    await untilReady(gateway.url);
    return gateway;
  }

  it('lets them end, records their outcomes, and the next one does the rest', { timeout: 90_000 }, async () => {
    const gateway = await start();
    for (const name of NAMES) await cluster.create(configMaps, { metadata: { namespace, name } });
    await eventually(async () => expect(await runsOnRecord(setting, cluster, observer.name)).toHaveLength(10));

    const stoppedAt = machineMs();
    expect(await gateway.process.kill('SIGTERM')).toBe(0);
    expect(machineMs() - stoppedAt).toBeLessThan(DRAIN_SECONDS * 1000);

    expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]);
    const begun = observer.seen().map(({ key }) => key);
    const recorded = gateway.process.lines
      .filter(({ msg, outcome }) => msg === 'trigger' && outcome === 'done')
      .map(({ key }) => String(key))
      .filter((key) => keys.includes(key));
    expect(begun.length).toBeLessThan(NAMES.length);
    expect(recorded.toSorted()).toEqual(begun.toSorted());

    const next = await start();
    await eventually(async () => {
      expect(observer.keys()).toEqual(keys.toSorted());
      expect(await runsOnRecord(setting, cluster, observer.name)).toEqual([]);
    });
    expect(await metric(next.url, 'levelhook_lost_outcomes_total')).toBe(0);
    // None was run twice: what had ended was not forgotten.
    expect(observer.seen()).toHaveLength(NAMES.length);
    expect(await next.process.kill('SIGTERM')).toBe(0);
  });
});
