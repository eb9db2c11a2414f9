import { createFunctionApp } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, serveFunction } from 'levelhook/function/node';
import { greeting } from './greeting.ts';

await serveFunction(
  (environment) =>
    createFunctionApp(greeting, {
      secrets: requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/[\s,]+/),
      ...(environment['REDIS_URL'] ? { cache: redisCache(environment['REDIS_URL']) } : {}),
      api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
    }),
  process.env,
);
