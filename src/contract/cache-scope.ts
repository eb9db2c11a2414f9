import { ownValue } from '../core/index.ts';

/** The kinds of the cache that a client may read, each in all namespaces or in the named ones. */
export interface CacheScope {
  /** By `apiVersion/Kind`: the namespaces, or `*` for all and for cluster-scoped kinds. */
  readonly [kind: string]: '*' | readonly string[];
}

/** Whether a scope covers a kind in a namespace, or in all namespaces if undefined. */
export function allows(scope: CacheScope, kind: string, namespace: string | undefined): boolean {
  const allowed = ownValue(scope, kind);
  if (allowed === undefined) return false;
  return allowed === '*' || (namespace !== undefined && allowed.includes(namespace));
}
