import { ApiError, type ApiWriter, controllerOf, controllerReference, keyOf, matchesLabels } from 'levelhook/function';
import { failuresOf, inParallel } from './in-parallel.ts';
import { Pod, ReplicaSet } from './types.ts';

const CLAIMS_AT_A_TIME = 20;

/**
 * Makes owner references agree with the selector, and returns the pods that are the ReplicaSet's own: those it had, and
 * orphans that it adopted. Throws when a claim failed, after all were tried: the count would be wrong.
 */
export async function claim(rs: ReplicaSet, pods: readonly Pod[], api: ApiWriter): Promise<Pod[]> {
  let checked: Promise<void> | undefined;
  const outcomes = await inParallel(pods, CLAIMS_AT_A_TIME, async (pod) => {
    switch (decideClaim(rs, pod)) {
      case 'keep':
        return true;
      case 'ignore':
        return false;
      case 'release':
        await release(rs, pod, api);
        return false;
      case 'adopt':
        await (checked ??= checkMayAdopt(rs, api));
        return adopt(rs, pod, api);
    }
  });
  const failures = failuresOf(outcomes);
  if (failures.length > 0) throw new AggregateError(failures);
  return pods.filter((_, index) => {
    const outcome = outcomes[index];
    return outcome?.status === 'fulfilled' && outcome.value;
  });
}

export function decideClaim(rs: ReplicaSet, pod: Pod): 'keep' | 'release' | 'adopt' | 'ignore' {
  const owner = controllerOf(pod);
  const matches = matchesLabels(rs.spec.selector, pod.metadata.labels);
  if (owner && owner.uid !== rs.metadata.uid) return 'ignore';
  // What it already has stays its own while it is being deleted; only a change of ownership is out of the question.
  if (owner && matches) return 'keep';
  if (rs.metadata.deletionTimestamp) return 'ignore';
  if (owner) return 'release';
  const sameNamespace = pod.metadata.namespace === rs.metadata.namespace;
  return matches && sameNamespace && !pod.metadata.deletionTimestamp ? 'adopt' : 'ignore';
}

/**
 * Past the cache: the garbage collector may be orphaning the pods of a ReplicaSet whose deletion the cache has not seen
 * yet, and they must not be adopted again.
 */
async function checkMayAdopt(rs: ReplicaSet, api: ApiWriter): Promise<void> {
  const fresh = await api.get(ReplicaSet, keyOf(rs));
  if (fresh?.metadata.uid !== rs.metadata.uid) throw new Error('no pod can be adopted: the ReplicaSet is gone');
  if (fresh.metadata.deletionTimestamp) throw new Error('no pod can be adopted: the ReplicaSet is being deleted');
}

/** False when the pod is gone. The UID in the patch refuses another pod of the same name. */
async function adopt(rs: ReplicaSet, pod: Pod, api: ApiWriter): Promise<boolean> {
  const metadata = { uid: pod.metadata.uid, ownerReferences: [controllerReference(ReplicaSet, rs)] };
  return patchMetadata(pod, metadata, api, [404]);
}

async function release(rs: ReplicaSet, pod: Pod, api: ApiWriter): Promise<void> {
  const metadata = { uid: pod.metadata.uid, ownerReferences: [{ $patch: 'delete', uid: rs.metadata.uid }] };
  // 422: another pod of the same name by now, or no owner left in this one.
  await patchMetadata(pod, metadata, api, [404, 422]);
}

/** False when the apiserver refused with one of the codes that mean there is nothing to do. */
async function patchMetadata(pod: Pod, metadata: object, api: ApiWriter, fine: readonly number[]): Promise<boolean> {
  try {
    await api.patch(Pod, keyOf(pod), { type: 'strategic', body: { metadata } });
    return true;
  } catch (error) {
    if (error instanceof ApiError && fine.includes(error.code)) return false;
    throw error;
  }
}
