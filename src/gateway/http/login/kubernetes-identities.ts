import { createHash, createHmac, randomBytes } from 'node:crypto';
import {
  ApiError,
  type Clock,
  groupOf,
  type Logger,
  messageOf,
  type RequestSource,
  resource,
  type Resource,
  resourcePath,
  versionOf,
} from '../../../core/index.ts';
import type { ApiClient } from '../../../ground/apiserver/api-client.ts';
import { type Identities, type Identity, LoginUnavailableError, type ObjectRead } from './identity.ts';
import { ReviewCache } from './review-cache.ts';
import { ReviewTurns } from './review-turns.ts';

export interface KubernetesIdentitiesOptions {
  readonly client: Pick<ApiClient, 'json'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Logger;
}

/** As TokenReview answers it, and SubjectAccessReview takes it. */
interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

interface TokenReview {
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: { username?: string; uid?: string; groups?: string[]; extra?: Record<string, string[]> };
  };
}

const TOKEN_REVIEW = resource('authentication.k8s.io/v1', 'TokenReview', { namespaced: false });
const ACCESS_REVIEW = resource('authorization.k8s.io/v1', 'SubjectAccessReview', { namespaced: false });

/** The defaults of servers that delegate to kube-apiserver: k8s.io/apiserver, pkg/server/options. */
const CACHE = { keepMs: 10_000, maxEntries: 1000 };
const TIMEOUT_MS = 10_000;
/** A longer text is no token: the headers of a request have 16 KiB at most. */
const MAX_TOKEN = 16 * 1024;
const MAX_ANSWER_BYTES = 1024 * 1024;
const AUTHENTICATED = 'system:authenticated';
const LOG_MS = 10_000;

/**
 * Kubernetes' users and their rights, as kube-apiserver's delegated authentication and authorization: a TokenReview
 * says who sends a token, a SubjectAccessReview on the request's path and method, or on objects that an answer shows,
 * says whether this user may. Each answer is used for ten seconds. The cache knows a token by a hash with a key of this
 * process. There is no anonymous user.
 */
export class KubernetesIdentities implements Identities {
  readonly #options: KubernetesIdentitiesOptions;
  readonly #tokenReviews: ReviewCache<User | undefined>;
  readonly #accessReviews: ReviewCache<boolean>;
  readonly #turns: ReviewTurns;
  readonly #hashKey = randomBytes(32);
  #loggedAtMs = -Infinity;

  constructor(options: KubernetesIdentitiesOptions) {
    this.#options = options;
    const { clock } = options;
    this.#tokenReviews = new ReviewCache({ clock, ...CACHE });
    this.#accessReviews = new ReviewCache({ clock, ...CACHE });
    this.#turns = new ReviewTurns(clock);
  }

  async identify(token: string, { name }: Pick<RequestSource, 'name'>): Promise<Identity | undefined> {
    if (token.length > MAX_TOKEN) return undefined;
    const key = createHmac('sha256', this.#hashKey).update(token).digest('base64');
    const review = (): Promise<User | undefined> => this.#reviewToken(token);
    const last = this.#tokenReviews.last(key);
    const user = await this.#tokenReviews.get(key, () =>
      last ? this.#turns.ofUser(askerOf(last), review) : this.#turns.ofAddress(name, review),
    );
    if (!user) return undefined;
    return {
      name: user.name,
      client: askerOf(user),
      from: 'kubernetes',
      may: (verb, path) => this.#may(user, { nonResourceAttributes: { path, verb } }),
      mayRead: (read) => this.#may(user, { resourceAttributes: attributesOf(read) }),
    };
  }

  async #reviewToken(token: string): Promise<User | undefined> {
    const { status } = await this.#create<TokenReview>(TOKEN_REVIEW, { token });
    const { username: name = '', uid, groups = [], extra } = status?.user ?? {};
    if (status?.authenticated !== true || name === '') return undefined;
    return {
      name,
      groups: groups.includes(AUTHENTICATED) ? groups : [...groups, AUTHENTICATED],
      ...(uid === undefined ? {} : { uid }),
      ...(extra === undefined ? {} : { extra }),
    };
  }

  #may(user: User, what: object): Promise<boolean> {
    const { name, ...rest } = user;
    const spec = { user: name, ...rest, ...what };
    const key = createHash('sha256').update(JSON.stringify(spec)).digest('base64');
    const review = async (): Promise<boolean> => {
      const { status } = await this.#create<{ status?: { allowed?: boolean; denied?: boolean } }>(ACCESS_REVIEW, spec);
      return status?.allowed === true && status.denied !== true;
    };
    return this.#accessReviews.get(key, () => this.#turns.ofUser(askerOf(user), review));
  }

  async #create<Review>(of: Resource, spec: object): Promise<Review> {
    const { apiVersion, kind } = of;
    try {
      return await this.#options.client.json<Review>({
        method: 'POST',
        path: resourcePath(of),
        body: { apiVersion, kind, spec },
        maxBytes: MAX_ANSWER_BYTES,
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch (error) {
      this.#log(kind, error);
      const lacksRight = error instanceof ApiError && error.code === 403;
      const why = lacksRight ? 'this gateway has no right to ask (ClusterRole system:auth-delegator)' : 'no answer';
      throw new LoginUnavailableError(`the apiserver cannot check logins: ${why}`);
    }
  }

  #log(review: string, error: unknown): void {
    const nowMs = this.#options.clock.now();
    if (nowMs - this.#loggedAtMs < LOG_MS) return;
    this.#loggedAtMs = nowMs;
    // An answer could quote the token.
    const shown = error instanceof ApiError ? `${error.code} ${error.reason}` : messageOf(error);
    this.#options.logger.warn({ review, error: shown }, 'a review of a login failed');
  }
}

/**
 * The client whose share of the questions a user takes. Each pod of the cluster has a valid token, and may ask about
 * any number of paths, so the ServiceAccounts of a namespace are one client.
 */
function askerOf({ name }: User): string {
  const [account = name] = /^system:serviceaccount:[^:]*/.exec(name) ?? [];
  return `of ${account}`;
}

/** A kind without namespaces is reviewed for the cluster: a Role of some namespace may name it, and grants nothing. */
function attributesOf({ resource: of, namespace, name }: ObjectRead): object {
  return {
    verb: name === undefined ? 'list' : 'get',
    group: groupOf(of),
    version: versionOf(of),
    resource: of.plural,
    ...(of.namespaced && namespace !== undefined ? { namespace } : {}),
    ...(name === undefined ? {} : { name }),
  };
}
