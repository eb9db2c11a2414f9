import { controller, type KubernetesObject, resource } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';
import { conversionWebhook, deny, mutatingWebhook, validatingWebhook } from 'levelhook/function/webhooks';

/** Integers of 64 bits: a bigint beyond those of JavaScript. */
type Counts = Record<string, number | bigint>;
interface Gauge extends KubernetesObject {
  spec: { size?: number; title?: string; replicas?: number; notes?: Record<string, string>; counts?: Counts };
  status?: { phase?: string };
}
interface OldGauge extends KubernetesObject {
  spec: { size?: string; title?: string; replicas?: number; counts?: Counts };
  status?: { phase?: string };
}
interface Scale extends KubernetesObject {
  spec: { replicas?: number };
}
const GROUP = 'direct.example.com';
const Gauge = resource<Gauge>(`${GROUP}/v2`, 'Gauge');
const OldGauge = resource<OldGauge>(`${GROUP}/v1`, 'Gauge');

/** Answers the reviews of Gauges that an apiserver sends without a gateway. Their titles say how. */
await serveController(
  controller({
    name: 'direct',
    for: Gauge,
    webhooks: [
      validatingWebhook({ name: 'sizes', for: Gauge, operations: ['CREATE', 'UPDATE', 'DELETE'] }).validate(
        async ({ operation, object, oldObject, dryRun }, { api, warn, cache, signal }) => {
          const { size = 0, title } = object.spec;
          if (dryRun) warn('a dry run');
          if (operation === 'DELETE') return title === 'kept' ? deny('it is kept') : undefined;
          if (title === 'broken') throw new Error('hush: a password');
          if (title === 'cached') await cache.list(Gauge);
          if (title === 'slow') await new Promise((resolve) => signal.addEventListener('abort', resolve));
          if (title === 'live')
            warn(`${(await api.list(Gauge, { namespace: object.metadata.namespace ?? '' })).items.length} live`);
          if (size > 100) return deny('it is too large', { causes: [{ field: 'spec.size', message: 'over 100' }] });
          if (oldObject && size < (oldObject.spec.size ?? 0)) return deny('it cannot shrink');
        },
      ),
      validatingWebhook<Gauge, Scale>({
        name: 'scales',
        for: Gauge,
        operations: ['UPDATE'],
        subresources: ['scale'],
      }).validate(({ object }) => ((object.spec.replicas ?? 0) > 5 ? deny('five at most') : undefined)),
      validatingWebhook({ name: 'statuses', for: Gauge, operations: ['UPDATE'], subresources: ['status'] }).validate(
        ({ object }) => (object.status?.phase === 'Wrong' ? deny('no such phase') : undefined),
      ),
      mutatingWebhook({ name: 'defaults', for: Gauge }).mutate((gauge) => {
        gauge.spec.size ??= 1;
        gauge.metadata.labels = { ...gauge.metadata.labels, 'direct.example.com/seen': 'true' };
        if (gauge.spec.title === 'escaped') gauge.spec.notes = { ...gauge.spec.notes, 'a/b~c': 'ä€😀' };
        if (gauge.spec.title === 'copied') {
          const copies = Object.entries(gauge.spec.counts ?? {}).map(([name, count]) => [`${name}-copy`, count]);
          gauge.spec.counts = { ...gauge.spec.counts, ...(Object.fromEntries(copies) as Counts) };
        }
      }),
      conversionWebhook({ name: 'versions', hub: Gauge }).spoke(OldGauge, {
        toHub: ({ spec: { size, ...spec }, status }) => {
          if (size !== undefined && !/^\d+$/.test(size)) throw new Error('the size is no number');
          return { spec: { ...spec, ...(size !== undefined && { size: Number(size) }) }, ...(status && { status }) };
        },
        fromHub: ({ spec: { size, ...spec }, status }) => ({
          spec: { ...spec, ...(size !== undefined && { size: String(size) }) },
          ...(status && { status }),
        }),
      }),
    ],
  }).reconcile(async () => {}),
);
