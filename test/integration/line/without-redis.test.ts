import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Cluster, pods, replicaSet, replicaSets } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, startFunction, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import type { Program } from '../../harness/program.ts';
import { Started } from '../../harness/started.ts';

describe('a function that is given no Redis', () => {
  const started = new Started();
  const namespace = uniqueName('without-redis');
  let cluster: Cluster;
  let setting: Setting;
  let fn: { process: Program; url: string };
  let gateway: { process: Program; url: string };

  beforeAll(async () => {
    const kubeconfig = inject('kubeconfig');
    cluster = await started.cluster(kubeconfig, namespace);
    setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
    fn = started.keep(await startFunction({ ...setting, redisUrl: '' }));
    gateway = started.keep(await openGateway(setting, [fn.url]));
    await untilReady(gateway.url);
  });
  afterAll(() => started.stop());

  const count = async (): Promise<number> => (await cluster.list(pods, namespace)).items.length;

  it('reads from the cache API, with what came in the trigger, and never overshoots', async () => {
    await cluster.create(replicaSets, replicaSet({ namespace, name: 'web' }, 4));
    await eventually(async () => expect(await count()).toBe(4));
    await cluster.patch(replicaSets, { namespace, name: 'web' }, { spec: { replicas: 1 } });
    await eventually(async () => {
      const set = await cluster.get(replicaSets, { namespace, name: 'web' });
      expect([await count(), set?.status?.replicas]).toEqual([1, 1]);
    });
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(metrics).toMatch(/levelhook_cache_requests_total\{verb="get",code="200"\} [1-9]/);
    expect(metrics).toMatch(/levelhook_cache_requests_total\{verb="list",code="200"\} [1-9]/);
  });

  it('its token is in no log', () => {
    for (const output of [fn.process.output, gateway.process.output]) expect(output).not.toMatch(/eyJ[\w-]+\.[\w-]+\./);
  });
});
