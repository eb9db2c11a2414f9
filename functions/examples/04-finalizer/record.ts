import { controller, ensureFinalizer, removeFinalizer } from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';

const FINALIZER = 'example.com/record';

/**
 * Keeps a record in a service outside of the cluster for every ConfigMap labelled `record: "true"`, and removes it
 * before the ConfigMap goes.
 * @param service its URL. `PUT` and `DELETE` of `/records/NAME` may be repeated.
 */
export const records = (service: string) =>
  controller({
    name: 'record',
    for: { resource: ConfigMap, labelSelector: { matchLabels: { record: 'true' } } },
    writes: [{ resource: ConfigMap, verbs: ['patch'] }],
    timeoutSeconds: 30,
  }).reconcile(async (request, { api, cache, signal }) => {
    const found = await cache.get(ConfigMap, request);
    if (!found) return;
    const url = `${service}/records/${found.metadata.namespace}-${found.metadata.name}`;
    if (found.metadata.deletionTimestamp) {
      if (!found.metadata.finalizers?.includes(FINALIZER)) return;
      await ask(url, { method: 'DELETE', signal });
      await removeFinalizer(api, ConfigMap, found, FINALIZER);
      return;
    }
    // The finalizer is written first: if the run ends before the record is made, there is nothing to remove.
    const kept = await ensureFinalizer(api, ConfigMap, found, FINALIZER);
    await ask(url, { method: 'PUT', body: kept.data?.['address'] ?? '', signal });
  });

/** A record that is gone already is gone. */
async function ask(url: string, init: RequestInit): Promise<void> {
  const { ok, status } = await fetch(url, init);
  if (!ok && !(init.method === 'DELETE' && status === 404)) throw new Error(`${init.method} ${url}: ${status}`);
}
