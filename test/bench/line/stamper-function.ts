import { controller } from 'levelhook/function';
import { requiredVariable, serveController } from 'levelhook/function/node';
import { configMaps } from '../../harness/cluster.ts';
import { machineMs } from '../../harness/machine-clock.ts';

/** The annotation in which the stamper repeats `data.change`. */
const STAMP = 'bench.levelhook.dev/change';

const namespace = requiredVariable(process.env, 'BENCH_NAMESPACE');
const objects = Number(requiredVariable(process.env, 'BENCH_OBJECTS'));
const maxBatch = Number(process.env['BENCH_BATCH'] ?? 1);
const seen = new Set<string>();
const stamped = new Set<string>();
const note = (names: Set<string>, name: string, msg: string): void => {
  if (names.has(name)) return;
  names.add(name);
  if (names.size === objects) process.stdout.write(`${JSON.stringify({ msg, atMs: machineMs() })}\n`);
};

/**
 * The function of the line's benchmark: repeats each object's `data.change` in an annotation, with one write for each
 * change. Tells when it has seen `BENCH_OBJECTS` different objects, and when it has stamped as many.
 */
await serveController(
  controller({ name: 'stamper', for: configMaps, concurrency: 50 * maxBatch, maxBatch }).reconcile(
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
  ),
);
