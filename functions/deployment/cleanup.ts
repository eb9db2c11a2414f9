import { ApiError, type ApiWriter, keyOf } from 'levelhook/function';
import { ReplicaSet } from '../lib/replica-set.ts';
import { revisionOf } from './annotations.ts';
import { byAge } from './revisions.ts';
import type { Deployment } from './types.ts';

/** Deletes the oldest revisions beyond the limit of the history, except those with pods. */
export async function cleanUp(deployment: Deployment, old: readonly ReplicaSet[], api: ApiWriter): Promise<void> {
  const { revisionHistoryLimit = Infinity } = deployment.spec;
  const alive = old.filter((rs) => !rs.metadata.deletionTimestamp).toSorted(byRevision);
  const surplus = alive.slice(0, Math.max(0, alive.length - revisionHistoryLimit));
  for (const rs of surplus.filter(isEmpty)) {
    try {
      await api.delete(ReplicaSet, keyOf(rs));
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 404)) throw error;
    }
  }
}

/** Wants no pods, and its status shows none for its current size. */
function isEmpty({ spec, status, metadata }: ReplicaSet): boolean {
  return spec.replicas === 0 && status.replicas === 0 && (metadata.generation ?? 0) <= (status.observedGeneration ?? 0);
}

function byRevision(a: ReplicaSet, b: ReplicaSet): number {
  const [first, second] = [revisionOf(a), revisionOf(b)];
  if (first === undefined || second === undefined || first === second) return byAge(a, b);
  return first < second ? -1 : 1;
}
