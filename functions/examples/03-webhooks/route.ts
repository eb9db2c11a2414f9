import { controller, generationChanged, setStatusCondition } from 'levelhook/function';
import { Route } from './kinds.ts';
import { defaults, hosts, versions } from './webhooks.ts';

/** Writes the URL of each Route. If several Routes have the same host, only the oldest gets it. */
export const route = controller({
  name: 'route',
  for: { resource: Route, predicate: generationChanged },
  watches: [{ resource: Route, map: { by: 'related' } }],
  writes: [{ resource: Route, subresource: 'status', verbs: ['update'] }],
  indexes: [{ resource: Route, index: 'field:spec.host' }],
  webhooks: [hosts, defaults, versions],
}).reconcile(async (request, { cache, api, related }) => {
  const found = await cache.get(Route, request);
  if (!found || found.metadata.deletionTimestamp) return;
  const { host, port = 443 } = found.spec;
  // The webhook may have allowed two at the same time, because its cache is a little behind.
  const { items } = await cache.list(Route, { index: { spec: 'field:spec.host', value: host } });
  const [oldest = found] = items.toSorted((a, b) => (age(a) < age(b) ? -1 : 1));
  const isOwn = oldest.metadata.uid === found.metadata.uid;
  // The next one gets the host when the oldest is deleted, or takes another host.
  const { namespace = '', name } = oldest.metadata;
  related(isOwn ? [] : [{ resource: Route, namespace, names: [name] }]);

  const { generation: observedGeneration = 0 } = found.metadata;
  const before = found.status?.conditions;
  const conditions = setStatusCondition(before, {
    type: 'Ready',
    status: isOwn ? 'True' : 'False',
    reason: isOwn ? 'HostIsOwn' : 'HostTaken',
    message: isOwn ? '' : `${oldest.metadata.namespace}/${oldest.metadata.name} has the host ${host}`,
    observedGeneration,
  });
  const url = isOwn ? `https://${host}:${port}` : undefined;
  if (conditions === before && url === found.status?.url) return;
  await api.replace(Route, { ...found, status: { conditions, ...(url && { url }) } }, 'status');
});

/** Two Routes of the same second are ordered by UID. */
function age({ metadata: { creationTimestamp = '', uid } }: Route): string {
  return `${creationTimestamp} ${uid}`;
}
