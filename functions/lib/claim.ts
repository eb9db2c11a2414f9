import {
  ApiError,
  type ApiWriter,
  type CacheReader,
  controllerOf,
  controllerReference,
  type KubernetesObject,
  keyOf,
  type LabelSelector,
  matchesLabels,
  type Resource,
} from 'levelhook/function';
import { failuresOf, inParallel } from './in-parallel.ts';

const CLAIMS_AT_A_TIME = 20;

/** An object that manages the objects of one kind that match its selector. */
export type Owner = KubernetesObject & { spec: { selector: LabelSelector } };

/** The two kinds: `{ owner: ReplicaSet, owned: Pod }`. */
export interface ClaimKinds {
  readonly owner: Resource;
  readonly owned: Resource;
}

/** The owner's objects, and the orphans that it may adopt. The caller filters them, and then claims them. */
export async function candidates<T extends KubernetesObject>(
  owned: Resource<T>,
  owner: Owner,
  cache: CacheReader,
): Promise<T[]> {
  const { namespace = '' } = owner.metadata;
  const lists = await Promise.all([
    cache.list(owned, { controlledBy: owner }),
    cache.list(owned, { orphansIn: namespace, labelSelector: owner.spec.selector }),
  ]);
  return lists.flatMap(({ items }) => items);
}

/**
 * Makes owner references agree with the selector, and returns the owner's objects, including adopted orphans. If a
 * claim failed, throws after all were tried, because the count would be wrong.
 */
export async function claim<T extends KubernetesObject>(
  kinds: ClaimKinds,
  owner: Owner,
  objects: readonly T[],
  api: ApiWriter,
): Promise<T[]> {
  let checked: Promise<void> | undefined;
  const outcomes = await inParallel(objects, CLAIMS_AT_A_TIME, async (object) => {
    switch (decideClaim(owner, object)) {
      case 'keep':
        return true;
      case 'ignore':
        return false;
      case 'release':
        await release(kinds, owner, object, api);
        return false;
      case 'adopt':
        await (checked ??= checkMayAdopt(kinds, owner, api));
        return adopt(kinds, owner, object, api);
    }
  });
  const failures = failuresOf(outcomes);
  if (failures.length > 0) throw new AggregateError(failures);
  return objects.filter((_, index) => {
    const outcome = outcomes[index];
    return outcome?.status === 'fulfilled' && outcome.value;
  });
}

export function decideClaim(owner: Owner, object: KubernetesObject): 'keep' | 'release' | 'adopt' | 'ignore' {
  // An owner's objects are in its own namespace. An object elsewhere may have copied the UID.
  if (object.metadata.namespace !== owner.metadata.namespace) return 'ignore';
  const controller = controllerOf(object);
  const matches = matchesLabels(owner.spec.selector, object.metadata.labels);
  if (controller && controller.uid !== owner.metadata.uid) return 'ignore';
  // An owner keeps its objects while it is being deleted; it only adopts and releases none.
  if (controller && matches) return 'keep';
  if (owner.metadata.deletionTimestamp) return 'ignore';
  if (controller) return 'release';
  return matches && !object.metadata.deletionTimestamp ? 'adopt' : 'ignore';
}

/**
 * Reads past the cache: the garbage collector may be orphaning the objects of an owner whose deletion the cache has not
 * seen yet, and they must not be adopted again.
 */
async function checkMayAdopt(kinds: ClaimKinds, owner: Owner, api: ApiWriter): Promise<void> {
  const fresh = await api.get(kinds.owner, keyOf(owner));
  const refusal = `no ${kinds.owned.kind} can be adopted: the ${kinds.owner.kind}`;
  if (fresh?.metadata.uid !== owner.metadata.uid) throw new Error(`${refusal} is gone`);
  if (fresh.metadata.deletionTimestamp) throw new Error(`${refusal} is being deleted`);
}

/** False when the object is gone. The UID in the patch makes it fail for another object of the same name. */
async function adopt(kinds: ClaimKinds, owner: Owner, object: KubernetesObject, api: ApiWriter): Promise<boolean> {
  const metadata = { uid: object.metadata.uid, ownerReferences: [controllerReference(kinds.owner, owner)] };
  return patchMetadata(kinds.owned, object, metadata, api, [404]);
}

async function release(kinds: ClaimKinds, owner: Owner, object: KubernetesObject, api: ApiWriter): Promise<void> {
  const metadata = { uid: object.metadata.uid, ownerReferences: [{ $patch: 'delete', uid: owner.metadata.uid }] };
  // 422: another object now has the name, or the object has no such owner any more.
  await patchMetadata(kinds.owned, object, metadata, api, [404, 422]);
}

/** False when the apiserver refused with one of the codes that mean there is nothing to do. */
async function patchMetadata(
  resource: Resource,
  object: KubernetesObject,
  metadata: object,
  api: ApiWriter,
  fine: readonly number[],
): Promise<boolean> {
  try {
    await api.patch(resource, keyOf(object), { type: 'strategic', body: { metadata } });
    return true;
  } catch (error) {
    if (error instanceof ApiError && fine.includes(error.code)) return false;
    throw error;
  }
}
