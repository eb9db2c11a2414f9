import {
  ApiError,
  type Context,
  controllerOf,
  DeadlineError,
  keyOf,
  messageOf,
  type ObjectEvents,
} from 'levelhook/function';
import { failuresOf, inParallel } from '../lib/in-parallel.ts';
import { Pod } from '../lib/pod.ts';
import { isNamespaceTerminating } from '../lib/refusals.ts';
import { ReplicaSet } from '../lib/replica-set.ts';
import { podFromTemplate } from './pods.ts';
import { chooseVictims } from './victims.ts';

/** The most pods created or deleted in one run. If more are needed, the events of these pods wake the key again. */
export const BURST = 500;
/** Concurrent requests: an apiserver serves 200 writes at once to all of its clients. */
const WRITES_AT_A_TIME = 50;

/** Creates or deletes pods until the desired number exists. Returns the first failure, when all writes have ended. */
export async function scale(
  rs: ReplicaSet,
  active: readonly Pod[],
  events: ObjectEvents,
  context: Context,
): Promise<Error | undefined> {
  const surplus = active.length - rs.spec.replicas;
  if (surplus === 0) return undefined;
  const count = Math.min(Math.abs(surplus), BURST);
  if (surplus < 0) return slowStart(count, context.signal, () => createPod(rs, events, context));
  // The last pods of an old revision: all are deleted, so their rank does not matter.
  const all = count === active.length;
  const victims = all ? active : chooseVictims(active, await relatedPods(rs, context), count, Date.now());
  const [failure] = failuresOf(await inParallel(victims, WRITES_AT_A_TIME, (pod) => deletePod(pod, events, context)));
  return failure;
}

/**
 * Calls `act` `count` times in batches of 1, 2, 4, ... A failure lets its batch end, stops later batches, and is
 * returned. A cause such as a quota mostly applies to all pods, so this avoids five hundred equal failures.
 */
export async function slowStart(
  count: number,
  signal: AbortSignal,
  act: () => Promise<void>,
): Promise<Error | undefined> {
  for (let done = 0, size = 1; done < count; done += size, size *= 2) {
    if (signal.aborted) return new DeadlineError('the run is over: not all pods were created');
    const batch = Array.from({ length: Math.min(size, count - done) });
    const [failure] = failuresOf(await inParallel(batch, WRITES_AT_A_TIME, act));
    if (failure) return failure;
  }
  return undefined;
}

async function createPod(rs: ReplicaSet, events: ObjectEvents, { api }: Context): Promise<void> {
  const pod = podFromTemplate(rs);
  try {
    const created = await api.create(Pod, pod);
    events.normal('SuccessfulCreate', `Created pod: ${created.metadata.name}`);
  } catch (error) {
    if (isNamespaceTerminating(error)) return;
    events.warning('FailedCreate', `Error creating: ${messageOf(error)}`);
    throw error;
  }
}

async function deletePod(pod: Pod, events: ObjectEvents, { api }: Context): Promise<void> {
  try {
    await api.delete(Pod, keyOf(pod));
    events.normal('SuccessfulDelete', `Deleted pod: ${pod.metadata.name}`);
  } catch (error) {
    if (error instanceof ApiError && error.code === 404) return;
    events.warning('FailedDelete', `Error deleting: ${messageOf(error)}`);
    throw new Error(`unable to delete pods: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * The pods that are selected by the ReplicaSets with the same owner, a Deployment's revisions: they are spread over the
 * nodes together. Each pod counts once, also a pod of another owner (kube-controller-manager's
 * `getIndirectlyRelatedPods`).
 */
async function relatedPods(rs: ReplicaSet, { cache }: Context): Promise<Pod[]> {
  const owner = controllerOf(rs);
  if (!owner) return [];
  const { namespace = '' } = rs.metadata;
  const siblings = await cache.list(ReplicaSet, { controlledBy: { metadata: { namespace, uid: owner.uid } } });
  const lists = await Promise.all(
    siblings.items.map(({ spec }) => cache.list(Pod, { namespace, labelSelector: spec.selector, index: 'labels' })),
  );
  const pods = lists.flatMap(({ items }) => items);
  return [...new Map(pods.map((pod) => [pod.metadata.uid, pod])).values()];
}
