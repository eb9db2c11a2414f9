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
export function loadCredentials(path?: string): Promise<Credentials> {
  return openCredentials(path, LIMITS);
}
