import { setTimeout as sleep } from 'node:timers/promises';
import { controller, controllerReference, type KubernetesObject, resource } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';
import { configMaps } from './cluster.ts';
import { REPLICAS, SCALER, SCALER_TIMEOUT_SECONDS } from './scaler.ts';

const pods = resource<KubernetesObject & { spec: object }>('v1', 'Pod');

const pauseMs = Number(process.env['SCALER_PAUSE_MS']);

/**
 * The program of `startScaler`: a ReplicaSet's creating half in its plainest form. It counts the pods in the cache and
 * makes those that are missing, one after the other, with names that the apiserver chooses. It never deletes: a pod too
 * many stays. It tells of each that was acknowledged.
 */
await serveController(
  controller({
    name: SCALER,
    for: configMaps,
    owns: [pods],
    concurrency: 5,
    timeoutSeconds: SCALER_TIMEOUT_SECONDS,
  }).reconcile(async ({ namespace = '', name }, { cache, api }) => {
    if (namespace !== process.env['SCALER_NAMESPACE']) return;
    const parent = await cache.get(configMaps, { namespace, name });
    const wanted = Number(parent?.data?.[REPLICAS] ?? 0);
    if (!parent || wanted === 0) return;
    const { items } = await cache.list(pods, { controlledBy: parent });
    const ownerReferences = [controllerReference(configMaps, parent)];
    const metadata = { namespace, generateName: `${name}-`, labels: { app: name }, ownerReferences };
    const spec = { containers: [{ name: 'main', image: 'pause' }] };
    for (let at = items.length; at < wanted; at += 1) {
      await api.create(pods, { metadata, spec });
      process.stdout.write(`${JSON.stringify({ msg: 'created', parent: name, count: at + 1 })}\n`);
      if (pauseMs > 0) await sleep(pauseMs);
    }
  }),
);
