import { text } from 'node:stream/consumers';
import { ApiError, messageOf, statusFrom } from '../../../core/index.ts';
import type { Description, KubernetesLocation } from '../../../contract/index.ts';
import { isSecureUrl } from '../../../contract/secure-url.ts';
import { variableOf } from '../../../ground/config/config.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import type { AccountTokens, FunctionAccount } from './account-tokens.ts';
import type { TokenRun, TriggerTokens } from './trigger-tokens.ts';

/** The apiserver, as functions reach it. */
export interface ApiserverAddress {
  readonly url: string;
  /** Whether the address can be reached from the cluster's own network only. */
  readonly inCluster: boolean;
  /** PEM of its certificate authorities. Undefined: the platform's. */
  readonly ca: () => Promise<string | undefined>;
}

/** Why a function cannot get the credentials that its declaration asks for. */
export class CredentialsError extends Error {
  override readonly name = 'CredentialsError';
  readonly reason:
    'ApiserverNotSecure' | 'ApiserverNotReachable' | 'TokenRefused' | 'ProxyNotReachable' | 'ImpersonationRefused';

  constructor(reason: CredentialsError['reason'], message: string) {
    super(message);
    this.reason = reason;
  }
}

/** The part of a trigger that is about the Kubernetes API. */
export interface KubernetesAccess {
  /** For a trigger of these runs. Rejects when there are no credentials at present; then nothing may be sent. */
  location(runs: readonly TokenRun[]): Promise<KubernetesLocation>;
}

/** How long a run may go on, and need its credentials. */
export function longestRunMs({ timeoutSeconds, callbackSeconds = 0 }: Description): number {
  return (timeoutSeconds + callbackSeconds) * 1000;
}

export interface KubernetesCredentialsOptions {
  readonly tokens: AccountTokens;
  readonly apiserver: ApiserverAddress;
  readonly client: Pick<ApiClient, 'for'>;
  /** See `KubernetesCredentials.proxyUrl`. */
  readonly proxyUrl: () => string | undefined;
}

/** The credentials of functions that have none of their own (ADR 0011). */
export class KubernetesCredentials {
  readonly #options: KubernetesCredentialsOptions;

  constructor(options: KubernetesCredentialsOptions) {
    this.#options = options;
  }

  /** The gateway's own Kubernetes API, as functions reach it; undefined: they do not. */
  get proxyUrl(): string | undefined {
    return this.#options.proxyUrl();
  }

  /**
   * Checks that triggers can carry credentials.
   * @param isOutside whether the function may be outside the cluster.
   * @throws CredentialsError that names the missing part; errors of requests to the apiserver.
   */
  async check(account: FunctionAccount, longestMs: number, isOutside: boolean): Promise<void> {
    if (account.credentials === 'proxy') return this.#checkProxy(account);
    const { apiserver, tokens } = this.#options;
    const { url, inCluster } = apiserver;
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
      await tokens.token(account, longestMs);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 403) throw error;
      throw new CredentialsError(
        'TokenRefused',
        `token: the gateway may not request a token of the ServiceAccount (apply infra/rbac/credentials-token.yaml): ${messageOf(error)}`,
      );
    }
  }

  async #checkProxy({ controller, namespace, name }: FunctionAccount): Promise<void> {
    const { client, proxyUrl } = this.#options;
    if (proxyUrl() === undefined) {
      throw new CredentialsError(
        'ProxyNotReachable',
        `proxy: this gateway has no address for functions: it needs ${variableOf('cacheUrl')}`,
      );
    }
    const signal = AbortSignal.timeout(REVIEW_MS);
    const own = client.for(controller);
    await own.turn('POST', signal);
    const { status, body } = await own.forward({
      method: 'POST',
      // Every user may create a SelfSubjectReview.
      url: '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: Buffer.from('{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'),
      user: `system:serviceaccount:${namespace}:${name}`,
      signal,
    });
    const answer = await text(body);
    if (status === 403) {
      throw new CredentialsError(
        'ImpersonationRefused',
        `proxy: the gateway may not impersonate the ServiceAccount (apply infra/rbac/credentials-proxy.yaml, or credentials-proxy-constrained.yaml on Kubernetes 1.36): ${statusFrom(answer, status).message}`,
      );
    }
    // A 404 is from an apiserver without this API, and says nothing about the impersonation.
    if (status >= 400 && status !== 404) throw new ApiError(statusFrom(answer, status));
  }

  /** The access for the triggers of one controller whose credentials are `token`. */
  accessOf(account: FunctionAccount, longestMs: number): KubernetesAccess {
    const { apiserver, tokens } = this.#options;
    const { url, ca } = apiserver;
    return {
      location: async () => {
        const [token, pem] = await Promise.all([tokens.token(account, longestMs), ca()]);
        return { url, token, ...(pem === undefined ? {} : { caBundle: Buffer.from(pem).toString('base64') }) };
      },
    };
  }

  /** The same for the credentials `proxy`. Undefined: functions do not reach the gateway. */
  proxyOf(tokens: TriggerTokens): KubernetesAccess | undefined {
    const url = this.proxyUrl;
    if (url === undefined) return undefined;
    return {
      location: async (runs) => ({ url, token: tokens.sign('levelhook-kubernetes', runs), recordsWrites: true }),
    };
  }
}

const REVIEW_MS = 10_000;
