import { controller } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';
import { configMaps } from '../../../harness/cluster.ts';
import { machineMs } from '../../../harness/machine-clock.ts';
import { concurrency, namespace, reportRun, reportStamped, stampPatch } from '../report.ts';

const maxBatch = process.env['BENCH_BATCH'];

/** The function of the levelhook arm, with the SDK's own `maxBatch` unless `BENCH_BATCH` is set. */
await serveController(
  controller({
    name: 'stamper',
    for: configMaps,
    concurrency,
    ...(maxBatch !== undefined && { maxBatch: Number(maxBatch) }),
  }).reconcile(async (request, { cache, api }) => {
    const startedAtMs = machineMs();
    if (request.namespace !== namespace) return;
    const object = await cache.get(configMaps, request);
    if (!object) return;
    const change = reportRun(object, startedAtMs);
    if (change === undefined) return;
    await api.patch(configMaps, request, { type: 'merge', body: stampPatch(change) });
    reportStamped(request.name);
  }),
);
