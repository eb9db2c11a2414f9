import { controller, createFunctionApp } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, serveFunction } from 'levelhook/function/node';
import { configMaps } from '../../harness/cluster.ts';
import { machineMs } from '../../harness/machine-clock.ts';

/** The annotation in which the stamper repeats `data.change`. */
const STAMP = 'bench.levelhook.dev/change';

/**
 * The function of the line's benchmark: repeats each object's `data.change` in an annotation, with one write for each
 * change. Tells when it has seen `BENCH_OBJECTS` different objects, and when it has stamped as many.
 */
await serveFunction((environment) => {
  const namespace = requiredVariable(environment, 'BENCH_NAMESPACE');
  const objects = Number(requiredVariable(environment, 'BENCH_OBJECTS'));
  const maxBatch = Number(environment['BENCH_BATCH'] ?? 1);
  const seen = new Set<string>();
  const stamped = new Set<string>();
  const note = (names: Set<string>, name: string, msg: string): void => {
    if (names.has(name)) return;
    names.add(name);
    if (names.size === objects) process.stdout.write(`${JSON.stringify({ msg, atMs: machineMs() })}\n`);
  };
  const stamper = controller({ name: 'stamper', for: configMaps, concurrency: 50 * maxBatch, maxBatch }).reconcile(
    async (request, { cache, api }) => {
      if (request.namespace !== namespace || request.name === 'kube-root-ca.crt') return;
      const key = { namespace, name: request.name };
      const object = await cache.get(configMaps, key);
      if (!object) return;
      note(seen, request.name, 'seen all');
      const change = object.data?.['change'];
      if (change === undefined || object.metadata.annotations?.[STAMP] === change) return;
      await api.patch(configMaps, key, { type: 'merge', body: { metadata: { annotations: { [STAMP]: change } } } });
      note(stamped, request.name, 'stamped all');
    },
  );
  return createFunctionApp(stamper, {
    secrets: [requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS')],
    cache: redisCache(requiredVariable(environment, 'REDIS_URL')),
    api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
  });
}, process.env);
