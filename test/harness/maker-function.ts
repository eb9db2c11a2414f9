import { controller, controllerReference, createFunctionApp, resource } from 'levelhook/function';
import { requiredVariable, serveFunction } from 'levelhook/function/node';
import { configMaps } from './cluster.ts';

const serviceAccounts = resource('v1', 'ServiceAccount');

/**
 * A function without credentials of its own that makes one ServiceAccount for each ConfigMap, unless the cache shows
 * one. It never deletes: one too many stays.
 */
await serveFunction((environment) => {
  const maker = controller({ name: 'maker', for: configMaps, owns: [serviceAccounts], timeoutSeconds: 10 }).reconcile(
    async ({ namespace = '', name }, { cache, api }) => {
      const parent = await cache.get(configMaps, { namespace, name });
      if (!parent) return;
      const { items } = await cache.list(serviceAccounts, { controlledBy: parent });
      if (items.length > 0) return;
      const ownerReferences = [controllerReference(configMaps, parent)];
      await api.create(serviceAccounts, { metadata: { namespace, generateName: `${name}-`, ownerReferences } });
    },
  );
  return createFunctionApp(maker, { secrets: [requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS')] });
}, process.env);
