import {
  type ApiWriter,
  type DiscoveredResource,
  discoverResources,
  type Discovery,
  messageOf,
} from 'levelhook/function';
import { failuresOf, inParallel } from '../lib/in-parallel.ts';
import { deleteKind, type Leftover, partsOf } from './kind.ts';
import { deletePods, isPods } from './pods.ts';

/** Concurrent requests for one namespace: an apiserver serves 400 reads at once to all of its clients. */
const KINDS_AT_A_TIME = 5;

/** The remaining content after one run. */
export interface Content {
  /** The reason why not all kinds are known; undefined when they are. */
  readonly discoveryFailure?: string;
  /** The reason why some kinds cannot be requested; undefined when all can. */
  readonly parsingFailure?: string;
  /** Kinds with objects left, and kinds whose deletion failed. */
  readonly leftovers: readonly Leftover[];
}

/**
 * Deletes everything in a namespace, the pods before anything else, so that everything they need for an orderly end,
 * above all their network policies, stays until the last of them is gone. Then the discovery is repeated, and kinds
 * that have appeared since are deleted too, so nothing is left of the kinds of the last discovery.
 */
export async function deleteContent(namespace: string, deletedAtMs: number, api: ApiWriter): Promise<Content> {
  const done = new Set<string>();
  for (;;) {
    let discovery: Discovery;
    try {
      discovery = await discoverResources(api);
    } catch (error) {
      return { discoveryFailure: messageOf(error), leftovers: [] };
    }
    const kinds = discovery.resources.filter((each) => isDeletable(each) && !done.has(nameOf(each)));
    const leftovers = await deleteKinds(kinds, namespace, deletedAtMs, api);
    const content = { ...failuresOfDiscovery(discovery), leftovers };
    // Another run will follow, and repeat the discovery.
    if (kinds.length === 0 || !isEmpty(content)) return content;
    for (const each of kinds) done.add(nameOf(each));
  }
}

/** Whether it is certain that nothing is left. */
export function isEmpty({ discoveryFailure, parsingFailure, leftovers }: Content): boolean {
  return discoveryFailure === undefined && parsingFailure === undefined && leftovers.length === 0;
}

/** The errors of the kinds that failed; they are retried with a backoff. */
export function errorsOf({ discoveryFailure, parsingFailure, leftovers }: Content): string[] {
  const failures = leftovers.flatMap(({ error }) => (error ? [error.message] : []));
  return [discoveryFailure, parsingFailure, ...failures].filter((each) => each !== undefined);
}

async function deleteKinds(
  kinds: readonly DiscoveredResource[],
  namespace: string,
  deletedAtMs: number,
  api: ApiWriter,
): Promise<Leftover[]> {
  const pods = kinds.find(isPods);
  if (pods) {
    const left = await deletePods(pods, namespace, deletedAtMs, api);
    if (left.count > 0 || left.error) return [left];
  }
  const others = kinds.filter((each) => each !== pods);
  const outcomes = await inParallel(others, KINDS_AT_A_TIME, (each) => deleteKind(each, namespace, api));
  const [bug] = failuresOf(outcomes);
  if (bug) throw bug;
  const leftovers = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
  return leftovers.filter(({ count, error }) => count > 0 || error);
}

function isDeletable({ namespaced, verbs }: Pick<DiscoveredResource, 'namespaced' | 'verbs'>): boolean {
  return namespaced && verbs.includes('delete');
}

/** Without the version, because the cluster may prefer another one later. */
const nameOf = (each: DiscoveredResource): string => `${each.plural}.${partsOf(each).group}`;

/** In the words of client-go, which kube-controller-manager uses. */
function failuresOfDiscovery({ stale, invalid }: Discovery): Pick<Content, 'discoveryFailure' | 'parsingFailure'> {
  const groups = stale.toSorted().map((each) => `${each}: stale GroupVersion discovery: ${each}`);
  // Metrics, for instance, may have any name. Only resources with the verb to delete can leave objects.
  const names = invalid.filter(isDeletable).map(({ name }) => name);
  const failed = `Discovery failed for some groups, ${stale.length} failing`;
  return {
    ...(stale.length > 0
      ? { discoveryFailure: `${failed}: unable to retrieve the complete list of server APIs: ${groups.join(', ')}` }
      : {}),
    ...(names.length > 0 ? { parsingFailure: `invalid names of resources: ${names.toSorted().join(', ')}` } : {}),
  };
}
