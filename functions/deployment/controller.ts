import { type Context, controller, EventRecorder, type ObjectEvents, type Result } from 'levelhook/function';
import { candidates, claim } from '../lib/claim.ts';
import { Pod } from '../lib/pod.ts';
import { ReplicaSet } from '../lib/replica-set.ts';
import { cleanUp } from './cleanup.ts';
import { updateCurrent } from './current.ts';
import { secondsToDeadline, withBeginning, withPause, withProgress } from './progress.ts';
import { resize } from './resize.ts';
import { revisionsOf } from './revisions.ts';
import { rollOut } from './rollout.ts';
import { scalingSizes, wasResized } from './scaling.ts';
import { countedStatus, withRevision, writeStatus } from './status.ts';
import { Deployment } from './types.ts';

/** The Events have kube-controller-manager's own source. */
const recorder = new EventRecorder({ component: 'deployment-controller' });

/** Moves a Deployment's pods from one template to the next, with a ReplicaSet for each. */
export const deployment = controller({
  name: 'deployment',
  for: Deployment,
  owns: [ReplicaSet],
  // A ReplicaSet without a controller may be adopted.
  watches: [{ resource: ReplicaSet, map: { by: 'selector', path: 'spec.selector', orphansOnly: true } }],
  // For Recreate. A pod that disappears changes the status of its ReplicaSet, which wakes the key.
  reads: [Pod],
  writes: [
    { resource: Deployment, subresource: 'status', verbs: ['update'] },
    { resource: ReplicaSet, verbs: ['create', 'patch', 'delete'] },
    recorder.writes,
  ],
  concurrency: 5,
  timeoutSeconds: 15,
}).reconcile(async (request, context) => {
  const found = await context.cache.get(Deployment, request);
  if (!found) return;
  const { next, ...result } = await takeStep(found, recorder.about(Deployment, found, context), context);
  await writeStatus(found, next, context.api);
  return result;
});

/** Takes the next step. `next` is the Deployment with the status at that point. */
async function takeStep(
  found: Deployment,
  events: ObjectEvents,
  context: Context,
): Promise<Result & { next: Deployment }> {
  const { cache, api } = context;
  const now = Date.now();
  if (selectsAll(found)) {
    events.warning('SelectingAll', 'This deployment is selecting all pods. A non-empty selector is required.');
    const observedGeneration = found.metadata.generation ?? 0;
    return { next: { ...found, status: { ...found.status, observedGeneration } } };
  }

  const kinds = { owner: Deployment, owned: ReplicaSet };
  const revisions = revisionsOf(found, await claim(kinds, found, await candidates(ReplicaSet, found, cache), api));
  if (found.metadata.deletionTimestamp) {
    return { next: { ...found, status: countedStatus(found, revisions, now) } };
  }

  const { old } = revisions;
  const current = revisions.current && (await updateCurrent(found, revisions.current, old, api));
  const deployment = withBeginning(withPause(found), current);
  if (deployment.spec.paused || wasResized(deployment, { current, old })) {
    await resize(deployment, scalingSizes(deployment, { current, old }), events, api);
    if (deployment.spec.paused) await cleanUp(deployment, old, api);
    const status = countedStatus(deployment, { current, old }, now);
    return { next: withRevision({ ...deployment, status }, current) };
  }

  const step = await rollOut(deployment, { current, old }, events, context);
  if (!step) return { next: found };
  const reached = { current: step.current, old };
  const status = withProgress(step.deployment, countedStatus(step.deployment, reached, now), reached, now);
  const next = withRevision({ ...step.deployment, status }, step.current);
  const seconds = step.lookAgainSeconds ?? secondsToDeadline(found, status, now);
  return seconds === undefined ? { next } : { next, requeueAfterSeconds: seconds };
}

function selectsAll({ spec: { selector } }: Deployment): boolean {
  return Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0;
}
