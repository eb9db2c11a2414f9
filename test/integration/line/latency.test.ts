import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import type { Cluster } from '../../harness/cluster.ts';
import { formatLatency, measureLatency } from '../../harness/latency.ts';
import { createSetting, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { configMapsOf, type Observer, openObserver } from '../../harness/observer.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';

const PER_SECOND = 100;

describe('100 changes a second', () => {
  const namespace = uniqueName('latency');
  const started = new Started();
  let cluster: Cluster;
  let observer: Observer;

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), namespace);
    const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
    observer = started.keep(await openObserver(setting, configMapsOf(namespace)));
    const gateway = started.keep(await openGateway(setting, [observer.url]));
    await untilReady(gateway.url);
  });

  afterAll(() => started.stop());

  it('are all reconciled; the time from write to reconcile is printed, not asserted', async () => {
    const options = { objects: 200, perSecond: PER_SECOND, warmUpSeconds: 1, seconds: 5 };
    const latency = await measureLatency(cluster, namespace, observer, options);
    process.stdout.write(`${formatLatency(latency, PER_SECOND)}\n`);
    expect(latency).toMatchObject({ writes: 500, missed: 0 });
  });
});
