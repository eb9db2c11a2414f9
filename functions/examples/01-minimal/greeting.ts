import { controller, controllerReference, isControlledBy, type KubernetesObject, resource } from 'levelhook/function';

type ConfigMap = KubernetesObject & { data?: Record<string, string> };
const ConfigMap = resource<ConfigMap>('v1', 'ConfigMap');

/** For every ConfigMap labelled `greet: "true"` a second one, NAME-greeting, that greets whom the first one names. */
export const greeting = controller({ name: 'greeting', for: ConfigMap, owns: [ConfigMap] }).reconcile(
  async (request, { cache, api }) => {
    const source = await cache.get(ConfigMap, request);
    if (source?.metadata.labels?.['greet'] !== 'true' || source.metadata.deletionTimestamp) return;

    const key = { namespace: source.metadata.namespace ?? '', name: `${source.metadata.name}-greeting` };
    const data = { text: `Hello, ${source.data?.['name'] ?? 'world'}!` };
    const found = await cache.get(ConfigMap, key);
    if (!found) {
      const ownerReferences = [controllerReference(ConfigMap, source)];
      await api.create(ConfigMap, { metadata: { ...key, ownerReferences }, data });
    } else if (!isControlledBy(found, source)) {
      throw new Error(`the ConfigMap ${key.name} belongs to another owner`);
    } else if (found.data?.['text'] !== data.text) {
      await api.patch(ConfigMap, key, { type: 'merge', body: { data } });
    }
  },
);
