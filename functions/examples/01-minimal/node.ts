import { createFunctionApp } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, serveFunction } from 'levelhook/function/node';
import { greeting } from './greeting.ts';

await serveFunction((environment) => {
  const secrets = requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/[\s,]+/);
  return createFunctionApp(greeting, {
    secrets,
    ...(environment['REDIS_URL'] ? { cache: redisCache(environment['REDIS_URL'], { secrets }) } : {}),
    api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
  });
}, process.env);
