import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { Cluster, configMaps } from '../harness/cluster.ts';
import { formatLatency, measureLatency } from '../harness/latency.ts';
import {
  createSetting,
  startFunctionProcess,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import { machineMs } from '../harness/machine-clock.ts';
import { configMapsOf, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

/**
 * The whole line, with everything on this machine: 10,000 ConfigMaps of 2 KB
 * reconciled once after a start, then the time from write to reconcile at 100 changes a second, then 10,000 changes
 * with a write each. `npm run bench line`; `BENCH_OBJECTS` makes it smaller, `BENCH_BATCH` lets the function take so
 * many keys at a time.
 */
const OBJECTS = Number(process.env['BENCH_OBJECTS'] ?? 10_000);
const WRITERS = 32;
const PAYLOAD = 'x'.repeat(1800);

const started = new Started();
try {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  const redis = await startRedis({ onProgress, ignoreEnvironment: true });
  started.add(() => redis.stop());
  const plane = await startControlPlane({ onProgress });
  started.add(() => plane.stop());
  const cluster = await Cluster.connect(plane.kubeconfig);
  started.add(() => cluster.close());
  const namespace = uniqueName('line');
  await cluster.createNamespace(namespace);
  const name = (at: number): string => `object-${at}`;
  await inParallel((at) =>
    cluster.create(configMaps, { metadata: { namespace, name: name(at) }, data: { payload: PAYLOAD } }),
  );

  // As it is deployed: without a log line for each trigger.
  const variables = { LEVELHOOK_LOG_TRIGGERS: 'false' };
  const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
  const stamper = started.keep(
    await startFunctionProcess(setting, 'test/bench/line/stamper-function.ts', {
      variables: {
        BENCH_NAMESPACE: namespace,
        BENCH_OBJECTS: `${OBJECTS}`,
        BENCH_BATCH: process.env['BENCH_BATCH'] ?? '1',
      },
    }),
  );
  const startedAtMs = machineMs();
  const gateway = started.keep(await startGateway(setting, [stamper.url], variables));
  console.log(
    `reconciled ${OBJECTS} objects ${await secondsUntil('seen all', startedAtMs)} s after the gateway's start`,
  );

  const changedFromMs = machineMs();
  await inParallel((at) => cluster.patch(configMaps, { namespace, name: name(at) }, { data: { change: '1' } }));
  const writtenMs = machineMs() - changedFromMs;
  console.log(
    `${OBJECTS} changes with a write each: converged after ${await secondsUntil('stamped all', changedFromMs)} s ` +
      `(the changes themselves took ${(writtenMs / 1000).toFixed(2)} s)`,
  );
  await gateway.process.kill('SIGTERM');

  // Another queue beside the same 10,000 objects.
  const other = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
  const quiet = uniqueName('latency');
  await cluster.createNamespace(quiet);
  const observer = started.keep(await startObserver(other, configMapsOf(quiet)));
  const second = started.keep(await startGateway(other, [observer.url], variables));
  await untilReady(second.url);
  // Its first runs, of all objects, are not what is measured.
  await untilIdle(second.url, 300_000);
  const options = { objects: 200, perSecond: 100, warmUpSeconds: 5, seconds: 10 };
  console.log(formatLatency(await measureLatency(cluster, quiet, observer, options), options.perSecond));

  async function secondsUntil(msg: string, sinceMs: number): Promise<string> {
    const line = await stamper.process.line((each) => each['msg'] === msg);
    return ((Number(line['atMs']) - sinceMs) / 1000).toFixed(2);
  }
} finally {
  await started.stop();
}

async function inParallel(write: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < OBJECTS; at = next++) await write(at);
  };
  await Promise.all(Array.from({ length: WRITERS }, work));
}
