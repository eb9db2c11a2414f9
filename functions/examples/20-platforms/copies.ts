import { controller, controllerReference, equal, type KubernetesObject, resource } from '@levelhook/function';

type ConfigMap = KubernetesObject & { data?: Record<string, string> };
const ConfigMap = resource<ConfigMap>('v1', 'ConfigMap');

const LABEL = 'example.com/copies';
/** The most copies of one ConfigMap. */
const MOST = 100;

/**
 * Makes for every ConfigMap with the label `example.com/copies: "3"` that number of copies of its data, with names from
 * the apiserver. It counts the copies in the cache, so it makes too many if a run does not see the previous run's
 * copies.
 */
export const copies = controller({
  name: 'copies',
  for: { resource: ConfigMap, labelSelector: { matchExpressions: [{ key: LABEL, operator: 'Exists' }] } },
  owns: [ConfigMap],
  writes: [{ resource: ConfigMap, verbs: ['create', 'update', 'delete'] }],
  concurrency: 10,
  timeoutSeconds: 5,
}).reconcile(async (request, { cache, api }) => {
  const source = await cache.get(ConfigMap, request);
  const wanted = Number(source?.metadata.labels?.[LABEL]);
  if (!source || !Number.isInteger(wanted) || source.metadata.deletionTimestamp) return;

  const { namespace = '', name } = source.metadata;
  const data = source.data ?? {};
  const { items } = await cache.list(ConfigMap, { controlledBy: source });
  const kept = items.slice(0, Math.min(wanted, MOST));
  for (const { metadata } of items.slice(kept.length)) await api.delete(ConfigMap, metadata);
  for (const copy of kept) {
    if (!equal(copy.data ?? {}, data)) await api.replace(ConfigMap, { ...copy, data });
  }
  const ownerReferences = [controllerReference(ConfigMap, source)];
  for (let at = kept.length; at < Math.min(wanted, MOST); at += 1) {
    await api.create(ConfigMap, { metadata: { namespace, generateName: `${name}-`, ownerReferences }, data });
  }
});
