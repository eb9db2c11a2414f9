/** A right that the gateway needs, without its verbs. */
export interface NeededRight {
  readonly group: string;
  /** As RBAC names it, a subresource behind a slash: `reconcilefunctions/status`. */
  readonly resource: string;
  /** Undefined: all, or the kind has none. */
  readonly namespace?: string | undefined;
  /** One object; undefined: any. */
  readonly name?: string;
  /** The gateway's purpose: `to name the cluster`. */
  readonly purpose: string;
}

/** The verbs that the gateway needs for each kind that it caches. */
export const CACHE_VERBS = ['get', 'list', 'watch'] as const;

/** The sentence, without its full stop, for one right with missing verbs. */
export function missingRight(user: string, right: NeededRight, denied: readonly string[]): string {
  const { group, resource, namespace, name, purpose } = right;
  const what = `${resource}${group === '' ? '' : `.${group}`}${name === undefined ? '' : ` ${name}`}`;
  const where = namespace === undefined ? '' : ` in the namespace ${namespace}`;
  return `${user} may not ${denied.join(', ')} ${what}${where}, which the gateway needs ${purpose}: grant it`;
}
