import {
  type CacheReader,
  controller,
  createFunctionApp,
  type KubernetesObject,
  type Logger,
  resource,
} from 'levelhook/function';
import { requiredVariable, serveFunction } from 'levelhook/function/node';

/**
 * The function of the dispatch benchmark: the SDK around nothing, so that what is measured is the way to it. With LINES
 * each run reads its object, patches it, and writes so many lines to its log; its result has the last REPORTED lines of
 * all that.
 */
const ConfigMap = resource<KubernetesObject & { data?: Record<string, string> }>('v1', 'ConfigMap');
const object = (name: string): KubernetesObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'default', name, uid: 'u', resourceVersion: '7', labels: { app: 'bench' } },
});
const cache: CacheReader = {
  get: async (_, { name }) => object(name) as never,
  list: async () => ({ items: [], version: '1' }),
  secondsUnchanged: async () => undefined,
};

/** Only what the result takes of the lines is measured. */
const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };

await serveFunction((environment) => {
  const [lines, reported] = [Number(environment['LINES'] ?? 0), Number(environment['REPORTED'] ?? 0)];
  const bench = controller({
    name: 'bench',
    for: ConfigMap,
    writes: [{ resource: ConfigMap, verbs: ['patch'] }],
  }).reconcile(async (key, context) => {
    if (lines === 0) return;
    await context.cache.get(ConfigMap, key);
    await context.api.patch(ConfigMap, key, { type: 'merge', body: { data: { seen: 'yes' } } });
    for (let line = 1; line <= lines; line += 1) context.log.info({ name: key.name, line }, 'looks at its object');
  });
  return createFunctionApp(bench, {
    secrets: [requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS')],
    cache: () => cache,
    api: async ({ path }) => ({ status: 200, body: JSON.stringify(object(path.slice(path.lastIndexOf('/') + 1))) }),
    logLines: reported,
    ...(lines > 0 && { logger: quiet }),
  });
}, process.env);
