import { controller, type KubernetesObject, resource } from '@levelhook/function';
import { conversionWebhook, deny, mutatingWebhook, validatingWebhook } from '@levelhook/function/webhooks';

/** Integers of 64 bits: a bigint beyond those of JavaScript. */
type Counts = Record<string, number | bigint>;
interface Meter extends KubernetesObject {
  spec: { title?: string; counts: Counts; copied?: Counts };
}
interface OldMeter extends KubernetesObject {
  spec: { title?: string; readings: Counts };
}
const Meter = resource<Meter>('platforms.example.com/v2', 'Meter');
const OldMeter = resource<OldMeter>('platforms.example.com/v1', 'Meter');

/** Answers reviews of Meters. The export has the name of the example's controller, as in `templates.ts`. */
export const copies = controller({
  name: 'reviews',
  for: Meter,
  webhooks: [
    validatingWebhook({ name: 'limits', for: Meter }).validate(({ object }) =>
      deny(
        Object.entries(object.spec.counts)
          .map(([name, count]) => `${name}: ${typeof count} ${count}`)
          .join(', '),
      ),
    ),
    mutatingWebhook({ name: 'titles', for: Meter }).mutate((meter) => {
      meter.spec.title = 'changed';
    }),
    mutatingWebhook({ name: 'copies', for: Meter }).mutate((meter) => {
      meter.spec.copied = meter.spec.counts;
    }),
    conversionWebhook({ name: 'versions', hub: Meter }).spoke(OldMeter, {
      toHub: ({ spec: { readings, ...spec } }) => ({ spec: { ...spec, counts: readings } }),
      fromHub: ({ spec: { counts, ...spec } }) => ({ spec: { ...spec, readings: counts } }),
    }),
  ],
}).reconcile(async () => {});
