import { type KubernetesObject, resource } from '../../src/core/index.ts';
import {
  type CacheLocation,
  type CacheReader,
  controller,
  type ControllerOptions,
  httpCache,
} from '../../src/function/index.ts';
import { redisCache } from '../../src/function/node/index.ts';
import { RedisReader } from '../../src/function/node/redis-reader.ts';
import type { Setting } from './levelhook.ts';
import { ServedFunction } from './served-function.ts';

export interface Secret extends KubernetesObject {
  data?: Record<string, string>;
}
export const secrets = resource<Secret>('v1', 'Secret');

/** One way to read, and what came of it: the password, or the error. */
export interface SecretRead {
  readonly key: string;
  readonly http: string | undefined;
  readonly redisCache: string | undefined;
  readonly listed: readonly string[];
  readonly redisReader: unknown;
  readonly location: CacheLocation;
}

/** A function over Secrets that reads each of one namespace in every way there is, inside the test's own process. */
export async function startSecretFunction(
  setting: Setting,
  name: string,
  namespace: string,
  more: Partial<ControllerOptions> = {},
): Promise<{ url: string; reads: SecretRead[]; stop: () => Promise<void> }> {
  const reads: SecretRead[] = [];
  let location: CacheLocation = { views: {} };
  const openRedis = redisCache(setting.redisUrl);
  const byHttp = httpCache();
  let viaRedisCache: CacheReader | undefined;
  const fn = new ServedFunction(
    controller({ name, for: secrets, timeoutSeconds: 5, ...more }).reconcile(async (request, { cache }) => {
      if (request.namespace !== namespace) return;
      const key = { namespace, name: request.name };
      const passwordOf = (secret: Secret | undefined): string | undefined => secret?.data?.['password'];
      const inNamespace = await viaRedisCache?.list(secrets, { namespace });
      reads.push({
        key: request.name,
        http: passwordOf(await cache.get(secrets, key)),
        redisCache: passwordOf(await viaRedisCache?.get(secrets, key)),
        listed: inNamespace?.items.map(({ metadata }) => metadata.name) ?? [],
        // Refused before Redis is asked: it needs no connection.
        redisReader: await new RedisReader(undefined as never, location)
          .get(secrets, key)
          .catch((error: unknown) => error),
        location,
      });
    }),
    setting,
    (given, run) => {
      location = given;
      viaRedisCache = openRedis(given, run);
      return byHttp(given, run);
    },
  );
  await fn.open();
  return { url: fn.url, reads, stop: () => fn.close() };
}
