import { controllerReference, type NewObject } from 'levelhook/function';
import type { Condition } from '../lib/condition.ts';
import { hasEnded, type Pod } from '../lib/pod.ts';
import { ReplicaSet } from '../lib/replica-set.ts';

/** A new pod from the template, managed by the ReplicaSet. The apiserver completes its name. */
export function podFromTemplate(rs: ReplicaSet): NewObject<Pod> {
  const { name, namespace } = rs.metadata;
  const { labels = {}, annotations = {}, finalizers = [] } = rs.spec.template.metadata ?? {};
  if (Object.keys(labels).length === 0) throw new Error('unable to create pods, no labels');
  return {
    metadata: {
      ...(namespace === undefined ? {} : { namespace }),
      generateName: `${name}-`,
      labels,
      annotations,
      finalizers,
      ownerReferences: [controllerReference(ReplicaSet, rs)],
    },
    spec: rs.spec.template.spec,
  };
}

/** Counts as a replica: has not ended and is not being deleted. */
export function isActive(pod: Pod): boolean {
  return !hasEnded(pod) && !pod.metadata.deletionTimestamp;
}

/** Is being deleted and still runs. */
export function isTerminating(pod: Pod): boolean {
  return !hasEnded(pod) && Boolean(pod.metadata.deletionTimestamp);
}

export function isReady(pod: Pod): boolean {
  return readyCondition(pod)?.status === 'True';
}

/** The time when the pod became ready, in milliseconds; undefined when it is not ready, or has no time. */
export function readySince(pod: Pod): number | undefined {
  const condition = readyCondition(pod);
  return condition?.status === 'True' ? timeOf(condition.lastTransitionTime) : undefined;
}

/** Whether the pod has been ready for `minReadySeconds` at `now`. */
export function isAvailable(pod: Pod, minReadySeconds: number, now: number): boolean {
  if (!isReady(pod)) return false;
  if (minReadySeconds === 0) return true;
  const since = readySince(pod);
  return since !== undefined && since + minReadySeconds * 1000 <= now;
}

/** An API timestamp in milliseconds; undefined when there is none. */
export function timeOf(timestamp: string | null | undefined): number | undefined {
  return timestamp ? Date.parse(timestamp) : undefined;
}

function readyCondition(pod: Pod): Condition | undefined {
  return pod.status?.conditions?.find(({ type }) => type === 'Ready');
}
