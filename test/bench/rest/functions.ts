import { Hono } from 'hono';
import { controller, createFunctionApp, resource } from 'levelhook/function';
import { requiredVariable, serveFunction } from 'levelhook/function/node';

const configMaps = resource('v1', 'ConfigMap');
/** By the name of the function. */
const requests: Record<string, number> = {};
const runs: Record<string, number> = {};

/**
 * Many functions in one process, each at its name: `FUNCTIONS` has a list of `{ name, secret }`. `GET /counts` says how
 * many requests and runs each of them has had.
 */
await serveFunction((environment) => {
  const app = new Hono();
  app.get('/counts', (context) => context.json({ requests, runs }));
  app.use('/:name', async (context, next) => {
    const name = context.req.param('name');
    requests[name] = (requests[name] ?? 0) + 1;
    await next();
  });
  const functions = JSON.parse(requiredVariable(environment, 'FUNCTIONS')) as { name: string; secret: string }[];
  for (const { name, secret } of functions) {
    const counting = controller({ name, for: configMaps }).reconcile(async () => {
      runs[name] = (runs[name] ?? 0) + 1;
    });
    app.route(`/${name}`, createFunctionApp(counting, { secrets: [secret] }));
  }
  return app;
}, process.env);
