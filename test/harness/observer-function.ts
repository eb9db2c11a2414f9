import { controller, createFunctionApp, type Resource } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, serveFunction } from 'levelhook/function/node';
import type { Observation, ObserverSpec } from './observer.ts';

/** The program of `startObserver`: a controller over any kind that does nothing but tell what it was shown. */
await serveFunction((environment) => {
  const spec = JSON.parse(requiredVariable(environment, 'OBSERVER')) as ObserverSpec;
  const kind: Resource = 'resource' in spec.for ? spec.for.resource : spec.for;
  const observer = controller({ timeoutSeconds: 1, concurrency: 10, ...spec }).reconcile(async (request, { cache }) => {
    const startedAtMs = Date.now();
    const { namespace, name, attempt, reasons } = request;
    const object = await cache.get(kind, namespace === undefined ? { name } : { namespace, name });
    const observation: Observation = {
      msg: 'observed',
      controller: spec.name,
      key: namespace === undefined ? name : `${namespace}/${name}`,
      uid: object?.metadata.uid ?? null,
      resourceVersion: object?.metadata.resourceVersion ?? null,
      reasons,
      attempt,
      startedAtMs,
    };
    process.stdout.write(`${JSON.stringify(observation)}\n`);
  });
  return createFunctionApp(observer, {
    secrets: requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/\s+/),
    cache: redisCache(requiredVariable(environment, 'REDIS_URL')),
    api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
  });
}, process.env);
