import {
  type Clock,
  formatKind,
  groupOf,
  NewestMap,
  resource as resourceOf,
  type Resource,
  resourcePath,
  versionOf,
} from '../../core/index.ts';
import type { CacheScope } from '../../contract/index.ts';
import type { ApiClient } from '../../ground/apiserver/api-client.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

/** One kind that a controller reads, for its ServiceAccount to be asked about. */
export interface WantedAccess {
  /** Where the spec names it: `spec.owns[1]`. */
  readonly field: string;
  readonly resource: Resource;
  /** Undefined: all, or the kind has none. */
  readonly namespaces: readonly string[] | undefined;
  /** Subresources that the function changes by its reviews; `''` is the object itself. Default: it only reads. */
  readonly changes?: readonly string[];
  /** The spec cannot name namespaces there. Default: it can, if the kind has any. */
  readonly isEverywhere?: boolean;
}

const REVIEW = resourceOf('authorization.k8s.io/v1', 'SubjectAccessReview', { namespaced: false });

/** Reading the cache reveals as much as get, list and watch together, so the account needs all three. */
const VERBS = ['get', 'list', 'watch'] as const;
/** Who changes an object while it is written could have written it so. */
const CHANGING_VERBS = ['create', 'update'] as const;

/** How long an answer counts, from its question on, unless an event says that rights have changed. */
const SHARED_MS = 10_000;
/** Answers of 10 s, of some 200 bytes each. */
const MOST_ANSWERS = 10_000;

/**
 * Asks the apiserver what ServiceAccounts may read by themselves (SubjectAccessReview): the gateway lends its own
 * rights to no function. Functions that share an account share its answers.
 */
export class AccessReviews {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #answers = new NewestMap<string, { readonly allowed: Promise<boolean>; readonly askedMs: number }>(
    MOST_ANSWERS,
  );

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /** Forgets all answers, because rights have changed. A review under way still gets its own. */
  forget(): void {
    this.#answers.clear();
  }

  /**
   * Reviews all of this, for one declaration.
   * @returns the allowed scope, for tokens.
   * @throws InvalidFunctionError naming the first right that is missing; ApiError when the apiserver does not answer.
   */
  async review(
    client: ApiClient,
    account: Account,
    wanted: readonly WantedAccess[],
    signal: AbortSignal,
  ): Promise<CacheScope> {
    const scope = new Map<string, '*' | readonly string[]>();
    const mayDo = (right: Right): Promise<boolean> => this.#isAllowed(client, account, right, signal);
    for (const { field, resource, namespaces, changes = [], isEverywhere = false } of wanted) {
      const rights = [
        ...VERBS.map((verb) => ({ verb, subresource: '' })),
        ...changes.flatMap((subresource) => CHANGING_VERBS.map((verb) => ({ verb, subresource }))),
      ];
      for (const namespace of namespaces ?? [undefined]) {
        const answers = await Promise.all(rights.map((right) => mayDo({ ...right, resource, namespace })));
        const denied = rights
          .filter((_, at) => !answers[at])
          .map(({ verb, subresource }) => (subresource === '' ? verb : `${verb} the subresource ${subresource} of`));
        if (denied.length === 0) continue;
        const place =
          namespace === undefined
            ? resource.namespaced
              ? ' in all namespaces'
              : ''
            : ` in the namespace ${namespace}`;
        const remedy =
          resource.namespaced && namespace === undefined && !isEverywhere
            ? `grant it, or name namespaces in ${field}.namespaces`
            : 'grant it';
        throw new InvalidFunctionError(
          'Authorized',
          'Forbidden',
          `${field}: the ServiceAccount ${account.namespace}/${account.name} may not ${denied.join(', ')} ${formatKind(resource)}${place}: ${remedy}`,
        );
      }
      scope.set(formatKind(resource), union(scope.get(formatKind(resource)), namespaces ?? '*'));
    }
    return Object.fromEntries(scope);
  }

  /** One question at a time for each right: a declaration may name it many times, and several functions may. */
  #isAllowed(client: ApiClient, account: Account, right: Right, signal: AbortSignal): Promise<boolean> {
    const { verb, subresource, resource, namespace = '*' } = right;
    const name = [account.namespace, account.name, verb, subresource, formatKind(resource), namespace].join(' ');
    const known = this.#answers.get(name);
    const nowMs = this.#clock.now();
    if (known && nowMs < known.askedMs + SHARED_MS) return unlessAborted(known.allowed, signal);
    // Not the signal of one of those who share it.
    const allowed = isAllowed(client, account, right, AbortSignal.timeout(ANSWER_MS));
    const answer = { allowed, askedMs: nowMs };
    this.#answers.set(name, answer);
    const drop = (): void => {
      if (this.#answers.get(name) === answer) this.#answers.delete(name);
    };
    // A right may be granted, and be asked for at once, before the event of the grant arrives.
    allowed.then((isAllowed) => (isAllowed ? undefined : drop()), drop);
    return unlessAborted(allowed, signal);
  }
}

interface Account {
  readonly namespace: string;
  readonly name: string;
}

interface Right {
  readonly verb: string;
  readonly subresource: string;
  readonly resource: Resource;
  readonly namespace: string | undefined;
}

/** Longer than a request waits for its turn in flow control. */
const ANSWER_MS = 30_000;

async function unlessAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason as Error);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([answer, promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function union(a: '*' | readonly string[] | undefined, b: '*' | readonly string[]): '*' | readonly string[] {
  if (a === '*' || b === '*') return '*';
  return [...new Set([...(a ?? []), ...b])];
}

async function isAllowed(client: ApiClient, account: Account, right: Right, signal: AbortSignal): Promise<boolean> {
  const { verb, subresource, resource, namespace } = right;
  const review = await client.json<{ status?: { allowed?: boolean; denied?: boolean } }>({
    method: 'POST',
    path: resourcePath(REVIEW),
    signal,
    body: {
      apiVersion: REVIEW.apiVersion,
      kind: REVIEW.kind,
      spec: {
        user: `system:serviceaccount:${account.namespace}:${account.name}`,
        // The groups that the apiserver gives a ServiceAccount's token.
        groups: ['system:serviceaccounts', `system:serviceaccounts:${account.namespace}`, 'system:authenticated'],
        resourceAttributes: {
          verb,
          // As discovery has named them, and as they are requested.
          group: groupOf(resource),
          version: versionOf(resource),
          resource: resource.plural,
          ...(subresource === '' ? {} : { subresource }),
          ...(namespace === undefined ? {} : { namespace }),
        },
      },
    },
  });
  return review.status?.allowed === true && review.status.denied !== true;
}
