import { type Logger, systemClock } from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import type { AdminToken } from '../../../ground/config/admin-tokens.ts';
import type { RedisLocation } from '../../../ground/redis/redis-location.ts';
import { KubernetesIdentities } from './kubernetes-identities.ts';
import type { LoginBackend } from './login.ts';
import { Sessions } from './sessions.ts';
import { StaticTokens } from './static-tokens.ts';

export interface LoginBackendOptions {
  readonly adminTokens: readonly AdminToken[];
  readonly client: Pick<ApiClient, 'for'>;
  readonly location: RedisLocation;
  readonly logger: Logger;
}

/** Identities of the static tokens, then of the cluster. Their sessions are in Redis, for all gateways. */
export function createLoginBackend({ adminTokens, client, location, logger }: LoginBackendOptions): LoginBackend {
  // Requests of people have a limit of their own at the apiserver, under a name that no controller has.
  const kubernetes = new KubernetesIdentities({ client: client.for(':login'), clock: systemClock, logger });
  return { identities: [new StaticTokens(adminTokens), kubernetes], sessions: new Sessions(location) };
}
