import { controller, type KubernetesObject, resource } from '@levelhook/function';

interface PodTemplate extends KubernetesObject {
  template: { spec: { tolerations: { tolerationSeconds: bigint }[] } };
}
const PodTemplate = resource<PodTemplate>('v1', 'PodTemplate');

/**
 * Writes the integers beyond 2^53 of a PodTemplate to other PodTemplates: as they were read, by each kind of write, and
 * less one. The export has the name of the example's controller, which the entries of a project import.
 */
export const copies = controller({
  name: 'templates',
  for: { resource: PodTemplate, labelSelector: { matchLabels: { 'example.com/templates': 'source' } } },
}).reconcile(async (request, { cache, api }) => {
  const source = await cache.get(PodTemplate, request);
  if (!source) return;
  const { namespace = '', name } = source.metadata;
  const at = (write: string) => ({ namespace, name: `${name}-${write}` });
  const { template } = source;
  if (!(await api.get(PodTemplate, at('created')))) {
    await api.create(PodTemplate, { metadata: at('created'), template });
  }
  await api.apply(PodTemplate, { metadata: at('applied'), template }, { fieldManager: 'templates' });
  const live = await api.get(PodTemplate, at('replaced'));
  if (live) await api.replace(PodTemplate, { ...live, metadata: { ...live.metadata, labels: { replaced: 'true' } } });

  const annotations = {
    added: errorOf(() => template.spec.tolerations.map((each) => (each.tolerationSeconds as unknown as number) + 1)),
    stringified: errorOf(() => JSON.stringify(source)),
  };
  const tolerations = template.spec.tolerations.map((each) => ({
    ...each,
    tolerationSeconds: each.tolerationSeconds - 1n,
  }));
  const body = { metadata: { annotations }, template: { spec: { tolerations } } };
  await api.patch(PodTemplate, at('patched'), { type: 'merge', body });
});

/** The error of code that takes a bigint for a number, or its result. */
function errorOf(compute: () => unknown): string {
  try {
    return String(compute());
  } catch (error) {
    return error instanceof TypeError ? 'TypeError' : String(error);
  }
}
