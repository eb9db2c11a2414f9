import { Hono } from 'hono';
import { UserError } from '../../core/index.ts';
import type { Controller } from '../controller.ts';
import { logLines, signingSecrets, unsignedReviews } from '../environment.ts';
import { createFunctionApp, type FunctionApp } from '../function-app.ts';
import type { TriggerHandler } from '../trigger-handler.ts';
import { kubeConfigTransport } from './client-node-transport.ts';
import { loadIoredis, serverOf } from './reader-connection.ts';
import { redisCache } from './redis-cache.ts';
import { serveFunction } from './serve.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Serves a controller until SIGTERM or SIGINT, as the main program of a Node process, configured from its environment:
 *
 * ```ts
 * await serveController(greeting);
 * ```
 *
 * - `LEVELHOOK_SIGNING_SECRETS`: required, the gateway's `whsec_...`; two, with a space or a comma, while one is
 *   rotated.
 * - `REDIS_URL`: `redis://host:port`, to read the cache there, with the credentials in the URL or as the user that the
 *   trigger names (`redisCache`). Default: the gateway's cache API.
 * - `KUBECONFIG`: one file that says how to reach the apiserver. Default: `~/.kube/config`, or the pod's service
 *   account.
 * - `HOST`, `PORT`: where to listen; 127.0.0.1 and 8080 by default, port 0 takes a free one.
 * - `TLS_CERT_FILE`, `TLS_KEY_FILE`: PEM files, to serve https. They are read again when they change. Default: http.
 * - `LEVELHOOK_LOG_LINES`: how many of the last log lines of a run its result has (`logLines` of `createFunctionApp`).
 *   Default 20.
 * - `LEVELHOOK_UNSIGNED_REVIEWS`: `true` takes reviews from the apiserver without the gateway, at `/webhooks/NAME`; of
 *   a list of controllers at `/CONTROLLER/webhooks/NAME`. Default `false`.
 *
 * It connects to Redis and the apiserver when a run first needs them. One controller answers at `/`. With a list, each
 * answers at `/NAME`, as the line at the start shows; give the gateway one URL, or one `ReconcileFunction` with a
 * `path`, for each of them. Start and stop are those of `serveFunction`, which also serves an app with a cache or a
 * transport of your own. Administrators of the gateway may take profiles of the process, through requests that are
 * signed with one of the secrets. When a variable is missing or wrong, or the port is in use, it prints one sentence to
 * stderr and exits with 1.
 *
 * @param environment read once. Default: the process's.
 */
export function serveController(
  controllers: Controller | readonly Controller[],
  // oxlint-disable-next-line no-restricted-properties -- it is the main program, whose settings these are
  environment: Environment = process.env,
): Promise<void> {
  return serveFunction((variables) => controllerApp(controllers, variables), environment);
}

/**
 * The app that `serveController` serves. Connects to nothing yet.
 * @throws UserError when a variable is missing or wrong, the list is empty, or two of its controllers have one name.
 */
export function controllerApp(controllers: Controller | readonly Controller[], environment: Environment): FunctionApp {
  const secrets = signingSecrets(environment);
  const settings = { unsignedReviews: unsignedReviews(environment), ...logLines(environment) };
  const redisUrl = environment['REDIS_URL'];
  if (redisUrl) {
    serverOf(redisUrl);
    // Loaded now, so that the first run does not wait for it. A run reports the error, if there is one.
    loadIoredis().catch(() => {});
  }
  const api = kubeConfigTransport(environment['KUBECONFIG'] || undefined);
  const appOf = (controller: Controller): FunctionApp => {
    // One connection for each controller, because each may be a different user in Redis.
    const cache = redisUrl ? { cache: redisCache(redisUrl, { secrets }) } : {};
    return createFunctionApp(controller, { secrets, ...cache, api, ...settings });
  };
  if ('name' in controllers) return appOf(controllers);
  if (controllers.length === 0) throw new UserError('serveController was given no controller');
  const app = new Hono();
  const triggerHandlers = new Map<string, TriggerHandler>();
  for (const controller of controllers) {
    const path = `/${controller.name}`;
    if (triggerHandlers.has(path)) throw new UserError(`two controllers have the name ${controller.name}`);
    const own = appOf(controller);
    app.route(path, own);
    for (const handler of own.triggerHandlers.values()) triggerHandlers.set(path, handler);
  }
  return Object.assign(app, { triggerHandlers });
}
