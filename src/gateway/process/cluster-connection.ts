import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import {
  ApiError,
  isUnreachable,
  messageOf,
  type Runtime,
  systemClock,
  UnavailableError,
  UserError,
} from '../../core/index.ts';
import { AccountTokens } from '../controller/access/account-tokens.ts';
import {
  KubernetesCredentials,
  type KubernetesCredentialsOptions,
} from '../controller/access/kubernetes-credentials.ts';
import { ApiClient } from '../../ground/apiserver/api-client.ts';
import { loadCredentials } from '../../ground/apiserver/credentials.ts';
import { clusterIdentity } from '../../ground/apiserver/discovery.ts';
import { FlowControl } from '../../ground/apiserver/flow-control.ts';
import type { GatewayConfig } from '../../ground/config/config.ts';
import { electionLease } from '../../ground/config/lease.ts';
import { type Redis, withoutPassword } from '../../ground/redis/redis.ts';
import { type RedisLocation, redisLocation } from '../../ground/redis/redis-location.ts';
import { checkDataVersion, raiseDataVersion } from '../election/data-version.ts';
import type { GatewayClock } from './gateway-clock.ts';
import { LeaderElection } from '../election/leader-election.ts';
import type { Lifecycle } from './lifecycle.ts';

/** The cluster that a gateway works for, and its place in Redis. */
export interface ClusterConnection {
  readonly client: ApiClient;
  /** The credentials of functions that have none of their own. */
  readonly kubernetes: KubernetesCredentials;
  readonly location: RedisLocation;
  /** The namespace of the gateway's pod; undefined outside a cluster. */
  readonly podNamespace: string | undefined;
  /** Undefined: this gateway leads from its start. */
  readonly election: LeaderElection | undefined;
  /** Names this process among the gateways of its deployment. */
  readonly identity: string;
}

export interface ClusterConnectionOptions {
  readonly runtime: Runtime & { readonly clock: GatewayClock };
  readonly config: GatewayConfig;
  readonly redis: Redis;
  readonly proxyUrl: KubernetesCredentialsOptions['proxyUrl'];
  /** Whether this gateway leads. */
  readonly leads: () => boolean;
  /** Receives the parts that a stop must end: the apiserver's credentials, then the clock. */
  readonly lifecycle: Pick<Lifecycle, 'started'>;
  /** Repeats an attempt that fails with an UnavailableError. */
  readonly untilAvailable: <T>(attempt: () => Promise<T>) => Promise<T>;
  /** Aborted when the gateway begins to stop. */
  readonly ending: AbortSignal;
}

/**
 * Identifies the cluster, and continues with the data and the time of its earlier gateways, if this build can read the
 * data. A gateway without an election marks the data with its own build's version at once.
 * @throws UserError when the apiserver refuses the gateway, or a newer build has written the data; the reason of
 *   `ending`.
 */
export async function connectCluster(options: ClusterConnectionOptions): Promise<ClusterConnection> {
  const { config, ending, leads, lifecycle, proxyUrl, redis, runtime, untilAvailable } = options;
  const { clock, logger, metrics } = runtime;
  const credentials = await loadCredentials(config.kubeconfig, metrics);
  lifecycle.started('apiserver', () => credentials.close());
  const client = new ApiClient(credentials, metrics, new FlowControl(config.apiserverLimits));
  const clusterId = config.clusterId ?? (await untilAvailable(() => identify(client)));
  ending.throwIfAborted();
  const about = { cluster: clusterId, server: client.server, redis: withoutPassword(config.redisUrl) };
  logger.info(about, 'connected');

  const location = redisLocation(redis, config.keyPrefix, clusterId);
  await checkDataVersion(location);
  // Before anything is timed that outlives this process.
  await clock.continueFrom(redis, location.registryKey, logger);
  const keeping = clock.keep(redis, location.registryKey, { logger, signal: ending, leads });
  lifecycle.started('clock', () => keeping);

  const { podNamespace } = credentials;
  const lease = electionLease(config.lease, podNamespace);
  const election =
    lease &&
    new LeaderElection({
      // Not the gateway's clock, which may be set.
      runtime: { ...runtime, clock: systemClock },
      // Without flow control: a renewal of the Lease must not wait for other requests.
      client: new ApiClient(credentials, metrics),
      lease,
      timing: config.leaseTiming,
    });
  if (!election) await raiseDataVersion(location);

  const { apiserverUrl } = config;
  const kubernetes = new KubernetesCredentials({
    client,
    tokens: new AccountTokens({ client, clock, logger }),
    apiserver: {
      url: apiserverUrl ?? credentials.server,
      inCluster: apiserverUrl === undefined && podNamespace !== undefined,
      ca: async () => (await credentials.access()).ca,
    },
    proxyUrl,
  });
  const identity = election?.identity ?? `${hostname()}_${randomUUID()}`;
  return { client, kubernetes, location, podNamespace, election, identity };
}

/** An apiserver that does not answer within this time is away. */
const ANSWER_MS = 10_000;

/** This is also the first request to the apiserver, so wrong credentials show here. */
async function identify(client: ApiClient): Promise<string> {
  try {
    return await clusterIdentity(client, AbortSignal.timeout(ANSWER_MS));
  } catch (error) {
    const message = `The apiserver at ${client.server} cannot be used (${messageOf(error)}): check the kubeconfig.`;
    const isAway = error instanceof ApiError ? error.code === 429 || error.code >= 500 : isUnreachable(error);
    throw isAway ? new UnavailableError(message) : new UserError(message);
  }
}
