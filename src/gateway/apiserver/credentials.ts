import { type Credentials, openCredentials } from '../../kubeconfig/credentials.ts';

export type { Credentials };

/**
 * A watch may be silent for a long time: the reflector has a silence limit of its own. Each watch has a connection: in
 * one shared connection a view that is read slowly would delay the others.
 */
const LIMITS = { bodyTimeout: 0, headersTimeout: 60_000, keepAliveTimeout: 30_000 };

/**
 * The gateway's credentials and connections.
 * @param path a kubeconfig. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.
 * @throws UserError when there is none, or it is no kubeconfig.
 */
export function loadCredentials(path?: string): Promise<Credentials> {
  return openCredentials(path, LIMITS);
}
