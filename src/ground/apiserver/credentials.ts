import { lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { type Metrics, silentMetrics } from '../../core/index.ts';
import { type Credentials, openCredentials } from '../../kubeconfig/credentials.ts';

export type { Credentials };

/**
 * No limit for bodies: a watch may be silent for a long time, and the reflector has its own silence limit.
 */
const LIMITS = { bodyTimeout: 0, headersTimeout: 60_000, keepAliveTimeout: 30_000 };

/**
 * The gateway's credentials and connections.
 * @param path a kubeconfig. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.
 * @throws UserError when there is no kubeconfig, or the file is not one.
 */
export function loadCredentials(path?: string, metrics: Metrics = silentMetrics): Promise<Credentials> {
  return openCredentials(path, { ...LIMITS, lookup: measuredLookup(metrics) });
}

/** Node's, which is asked once for each connection to a server that is named, and not for an address. */
function measuredLookup(metrics: Metrics): LookupFunction {
  return (host, options, callback) => {
    const startedAt = performance.now();
    lookup(host, options, (...answer: Parameters<typeof callback>) => {
      const seconds = (performance.now() - startedAt) / 1000;
      metrics.observe('rest_client_dns_resolution_duration_seconds', { host }, seconds);
      callback(...answer);
    });
  };
}
