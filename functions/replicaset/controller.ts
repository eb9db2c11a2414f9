import { controller, EventRecorder, isControlledBy, matchesLabels } from 'levelhook/function';
import { candidates, claim } from '../lib/claim.ts';
import { Pod } from '../lib/pod.ts';
import { isIndexed, ReplicaSet } from '../lib/replica-set.ts';
import { isActive, isTerminating } from './pods.ts';
import { scale } from './scale.ts';
import { nextStatus, secondsToNextAvailable, writeStatus } from './status.ts';

/** The Events have kube-controller-manager's own source. */
const recorder = new EventRecorder({ component: 'replicaset-controller' });

/** Keeps the number of pods running that a ReplicaSet asks for. */
export const replicaset = controller({
  name: 'replicaset',
  for: ReplicaSet,
  owns: [Pod],
  // A pod without a controller may be adopted.
  watches: [{ resource: Pod, map: { by: 'selector', path: 'spec.selector', orphansOnly: true } }],
  writes: [
    { resource: ReplicaSet, subresource: 'status', verbs: ['update'] },
    { resource: Pod, verbs: ['create', 'patch', 'delete'] },
    recorder.writes,
  ],
  // For the related pods that decide the rank of victims.
  indexes: [{ resource: Pod, index: 'labels' }],
  concurrency: 5,
  timeoutSeconds: 15,
}).reconcile(async (request, context) => {
  const { cache, api } = context;
  const rs = await cache.get(ReplicaSet, request);
  if (!rs) return;

  const pods = (await candidates(Pod, rs, cache)).filter((pod) => isIndexed(rs, pod));
  const active = await claim({ owner: ReplicaSet, owned: Pod }, rs, pods.filter(isActive), api);
  const terminating = pods.filter((pod) => isTerminating(pod) && isOwn(rs, pod));

  const deleting = Boolean(rs.metadata.deletionTimestamp);
  const events = recorder.about(ReplicaSet, rs, context);
  const failure = deleting ? undefined : await scale(rs, active, events, context);

  // From the pods before scaling, because each pod that comes or goes wakes the key again.
  const now = Date.now();
  const status = nextStatus(rs, { active, terminating, failure, now });
  await writeStatus(rs, status, api);
  if (failure) throw failure;

  const requeueAfterSeconds = secondsToNextAvailable(rs, status, active, now);
  return requeueAfterSeconds === undefined ? {} : { requeueAfterSeconds };
});

function isOwn(rs: ReplicaSet, pod: Pod): boolean {
  return isControlledBy(pod, rs) && matchesLabels(rs.spec.selector, pod.metadata.labels);
}
