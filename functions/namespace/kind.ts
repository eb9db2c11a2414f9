import {
  ApiError,
  type ApiWriter,
  type DiscoveredResource,
  type KubernetesObject,
  messageOf,
} from 'levelhook/function';
import { failuresOf, inParallel } from '../lib/in-parallel.ts';

/** The estimate for objects that a finalizer holds: nobody knows, and another controller is at work. */
const FINALIZER_SECONDS = 15;
const DELETES_AT_A_TIME = 10;

/** What is left of a kind in a namespace after a deletion. */
export interface Leftover {
  readonly resource: DiscoveredResource;
  /** Number of objects. */
  readonly count: number;
  /** How many of them each finalizer holds. */
  readonly finalizers: ReadonlyMap<string, number>;
  /** How long it takes until they are gone; 0 is no estimate. */
  readonly estimateSeconds: number;
  /** Why they could not be deleted, or why it is unexpected that they are still there. */
  readonly error?: Error;
}

/**
 * Deletes all objects of a kind in a namespace. Never throws: what could not be done is in the result. A kind that the
 * cluster does not serve any more has no objects.
 *
 * @param graceSeconds the time that the objects may take to end. Default 0
 */
export async function deleteKind(
  resource: DiscoveredResource,
  namespace: string,
  api: ApiWriter,
  graceSeconds = 0,
): Promise<Leftover> {
  const nothing = { resource, count: 0, finalizers: new Map<string, number>(), estimateSeconds: 0 };
  try {
    const found = await listed(resource, namespace, api);
    if (found?.length === 0) return nothing;
    let left = found;
    if (!found?.every(isHeld)) {
      await deleteFound(resource, namespace, found ?? [], api);
      left = await listed(resource, namespace, api);
    }
    if (!left?.length) return nothing;
    const finalizers = countFinalizers(left);
    const rest = { resource, count: left.length, finalizers };
    if (graceSeconds > 0) return { ...rest, estimateSeconds: graceSeconds };
    if (finalizers.size > 0) return { ...rest, estimateSeconds: FINALIZER_SECONDS };
    return { ...rest, estimateSeconds: 0, error: new Error(unexpected(resource, namespace)) };
  } catch (error) {
    // As kube-controller-manager's: how many are left is not known.
    return {
      ...nothing,
      estimateSeconds: graceSeconds,
      error: error instanceof Error ? error : new Error(messageOf(error)),
    };
  }
}

/** Undefined when the kind cannot be listed. */
async function listed(
  resource: DiscoveredResource,
  namespace: string,
  api: ApiWriter,
): Promise<readonly KubernetesObject[] | undefined> {
  if (!resource.verbs.includes('list')) return undefined;
  const list = await unlessNotServed(api.listMetadata(resource, { namespace }));
  return list?.items ?? [];
}

async function deleteFound(
  resource: DiscoveredResource,
  namespace: string,
  found: readonly KubernetesObject[],
  api: ApiWriter,
): Promise<void> {
  // The garbage collector must not hold what goes anyway: all of it is in this namespace.
  const propagationPolicy = 'Background';
  if (resource.verbs.includes('deletecollection')) {
    const count = await unlessNotServed(api.deleteCollection(resource, { namespace, propagationPolicy }));
    if (count !== undefined) return;
  }
  const outcomes = await inParallel(found, DELETES_AT_A_TIME, ({ metadata: { name } }) =>
    unlessNotServed(api.delete(resource, { namespace, name }, { propagationPolicy })),
  );
  const [failure] = failuresOf(outcomes);
  if (failure) throw failure;
}

/** Undefined when the cluster does not serve the kind, or not this verb: the kind may have gone since the discovery. */
async function unlessNotServed<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof ApiError && (error.code === 404 || error.code === 405)) return undefined;
    throw error;
  }
}

/** Finalizers of the garbage collector, which a deletion in the background takes away. */
const COLLECTOR = ['orphan', 'foregroundDeletion'];

/** Being deleted, and held by another controller: another delete would change nothing. */
function isHeld({ metadata: { deletionTimestamp, finalizers = [] } }: KubernetesObject): boolean {
  return (
    deletionTimestamp !== undefined && finalizers.length > 0 && !finalizers.some((each) => COLLECTOR.includes(each))
  );
}

function countFinalizers(objects: readonly KubernetesObject[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const each of objects.flatMap(({ metadata }) => metadata.finalizers ?? [])) {
    counts.set(each, (counts.get(each) ?? 0) + 1);
  }
  return counts;
}

function unexpected(resource: DiscoveredResource, namespace: string): string {
  const { group, version } = partsOf(resource);
  const gvr = `${group}/${version}, Resource=${resource.plural}`;
  return `unexpected items still remain in namespace: ${namespace} for gvr: ${gvr}`;
}

/** `apps` and `v1` of `apps/v1`; the core group is ''. */
export function partsOf({ apiVersion }: { readonly apiVersion: string }): { group: string; version: string } {
  const [first = '', second] = apiVersion.split('/');
  return second === undefined ? { group: '', version: first } : { group: first, version: second };
}
