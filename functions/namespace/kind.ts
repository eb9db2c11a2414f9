import {
  ApiError,
  type ApiWriter,
  type DiscoveredResource,
  type KubernetesObject,
  messageOf,
} from 'levelhook/function';
import { failuresOf, inParallel } from '../lib/in-parallel.ts';

/** The estimate for objects with a finalizer: the time is unknown, because another controller is at work. */
const FINALIZER_SECONDS = 15;
const DELETES_AT_A_TIME = 10;

/** The rest of a kind in a namespace after a deletion. */
export interface Leftover {
  readonly resource: DiscoveredResource;
  /** Number of objects. */
  readonly count: number;
  /** The number of objects that have each finalizer. */
  readonly finalizers: ReadonlyMap<string, number>;
  /** The time until they are gone; 0 means no estimate. */
  readonly estimateSeconds: number;
  /** The reason why they could not be deleted, or why they should no longer exist. */
  readonly error?: Error;
}

/**
 * Deletes all objects of a kind in a namespace. Never throws: failures are in the result. A kind that the cluster does
 * not serve any more has no objects.
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
    // As in kube-controller-manager, the number of remaining objects is unknown.
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
  // All dependents are in this namespace and are deleted anyway, so the garbage collector must not hold their owners.
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

/** The garbage collector's finalizers, which a deletion in the background removes. */
const COLLECTOR = ['orphan', 'foregroundDeletion'];

/** Is being deleted, and has another controller's finalizer: another delete would change nothing. */
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
