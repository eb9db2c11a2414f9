import { controller, isControlledBy, setControllerReference } from 'levelhook/function';
import { ConfigMap } from 'levelhook/function/kinds';

/** Keeps a ConfigMap, NAME-greeting, for every ConfigMap labelled `greet: "true"`: it greets the `name` in its data. */
export const greeting = controller({
  name: 'greeting',
  for: ConfigMap,
  owns: [ConfigMap],
  writes: [{ resource: ConfigMap, verbs: ['create', 'patch'] }],
}).reconcile(async (request, { cache, api }) => {
  const source = await cache.get(ConfigMap, request);
  if (source?.metadata.labels?.['greet'] !== 'true' || source.metadata.deletionTimestamp) return;

  const key = { namespace: source.metadata.namespace ?? '', name: `${source.metadata.name}-greeting` };
  const data = { text: `Hello, ${source.data?.['name'] ?? 'world'}!` };
  const found = await cache.get(ConfigMap, key);
  if (!found) {
    await api.create(ConfigMap, setControllerReference(ConfigMap, source, { metadata: key, data }));
  } else if (!isControlledBy(found, source)) {
    throw new Error(`the ConfigMap ${key.name} belongs to another owner`);
  } else if (found.data?.['text'] !== data.text) {
    await api.patch(ConfigMap, key, { type: 'merge', body: { data } });
  }
});
