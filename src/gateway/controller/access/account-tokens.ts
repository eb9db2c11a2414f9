import { type Clock, type Logger, messageOf, resource, resourcePath } from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';

/** A function reads the cache with the rights of this ServiceAccount. */
export interface FunctionAccount {
  /** How the function acts as the account: with credentials of its own, or of the gateway. */
  readonly credentials: 'own' | 'token' | 'proxy';
  /** The id of the controller. */
  readonly controller: string;
  readonly namespace: string;
  readonly name: string;
  /**
   * An account that is created anew under the same name is another account, and the tokens of the old one are invalid.
   */
  readonly uid: string;
}

export interface AccountTokensOptions {
  readonly client: Pick<ApiClient, 'for'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface AccountToken {
  readonly text: string;
  readonly expiresAtMs: number;
  /** From then on the next token is requested in the background. */
  readonly renewAtMs: number;
  /**
   * It is used while it is valid for this long, although a run may take longer: the apiserver grants no longer life.
   * Undefined when it has granted the life that was asked for.
   */
  readonly shortenedMs: number | undefined;
}

interface Known {
  token: AccountToken | undefined;
  asking: Promise<AccountToken> | undefined;
  /** The earliest time of the next request in the background. */
  againAtMs: number;
}

const ACCOUNT = resource('v1', 'ServiceAccount');
const REQUEST = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' };

/** The apiserver refuses a shorter life. */
const LEAST_SECONDS = 600;
/** A token is renewed after this part of its life, as the kubelet and client-go do. */
const RENEW_AT = 0.8;
const AGAIN_MS = 5000;

/**
 * Short-lived tokens of ServiceAccounts, from the TokenRequest API, for the apiserver's default audience. A token is
 * used for many triggers and renewed in the background, so a trigger waits for a request only when the gateway has no
 * token that is valid until the trigger's deadline. Where the apiserver grants a shorter life than asked for, the first
 * half of that life is used for all triggers, and the second half for triggers that end within it.
 */
export class AccountTokens {
  readonly #options: AccountTokensOptions;
  /** By controller and UID of the account: controllers that share an account may have runs of different lengths. */
  readonly #known = new Map<string, Known>();

  constructor(options: AccountTokensOptions) {
    this.#options = options;
  }

  /**
   * A token that is valid for `longestMs` from now, or for half of the longest life that the apiserver grants.
   * @throws whatever the apiserver's requests throw, when there is none and none can be got.
   */
  async token(account: FunctionAccount, longestMs: number): Promise<string> {
    const { clock } = this.#options;
    const now = clock.now();
    const known = this.#of(account, now);
    const { token } = known;
    const neededMs = Math.min(longestMs, token?.shortenedMs ?? Infinity);
    if (!token || token.expiresAtMs < now + neededMs) return (await this.#ask(known, account, longestMs)).text;
    if (now >= token.renewAtMs && now >= known.againAtMs) this.#renew(known, account, longestMs);
    return token.text;
  }

  #of({ controller, uid }: FunctionAccount, nowMs: number): Known {
    const id = `${controller}/${uid}`;
    let known = this.#known.get(id);
    if (!known) {
      // Forgets the tokens of controllers and accounts that no longer exist.
      for (const [other, { token, asking }] of this.#known) {
        if (!asking && (token?.expiresAtMs ?? 0) <= nowMs) this.#known.delete(other);
      }
      known = { token: undefined, asking: undefined, againAtMs: 0 };
      this.#known.set(id, known);
    }
    return known;
  }

  #renew(known: Known, account: FunctionAccount, longestMs: number): void {
    const { clock, logger } = this.#options;
    known.againAtMs = clock.now() + AGAIN_MS;
    this.#ask(known, account, longestMs).catch((error: unknown) => {
      const { controller } = account;
      logger.warn(
        { controller, error: messageOf(error) },
        'the token of a function could not be renewed, trying again',
      );
    });
  }

  /** One request for all triggers that wait. */
  #ask(known: Known, account: FunctionAccount, longestMs: number): Promise<AccountToken> {
    known.asking ??= this.#request(account, longestMs)
      .then((token) => (known.token = token))
      .finally(() => (known.asking = undefined));
    return known.asking;
  }

  async #request({ controller, namespace, name, uid }: FunctionAccount, longestMs: number): Promise<AccountToken> {
    const { client, clock } = this.#options;
    const wantedSeconds = Math.max(LEAST_SECONDS, Math.ceil((2 * longestMs) / 1000));
    // Counted from before the request on the steady clock, so that the apiserver's clock does not matter.
    const askedAtMs = clock.now();
    const { spec, status } = await client.for(controller).json<TokenAnswer>({
      method: 'POST',
      path: resourcePath(ACCOUNT, { namespace, name, subresource: 'token' }),
      body: { ...REQUEST, metadata: { uid }, spec: { expirationSeconds: wantedSeconds } },
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    const text = status?.token;
    if (!text) throw new Error(`the apiserver gave no token for the ServiceAccount ${namespace}/${name}`);
    // The apiserver may grant less than was asked for.
    const lifeMs = (spec?.expirationSeconds ?? wantedSeconds) * 1000;
    const shortenedMs = lifeMs < wantedSeconds * 1000 ? lifeMs / 2 : undefined;
    return { text, expiresAtMs: askedAtMs + lifeMs, renewAtMs: askedAtMs + lifeMs * RENEW_AT, shortenedMs };
  }
}

const REQUEST_MS = 10_000;

interface TokenAnswer {
  readonly spec?: { readonly expirationSeconds?: number };
  readonly status?: { readonly token?: string };
}
