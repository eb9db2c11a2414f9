import { cel, controller } from 'levelhook/function';
import { ConfigMap, Deployment } from 'levelhook/function/kinds';

const NAMES = 'example.com/config';
const HASH = 'example.com/config-hash';

/**
 * Rolls a Deployment when the ConfigMap changes that its annotation `example.com/config` names: the hash of the data
 * becomes an annotation of the pods.
 */
export const configHash = controller({
  name: 'config-hash',
  for: Deployment,
  watches: [
    {
      resource: ConfigMap,
      // The Deployments of its namespace whose annotation has its name: the gateway finds them by index.
      map: { by: 'index', index: `annotation:${NAMES}` },
      predicate: cel('oldObject == null || !has(object.data) || !has(oldObject.data) || object.data != oldObject.data'),
    },
  ],
  writes: [{ resource: Deployment, verbs: ['patch'] }],
}).reconcile(async (request, { api, cache }) => {
  const found = await cache.get(Deployment, request);
  const name = found?.metadata.annotations?.[NAMES];
  if (!found || found.metadata.deletionTimestamp || name === undefined) return;
  const source = await cache.get(ConfigMap, { namespace: found.metadata.namespace ?? '', name });
  // A ConfigMap that comes later wakes the key.
  if (!source) return;
  const hash = await hashOf(source.data ?? {});
  if (found.spec?.template.metadata?.annotations?.[HASH] === hash) return;
  const metadata = { annotations: { [HASH]: hash } };
  await api.patch(Deployment, request, { type: 'merge', body: { spec: { template: { metadata } } } });
});

async function hashOf(data: Readonly<Record<string, string>>): Promise<string> {
  const sorted = Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(sorted)));
  return Buffer.from(bytes).toString('hex').slice(0, 16);
}
