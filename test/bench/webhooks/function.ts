import { controller } from 'levelhook/function';
import { serveController } from 'levelhook/function/node';
import { deny, validatingWebhook } from 'levelhook/function/webhooks';
import type { KubernetesObject } from '../../../src/core/index.ts';
import { resource } from '../../../src/core/index.ts';

const configMaps = resource<KubernetesObject & { data?: Record<string, string> }>('v1', 'ConfigMap');

/** Refuses a ConfigMap without data.change, as the operator of the benchmark does. */
const changes = validatingWebhook({ name: 'changes', for: configMaps }).validate(async ({ object }) => {
  return object.data?.['change'] ? undefined : deny('data.change must not be empty');
});

/** Reconciles nothing: no ConfigMap of the benchmark is stored. */
await serveController(controller({ name: 'reviewer', for: configMaps, webhooks: [changes] }).reconcile(async () => {}));
