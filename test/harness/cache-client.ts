import { formatKind, type Resource, systemClock } from '../../src/core/index.ts';
import { clusterIdentity } from '../../src/ground/apiserver/discovery.ts';
import { TokenKeys } from '../../src/gateway/controller/access/token-keys.ts';
import { cacheKeyRing } from './cache-keys.ts';
import type { Cluster } from './cluster.ts';

/** Asks a gateway's cache API, whose `LEVELHOOK_CACHE_KEYS` are `CACHE_KEYS`, with the token of a function. */
export class CacheClient {
  readonly #gatewayUrl: string;
  readonly #token: string;

  private constructor(gatewayUrl: string, token: string) {
    this.#gatewayUrl = gatewayUrl;
    this.#token = token;
  }

  /** @param kinds that the function of this controller may read, in all namespaces. */
  static async of(
    gatewayUrl: string,
    { cluster, keyPrefix }: { cluster: Cluster; keyPrefix: string },
    { controller, kinds }: { controller: string; kinds: readonly Resource[] },
  ): Promise<CacheClient> {
    const clusterId = await clusterIdentity(cluster.client);
    const keys = new TokenKeys({ ring: cacheKeyRing(), cluster: { keyPrefix, clusterId }, clock: systemClock });
    const scope = Object.fromEntries(kinds.map((kind) => [formatKind(kind), '*' as const]));
    return new CacheClient(gatewayUrl, keys.sign('levelhook-cache', { controller, scope }, Date.now() + 3_600_000));
  }

  /** The text of the answer. */
  async get(path: string, accept = 'application/json'): Promise<string> {
    const headers = { accept, authorization: `Bearer ${this.#token}` };
    return (await fetch(`${this.#gatewayUrl}/cache${path}`, { headers })).text();
  }
}
