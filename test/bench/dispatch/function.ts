import { type CacheReader, controller, createFunctionApp, type Logger, resource } from 'levelhook/function';
import { requiredVariable, serveFunction } from 'levelhook/function/node';

/**
 * The function of the dispatch benchmark: the SDK around nothing, so that what is measured is the way to it. With LINES
 * each run writes so many lines to its log, of which the result has REPORTED.
 */
const cache: CacheReader = {
  get: async () => undefined,
  list: async () => ({ items: [], version: '1' }),
  secondsUnchanged: async () => undefined,
};

/** Only what the result takes of the lines is measured. */
const quiet: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };

await serveFunction((environment) => {
  const [lines, reported] = [Number(environment['LINES'] ?? 0), Number(environment['REPORTED'] ?? 0)];
  const idle = controller({ name: 'bench', for: resource('v1', 'ConfigMap') }).reconcile(async ({ name }, context) => {
    for (let line = 1; line <= lines; line += 1) context.log.info({ name, line }, 'looks at its object');
  });
  return createFunctionApp(idle, {
    secrets: [requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS')],
    cache: () => cache,
    api: async () => ({ status: 500, body: '' }),
    logLines: reported,
    ...(lines > 0 && { logger: quiet }),
  });
}, process.env);
