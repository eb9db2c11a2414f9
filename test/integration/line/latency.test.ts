import { describe, expect } from 'vitest';
import { formatLatency, measureLatency } from '../../harness/latency.ts';
import { configMapsOf, openObserver } from '../../harness/observer.ts';
import { it } from '../../harness/world.ts';

const PER_SECOND = 100;

describe('100 changes a second', () => {
  it('are all reconciled; the time from write to reconcile is printed, not asserted', async ({ world }) => {
    const { cluster, namespace, setting, started } = world;
    const observer = started.keep(await openObserver(setting, configMapsOf(namespace)));
    await world.gateway([observer.url]);
    const options = { objects: 200, perSecond: PER_SECOND, warmUpSeconds: 1, seconds: 5 };
    const latency = await measureLatency(cluster, namespace, observer, options);
    process.stdout.write(`${formatLatency(latency, PER_SECOND)}\n`);
    expect(latency).toMatchObject({ writes: 500, missed: 0 });
  });
});
