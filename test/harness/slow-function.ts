import { controller, createFunctionApp, resource } from 'levelhook/function';
import { requiredVariable, serveFunction } from 'levelhook/function/node';

/** A function that ends the run of the key `fast` at once, and no other. */
await serveFunction((environment) => {
  const slow = controller({ name: 'slow', for: resource('v1', 'ConfigMap'), concurrency: 10 }).reconcile(
    async ({ name }) => {
      if (name !== 'fast') await new Promise(() => {});
    },
  );
  return createFunctionApp(slow, {
    secrets: [requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS')],
    api: async () => ({ status: 500, body: '' }),
  });
}, process.env);
