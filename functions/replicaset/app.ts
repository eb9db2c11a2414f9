import { createFunctionApp } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable } from 'levelhook/function/node';
import { replicaset } from './controller.ts';

/** The replicaset function with its settings: the variables are in the README. Connects to nothing yet. */
export function createApp(environment: Readonly<Record<string, string | undefined>>) {
  const secrets = requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/[\s,]+/);
  return createFunctionApp(replicaset, {
    secrets,
    ...(environment['REDIS_URL'] ? { cache: redisCache(environment['REDIS_URL'], { secrets }) } : {}),
    api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
  });
}
