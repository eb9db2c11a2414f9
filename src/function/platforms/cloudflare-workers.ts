/** A controller as a Cloudflare Worker. A separate entry, as for each platform. */
import type { Controller } from '../controller.ts';
import { type Variables, environmentApp } from '../environment.ts';
import type { FunctionApp } from '../function-app.ts';

/** The default export of a Worker's main module. */
export interface Worker {
  fetch(request: Request, bindings: Variables): Response | Promise<Response>;
}

/**
 * Makes a Worker of a controller, configured from its bindings:
 *
 * ```ts
 * export default createWorker(greeting);
 * ```
 *
 * - `LEVELHOOK_SIGNING_SECRETS` and `KUBE_TOKEN`: secrets (`wrangler secret put`).
 * - `KUBE_SERVER`: a variable. The apiserver needs a certificate of a well-known authority, because the `fetch` of a
 *   Worker trusts no other.
 *
 * Bindings are read at the first request, because a Worker has none before. If a binding is missing, requests fail, and
 * the Worker's log names it.
 */
export function createWorker(controller: Controller): Worker {
  let app: FunctionApp | undefined;
  return { fetch: (request, bindings) => (app ??= environmentApp(controller, bindings)).fetch(request, bindings) };
}
