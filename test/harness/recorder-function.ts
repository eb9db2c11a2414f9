import { setTimeout as sleep } from 'node:timers/promises';
import { controller, createFunctionApp } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, serveFunction } from 'levelhook/function/node';
import { configMaps } from './cluster.ts';
import { machineMs } from './machine-clock.ts';
import { RECORDER, type ReconcileRecord } from './recorder.ts';

/** The program of `startRecorder`: a controller over ConfigMaps that does nothing but tell what it was shown. */
await serveFunction((environment) => {
  const delayMs = Number(environment['RECORDER_DELAY_MS'] ?? 0);
  const recorder = controller({
    name: RECORDER,
    for: configMaps,
    concurrency: 10,
    timeoutSeconds: Number(environment['RECORDER_TIMEOUT_SECONDS']),
  }).reconcile(async ({ namespace = '', name, attempt }, { cache, signal }) => {
    const startedAtMs = machineMs();
    // Other tests have ConfigMaps in the shared cluster, and so has Kubernetes itself.
    if (namespace !== environment['RECORDER_NAMESPACE'] || name === 'kube-root-ca.crt') return;
    const object = await cache.get(configMaps, { namespace, name });
    const resourceVersion = object?.metadata.resourceVersion ?? null;
    const record: ReconcileRecord = { msg: 'reconciled', key: name, resourceVersion, startedAtMs, attempt };
    process.stdout.write(`${JSON.stringify(record)}\n`);
    if (delayMs > 0) await sleep(delayMs, undefined, { signal });
  });
  return createFunctionApp(recorder, {
    secrets: requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/\s+/),
    now: () => Date.now() + 1000 * Number(environment['RECORDER_CLOCK_OFFSET_SECONDS'] ?? 0),
    cache: redisCache(requiredVariable(environment, 'REDIS_URL')),
    api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
  });
}, process.env);
