import { startControlPlane, startRedis } from '../../src/testing/index.ts';
import { formatLatency, measureLatency } from '../harness/latency.ts';
import { createSetting, startGateway, uniqueName, untilReady } from '../harness/levelhook.ts';
import { configMapsOf, startObserver } from '../harness/observer.ts';
import { Started } from '../harness/started.ts';

/**
 * From the acknowledged write of an object to the start of its reconcile in the function, at 100 changes a second, with
 * everything on this machine: `node --conditions=levelhook-source test/bench/latency.ts`.
 */
const PER_SECOND = 100;

const started = new Started();
try {
  const onProgress = (line: string): boolean => process.stderr.write(`${line}\n`);
  const redis = await startRedis({ onProgress, ignoreEnvironment: true });
  started.add(() => redis.stop());
  const plane = await startControlPlane({ onProgress });
  started.add(() => plane.stop());
  const namespace = uniqueName('latency');
  const cluster = await started.cluster(plane.kubeconfig, namespace);
  const setting = createSetting({ kubeconfig: plane.kubeconfig, redisUrl: redis.url });
  const observer = started.keep(await startObserver(setting, configMapsOf(namespace)));
  // As it is deployed: without a log line for each trigger.
  const gateway = started.keep(await startGateway(setting, [observer.url], { LEVELHOOK_LOG_TRIGGERS: 'false' }));
  await untilReady(gateway.url);
  const options = { objects: 200, perSecond: PER_SECOND, warmUpSeconds: 5, seconds: 10 };
  const latency = await measureLatency(cluster, namespace, observer, options);
  console.log(formatLatency(latency, PER_SECOND));
  if (latency.missed > 0) process.exitCode = 1;
} finally {
  await started.stop();
}
