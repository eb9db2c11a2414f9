import { ApiError, messageOf } from '../../core/index.ts';
import type { Description, KubernetesLocation } from '../../contract/index.ts';
import { isSecureUrl } from '../../contract/secure-url.ts';
import { variableOf } from '../config/config.ts';
import type { AccountTokens, FunctionAccount } from './account-tokens.ts';

/** The apiserver, as functions reach it. */
export interface ApiserverAddress {
  readonly url: string;
  /** Whether only the cluster's own network leads there. */
  readonly inCluster: boolean;
  /** PEM of its certificate authorities. Undefined: the platform's. */
  readonly ca: () => Promise<string | undefined>;
}

/** Why a function cannot get the credentials that its declaration asks for. */
export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
  readonly reason: 'ApiserverNotSecure' | 'ApiserverNotReachable' | 'TokenRefused';

  constructor(reason: CredentialsError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/** What a trigger tells a function of the Kubernetes API. */
export interface KubernetesAccess {
  /** Rejects when there are no credentials at present; then nothing may be sent. */
  location(): Promise<KubernetesLocation>;
}

/** How long a run may go on, and need its credentials. */
export function longestRunMs({ timeoutSeconds, callbackSeconds = 0 }: Description): number {
  return (timeoutSeconds + callbackSeconds) * 1000;
}

/** The credentials of functions that have none of their own ([ADR 0052](../../../infra/adr/0052-credentials.md)). */
export class KubernetesCredentials {
  readonly #tokens: AccountTokens;
  readonly #apiserver: ApiserverAddress;

  constructor(tokens: AccountTokens, apiserver: ApiserverAddress) {
    this.#tokens = tokens;
    this.#apiserver = apiserver;
  }

  /**
   * Whether triggers can carry credentials.
   * @param isOutside whether the function may be outside the cluster.
   * @throws CredentialsError saying what is missing; what the apiserver's requests throw.
   */
  async check(account: FunctionAccount, longestMs: number, isOutside: boolean): Promise<void> {
    const { url, inCluster } = this.#apiserver;
    if (!isSecureUrl(url)) {
      throw new CredentialsError(
        'ApiserverNotSecure',
        `token needs an apiserver at https, and this gateway uses ${url}: set ${variableOf('apiserverUrl')}`,
      );
    }
    if (inCluster && isOutside) {
      throw new CredentialsError(
        'ApiserverNotReachable',
        `token: the gateway knows no address of the apiserver outside the cluster, and the function is at a URL: set ${variableOf('apiserverUrl')}`,
      );
    }
    try {
      await this.#tokens.token(account, longestMs);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 403) throw error;
      throw new CredentialsError(
        'TokenRefused',
        `token: the gateway may not request a token of the ServiceAccount (apply infra/rbac/credentials-token.yaml): ${messageOf(error)}`,
      );
    }
  }

  /** For the triggers of one controller. */
  accessOf(account: FunctionAccount, longestMs: number): KubernetesAccess {
    const { url, ca } = this.#apiserver;
    return {
      location: async () => {
        const [token, pem] = await Promise.all([this.#tokens.token(account, longestMs), ca()]);
        return { url, token, ...(pem === undefined ? {} : { caBundle: Buffer.from(pem).toString('base64') }) };
      },
    };
  }
}
