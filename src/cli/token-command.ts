import { isFormattedKind, isNamespace, shown, silentLogger, UserError, originOf } from '../core/index.ts';
import { gatewayKeys } from '../contract/cache-layout.ts';
import type { CacheScope } from '../contract/index.ts';
import { ApiClient } from '../ground/apiserver/api-client.ts';
import { loadCredentials } from '../ground/apiserver/credentials.ts';
import { clusterIdentity } from '../ground/apiserver/discovery.ts';
import { readCacheKeys } from '../ground/config/cache-keys.ts';
import { variableOf } from '../ground/config/config.ts';
import { connectRedis, type Redis } from '../ground/redis/redis.ts';
import { TokenKeys } from '../gateway/controller/access/token-keys.ts';
import { GatewayClock } from '../gateway/process/gateway-clock.ts';
import { readConfig } from '../gateway/index.ts';
import { patiently } from './progress.ts';

export interface TokenOptions {
  readonly kubeconfig?: string;
  /** Each as `apiVersion/Kind`. */
  readonly kinds: readonly string[];
  /** Empty for all namespaces. */
  readonly namespaces: readonly string[];
  readonly minutes: number;
  readonly name: string;
}

/**
 * Prints a token that lets a client read these kinds from the cache API for some minutes. It is signed with the
 * gateway's cache keys, so only users who have these may make tokens. Takes the gateway's variables; the gateway need
 * not run.
 */
export async function tokenCommand({ kubeconfig, kinds, namespaces, minutes, name }: TokenOptions): Promise<void> {
  // A name with a dot belongs to a ReconcileFunction, whose tokens end with its rights.
  if (originOf(name) === 'declared') throw new UserError(`--name ${name} must not have a dot.`);
  const wrongKind = kinds.find((kind) => !isFormattedKind(kind));
  if (wrongKind !== undefined) throw new UserError(`--kinds: ${shown(wrongKind)} is no kind, such as v1/Pod.`);
  const wrongNamespace = namespaces.find((namespace) => !isNamespace(namespace));
  if (wrongNamespace !== undefined) {
    throw new UserError(`--namespaces: ${shown(wrongNamespace)} is not the name of a namespace.`);
  }
  const config = readConfig(process.env, { kubeconfig });
  const ring = readCacheKeys(config.cacheKeys, config.cacheKeysFile);
  if (!ring) {
    throw new UserError(
      `Tokens are signed with the keys of the gateway: set ${variableOf('cacheKeys')} to the same as there.`,
    );
  }
  const clusterId = config.clusterId ?? (await patiently(identityOf(config.kubeconfig), 'the apiserver'));
  const redis = await patiently(connectRedis(config.redisUrl, { files: config.redisFiles }), 'Redis');
  try {
    const keys = gatewayKeys({ keyPrefix: config.keyPrefix, clusterId });
    await checkCached(redis, keys.views, kinds);
    const scope: CacheScope = Object.fromEntries(kinds.map((kind) => [kind, namespaces.length > 0 ? namespaces : '*']));
    // Tokens expire by the gateways' time.
    const clock = new GatewayClock();
    await clock.continueFrom(redis, keys.registry, silentLogger);
    const expiresAtMs = clock.now() + minutes * 60_000;
    const tokenKeys = new TokenKeys({ ring, cluster: { keyPrefix: config.keyPrefix, clusterId }, clock });
    const token = tokenKeys.sign('levelhook-cache', { controller: name, scope }, expiresAtMs);
    const where = namespaces.length > 0 ? namespaces.join(', ') : 'all namespaces';
    const until = new Date(clock.wallNow() + minutes * 60_000).toISOString().replace(/[.].*/, 'Z');
    process.stderr.write(`reads ${kinds.join(', ')} in ${where} until ${until}, and cannot be revoked\n`);
    process.stdout.write(`${token}\n`);
  } finally {
    redis.disconnect();
  }
}

async function identityOf(kubeconfig: string | undefined): Promise<string> {
  const credentials = await loadCredentials(kubeconfig);
  try {
    return await clusterIdentity(new ApiClient(credentials));
  } finally {
    await credentials.close();
  }
}

/** A token for a misspelt kind would read nothing. */
async function checkCached(redis: Redis, viewsKey: string, kinds: readonly string[]): Promise<void> {
  const prefixes = await redis.smembers(viewsKey);
  // {PREFIX:v1:CLUSTER:APIVERSION/KIND:SETTINGS}
  const cached = [...new Set(prefixes.map((prefix) => prefix.split(':').at(-2) ?? ''))].toSorted();
  const unknown = kinds.find((kind) => !cached.includes(kind));
  if (unknown === undefined) return;
  throw new UserError(
    cached.length > 0
      ? `${unknown} is not cached: the cached kinds are ${cached.join(', ')}.`
      : `There is no cache of this cluster in Redis: ${variableOf('redisUrl')}, ${variableOf('keyPrefix')} and the kubeconfig must be those of the gateway.`,
  );
}
