import { type CacheReader, controller, createFunctionApp, resource } from 'levelhook/function';
import { requiredVariable, serveFunction } from 'levelhook/function/node';

/** The function of the dispatch benchmark: the SDK around nothing, so that what is measured is the way to it. */
const cache: CacheReader = {
  get: async () => undefined,
  list: async () => ({ items: [], version: '1' }),
  secondsUnchanged: async () => undefined,
};

await serveFunction((environment) => {
  const idle = controller({ name: 'bench', for: resource('v1', 'ConfigMap') }).reconcile(async () => {});
  return createFunctionApp(idle, {
    secrets: [requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS')],
    cache: () => cache,
    api: async () => ({ status: 500, body: '' }),
  });
}, process.env);
