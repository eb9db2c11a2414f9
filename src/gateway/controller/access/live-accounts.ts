import {
  type Clock,
  type KubernetesObject,
  NewestMap,
  orUndefined,
  resource,
  resourcePath,
} from '../../../core/index.ts';
import { type ApiClient, AnswerTooLargeError } from '../../../ground/apiserver/api-client.ts';
import type { FunctionAccount } from './account-tokens.ts';

export interface LiveAccountsOptions {
  readonly client: Pick<ApiClient, 'for'>;
  readonly clock: Pick<Clock, 'now'>;
  /** Called when an account was found gone or replaced: the declaration that names it must be reviewed. */
  readonly onReplaced: (account: FunctionAccount) => void;
}

/** The last look at the account of a name. */
interface Look {
  /** Undefined: there is no account of this name, or the gateway has not looked. */
  uid: string | undefined;
  /** When the gateway asked for it. */
  atMs: number;
  /** When the apiserver did not answer the last time. */
  failedAtMs: number;
  /** The look under way. */
  asking: Promise<void> | undefined;
}

const ACCOUNT = resource('v1', 'ServiceAccount');

/** How long a look counts, from the moment of the question, and how long the apiserver may take for the answer. */
const FRESH_MS = 2000;
/** A look of this age is renewed in the background by the next request, which so need not wait. */
const RENEW_MS = 1500;
/** A look of this age finds an account gone without another look. Its declaration may be newer than the look. */
const GONE_MS = 250;
/** After a failure of this age or less a read of the cache does not wait for the next look. */
const AWAY_MS = 10_000;
/** Accounts whose looks are remembered, at about 300 bytes each. */
const MOST_ACCOUNTS = 4096;
/** The metadata of an account may have more than 1 MiB, and a tenant many accounts. */
const MAX_BYTES = 256 * 1024;

/**
 * The UID of the ServiceAccount of this name, undefined when there is none.
 * @throws AnswerTooLargeError when its metadata has more than 256 KiB; whatever the apiserver's requests throw.
 */
export async function accountUid(
  client: Pick<ApiClient, 'json'>,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const found = client.json<KubernetesObject>({
    path: resourcePath(ACCOUNT, { namespace, name }),
    accept: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
    maxBytes: MAX_BYTES,
    signal,
  });
  return (await orUndefined(found))?.metadata.uid;
}

/**
 * Tells whether the accounts of tokens are still there. A token names an account by UID, and RBAC knows a name only, so
 * the gateway looks at the account of each token in use, at most two seconds before the use. Requests share one look
 * for each account, and while they keep coming the next look is made before the last one is too old. The controller
 * pays for its looks, which pass its other requests in flow control.
 */
export class LiveAccounts {
  readonly #options: LiveAccountsOptions;
  /** By namespace and name: functions that share an account share its looks. */
  readonly #looks = new NewestMap<string, Look>(MOST_ACCOUNTS);

  constructor(options: LiveAccountsOptions) {
    this.#options = options;
  }

  /** Whether the account is there, with its UID. @throws when the apiserver does not say so within two seconds. */
  async isThere(account: FunctionAccount): Promise<boolean> {
    const look = this.#lookOf(account);
    if (!this.#isFresh(look, account)) await this.#ask(look, account);
    return this.#isSame(look, account);
  }

  /**
   * The same, for reads that go on while the apiserver does not answer: then the last answer counts. The review of the
   * declaration has found the account, so that without an answer the account counts as there. Never rejects.
   */
  async wasThere(account: FunctionAccount): Promise<boolean> {
    const look = this.#lookOf(account);
    if (!this.#isFresh(look, account)) {
      const { clock } = this.#options;
      if (clock.now() - look.failedAtMs > AWAY_MS) await this.#ask(look, account).catch(() => {});
      else this.#renew(look, account);
    }
    return look.atMs === -Infinity || this.#isSame(look, account);
  }

  #lookOf({ namespace, name }: FunctionAccount): Look {
    const key = `${namespace}/${name}`;
    const look = this.#looks.get(key) ?? { uid: undefined, atMs: -Infinity, failedAtMs: -Infinity, asking: undefined };
    this.#looks.set(key, look);
    return look;
  }

  #isFresh(look: Look, account: FunctionAccount): boolean {
    const freshMs = look.uid === account.uid ? FRESH_MS : GONE_MS;
    if (this.#options.clock.now() - look.atMs >= freshMs) return false;
    this.#renew(look, account);
    return true;
  }

  /** Looks again in the background, when the last answer or failure is old enough. */
  #renew(look: Look, account: FunctionAccount): void {
    if (this.#options.clock.now() - Math.max(look.atMs, look.failedAtMs) < RENEW_MS) return;
    // The next request that needs an answer asks again.
    this.#ask(look, account).catch(() => {});
  }

  #isSame({ uid }: Look, account: FunctionAccount): boolean {
    const isSame = uid === account.uid;
    if (!isSame) this.#options.onReplaced(account);
    return isSame;
  }

  /** One look for all that wait. */
  #ask(look: Look, account: FunctionAccount): Promise<void> {
    look.asking ??= this.#request(look, account).finally(() => (look.asking = undefined));
    return look.asking;
  }

  async #request(look: Look, account: FunctionAccount): Promise<void> {
    const { client, clock } = this.#options;
    const askedAtMs = clock.now();
    try {
      const urgent = client.for(account.controller, { isUrgent: true });
      look.uid = await accountUid(urgent, account, AbortSignal.timeout(FRESH_MS));
    } catch (error) {
      if (!(error instanceof AnswerTooLargeError)) {
        look.failedAtMs = clock.now();
        throw error;
      }
      // The review of the declaration refuses such an account, too.
      look.uid = undefined;
    }
    look.atMs = askedAtMs;
    look.failedAtMs = -Infinity;
  }
}
