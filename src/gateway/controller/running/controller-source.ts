import { formatKind, type GroupVersionKind, type Resource } from '../../../core/index.ts';
import type { Informer } from '../../informer/cache/informer.ts';

/**
 * A kind that a controller watches or reads, as the cluster serves it, and its informers: one for each cached
 * namespace.
 */
export interface ControllerSource {
  readonly resource: Resource;
  readonly informers: readonly Informer[];
  /**
   * Keys name the kind, and the description does not. Nothing waits until its views are complete, because its list may
   * fail for ever. Default false.
   */
  readonly isRelated?: boolean;
}

/**
 * The namespaces that sources of a description name for a kind.
 * @returns undefined when one of them names none: then the kind is wanted everywhere.
 */
export function namespacesNamed(sources: readonly DescribedSource[], kind: string): readonly string[] | undefined {
  const wanted = sources.filter((each) => formatKind(each) === kind);
  if (wanted.some(({ namespaces }) => namespaces === undefined)) return undefined;
  return [...new Set(wanted.flatMap(({ namespaces = [] }) => namespaces))];
}

type DescribedSource = GroupVersionKind & { readonly namespaces?: readonly string[] | undefined };

/** The informers of all these kinds. */
export function informersOf(sources: readonly ControllerSource[]): Informer[] {
  return sources.flatMap(({ informers }) => informers);
}

/**
 * For how long the cache may lack a change, in milliseconds, by `apiVersion/Kind`: see `Informer.ageMs`. A kind of
 * which a view's age is unknown is absent.
 */
export async function agesOf(sources: readonly ControllerSource[]): Promise<ReadonlyMap<string, number>> {
  const ages = new Map<string, number>();
  await Promise.all(
    sources.map(async ({ resource, informers }) => {
      const each = await Promise.all(informers.map((informer) => informer.ageMs()));
      const known = each.filter((age) => age !== undefined);
      if (known.length === each.length) ages.set(formatKind(resource), Math.max(...known));
    }),
  );
  return ages;
}
