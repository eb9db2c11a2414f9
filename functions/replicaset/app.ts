import { createFunctionApp, httpCache } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, undiciFetch } from 'levelhook/function/node';
import { replicaset } from './controller.ts';

/** The replicaset function with its settings: the variables are in the README. Connects to nothing yet. */
export function createApp(environment: Readonly<Record<string, string | undefined>>) {
  const secrets = requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/[\s,]+/);
  return createFunctionApp(replicaset, {
    secrets,
    cache: environment['REDIS_URL']
      ? redisCache(environment['REDIS_URL'], { secrets })
      : httpCache({ fetch: undiciFetch }),
    api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
  });
}
