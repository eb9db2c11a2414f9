import { type Context, controller, EventRecorder } from 'levelhook/function';
import { Node, Pod, type Taint } from 'levelhook/function/kinds';
import { asError } from '../lib/in-parallel.ts';
import { forEachPod, ON_NODE, podsOn } from './pods.ts';
import { retrySoon } from './retry.ts';
import { timestamp } from './taints.ts';
import { noExecuteTaints, timeLeftMs } from './tolerations.ts';
import { bindingChanged, taintsChanged } from './wakes.ts';

/** Each taint has a time of its own, so that changes of other taints do not make it look new. */
export const EVICTING_TAINTS = 'spec.taints[effect=NoExecute]{key,value}';

/** The Events have kube-controller-manager's own source. */
const recorder = new EventRecorder({ component: 'taint-eviction-controller' });

/** A pod may tolerate a taint for 2^63 - 1 seconds, and no key waits for longer than a year. */
const LONGEST_WAIT_SECONDS = 86_400;

/** Deletes pods from nodes with NoExecute taints that they do not tolerate, or no longer tolerate. */
export const taintEviction = controller({
  name: 'taint-eviction',
  for: { resource: Node, predicate: taintsChanged },
  watches: [{ resource: Pod, predicate: bindingChanged, map: { by: 'field', path: 'spec.nodeName' } }],
  writes: [
    { resource: Pod, verbs: ['delete'] },
    { resource: Pod, subresource: 'status', verbs: ['patch'] },
    recorder.writes,
  ],
  indexes: [{ resource: Pod, index: ON_NODE }],
  observes: [{ resource: Node, field: EVICTING_TAINTS }],
  concurrency: 20,
  timeoutSeconds: 30,
}).reconcile(async ({ name, attempt }, context) => {
  const node = await context.cache.get(Node, { name });
  const taints = node ? noExecuteTaints(node) : [];
  if (taints.length === 0) return;
  const nowMs = Date.now();
  const known = await Promise.all(
    taints.map(async (taint) => {
      const seconds = await context.cache.secondsUnchanged(Node, { name }, EVICTING_TAINTS, taint);
      return [taint, 1000 * (seconds ?? 0)] as const;
    }),
  );
  const knownMs = new Map(known);
  const pods = (await podsOn(name, context)).filter(({ metadata }) => !metadata.deletionTimestamp);
  const left = new Map(
    pods.map((pod) => [pod, timeLeftMs(pod, taints, (taint) => ageMs(taint, pod, knownMs.get(taint) ?? 0, nowMs))]),
  );
  const next = Math.min(...[...left.values()].filter((ms) => ms > 0));
  const seconds = next === Infinity ? undefined : Math.min(next / 1000, LONGEST_WAIT_SECONDS);
  try {
    await forEachPod(
      pods.filter((pod) => left.get(pod) === 0),
      (pod) => evict(pod, context),
    );
  } catch (error) {
    throw retrySoon(asError(error), attempt, seconds);
  }
  return seconds === undefined ? {} : { requeueAfterSeconds: seconds };
});

/**
 * How long the pod has been under the taint: the age that the taint states, or the time that the gateway has seen it if
 * that is longer, and at most the time since the pod was scheduled.
 */
function ageMs({ timeAdded }: Taint, pod: Pod, knownMs: number, nowMs: number): number {
  const added = timeAdded ? nowMs - Date.parse(timeAdded) : 0;
  const scheduled = pod.status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'True');
  const since = scheduled?.lastTransitionTime ?? pod.metadata.creationTimestamp;
  const there = since ? nowMs - Date.parse(since) : Infinity;
  return Math.max(0, Math.min(Math.max(added, knownMs), there));
}

async function evict(pod: Pod, context: Context): Promise<void> {
  const { api } = context;
  const { namespace = '', name, uid, generation } = pod.metadata;
  recorder.about(Pod, pod, context).normal('TaintManagerEviction', `Marking for deletion Pod ${namespace}/${name}`);
  const condition = {
    type: 'DisruptionTarget',
    status: 'True',
    reason: 'DeletionByTaintManager',
    message: 'Taint manager: deleting due to NoExecute taint',
  };
  const before = pod.status?.conditions?.find(({ type }) => type === condition.type);
  const isMarked = (['status', 'reason', 'message'] as const).every((part) => before?.[part] === condition[part]);
  if (!isMarked || before?.lastProbeTime) {
    // Another controller may have marked it before; then its time stays.
    const since = before?.status === condition.status ? before.lastTransitionTime : undefined;
    const next = {
      ...condition,
      lastProbeTime: null,
      lastTransitionTime: since ?? timestamp(Date.now()),
      ...(generation === undefined ? {} : { observedGeneration: generation }),
    };
    const body = { metadata: { uid }, status: { conditions: [next] } };
    await api.patch(Pod, { namespace, name }, { type: 'strategic', body }, 'status');
  }
  await api.delete(Pod, { namespace, name }, { preconditions: { uid } });
}
