import {
  formatKind,
  groupOf,
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

/**
 * Asks the apiserver whether a ServiceAccount may read all of this by itself (SubjectAccessReview): the gateway lends
 * its own rights to no function.
 * @returns the allowed scope, for tokens.
 * @throws InvalidFunctionError naming the first right that is missing; ApiError when the apiserver does not answer.
 */
export async function reviewAccess(
  client: ApiClient,
  account: { readonly namespace: string; readonly name: string },
  wanted: readonly WantedAccess[],
  signal: AbortSignal,
): Promise<CacheScope> {
  const scope = new Map<string, '*' | readonly string[]>();
  // A declaration may name a kind, and a namespace, many times: each question is asked once.
  const asked = new Map<string, Promise<boolean>>();
  const mayDo = (right: Parameters<typeof isAllowed>[2]): Promise<boolean> => {
    const { verb, subresource, resource, namespace = '*' } = right;
    const question = [verb, subresource, formatKind(resource), namespace].join(' ');
    const known = asked.get(question) ?? isAllowed(client, account, right, signal);
    asked.set(question, known);
    return known;
  };
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
        namespace === undefined ? (resource.namespaced ? ' in all namespaces' : '') : ` in the namespace ${namespace}`;
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

function union(a: '*' | readonly string[] | undefined, b: '*' | readonly string[]): '*' | readonly string[] {
  if (a === '*' || b === '*') return '*';
  return [...new Set([...(a ?? []), ...b])];
}

async function isAllowed(
  client: ApiClient,
  account: { readonly namespace: string; readonly name: string },
  right: { verb: string; subresource: string; resource: Resource; namespace: string | undefined },
  signal: AbortSignal,
): Promise<boolean> {
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
