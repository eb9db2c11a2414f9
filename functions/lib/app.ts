import { type Controller, createFunctionApp, httpCache } from 'levelhook/function';
import { kubeConfigTransport, redisCache, requiredVariable, undiciFetch } from 'levelhook/function/node';

/** Makes the function of a controller with its settings: the variables are in each README. Connects to nothing yet. */
export function appOf(controller: Controller) {
  return (environment: Readonly<Record<string, string | undefined>>) => {
    const secrets = requiredVariable(environment, 'LEVELHOOK_SIGNING_SECRETS').split(/[\s,]+/);
    return createFunctionApp(controller, {
      secrets,
      cache: environment['REDIS_URL']
        ? redisCache(environment['REDIS_URL'], { secrets })
        : httpCache({ fetch: undiciFetch }),
      api: kubeConfigTransport(environment['KUBECONFIG'] || undefined),
    });
  };
}
