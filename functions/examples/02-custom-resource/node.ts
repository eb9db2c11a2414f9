import { createFunctionApp } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, serveFunction } from 'levelhook/function/node';
import { site } from './site.ts';

await serveFunction((environment) => {
  const secrets = requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/[\s,]+/);
  return createFunctionApp(site, {
    secrets,
    ...(environment['REDIS_URL'] ? { cache: redisCache(environment['REDIS_URL'], { secrets }) } : {}),
    api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
  });
}, process.env);
