import {
  ApiError,
  type Context,
  controller,
  type Controller,
  type ReconcileRequest,
  type Result,
} from 'levelhook/function';
import { Lease, Node, Pod } from 'levelhook/function/kinds';
import { asError } from '../lib/in-parallel.ts';
import { followingLabels } from './labels.ts';
import { markPodsNotReady, ON_NODE, recorder } from './pods.ts';
import { retrySoon } from './retry.ts';
import type { NodeSettings } from './settings.ts';
import {
  graceSeconds,
  HEARTBEAT,
  RENEWAL,
  secondsSilent,
  SILENT_REASON,
  silentAtApiserver,
  unknownConditions,
} from './silence.ts';
import { conditionOf, mirroredTaints, NOT_READY, readyStatus, taintsOf, timestamp } from './taints.ts';
import { nodeChanged } from './wakes.ts';

/** Attempts follow one another in seconds, but for an outage of the function or of the gateway. */
const RETRIED_MS = 3_600_000;
/** A node is checked this long after its grace period, when the period is certainly over. */
const MARGIN_SECONDS = 0.05;
/** After a conflict the cache has the newer node by then. */
const AGAIN_SECONDS = 0.5;

/** Sets the conditions of nodes whose kubelet is silent, and the NoSchedule taints and old labels of all nodes. */
export function nodeLifecycle(settings: NodeSettings): Controller {
  return controller({
    name: 'node-lifecycle',
    // A heartbeat wakes nothing. Each run requeues itself for the end of the grace period.
    for: { resource: Node, predicate: nodeChanged },
    reads: [Lease, Pod],
    writes: [
      { resource: Node, verbs: ['patch'] },
      { resource: Node, subresource: 'status', verbs: ['update'] },
      { resource: Pod, subresource: 'status', verbs: ['patch'] },
      recorder.writes,
    ],
    indexes: [{ resource: Pod, index: ON_NODE }],
    observes: [
      { resource: Node, field: HEARTBEAT },
      { resource: Lease, field: RENEWAL },
    ],
    concurrency: 20,
    timeoutSeconds: 15,
  }).reconcile((request, context) => reconcile(request, context, settings));
}

async function reconcile(request: ReconcileRequest, context: Context, settings: NodeSettings): Promise<Result> {
  const found = await context.cache.get(Node, { name: request.name });
  if (!found) return {};
  const { name } = found.metadata;
  if (request.reasons.some(({ type, object }) => type === 'added' && object === `v1/Node ${name}`)) {
    recorder
      .about(Node, found, context)
      .normal('RegisteredNode', `Node ${name} event: Registered Node ${name} in Controller`);
  }

  const left = graceSeconds(found, settings) - (await secondsSilent(found, context));
  // A node with unknown readiness stays so until its kubelet reports, which wakes the key.
  const isWatched = readyStatus(found) !== 'Unknown';
  let node = found;
  let fellSilent = false;
  if (isWatched && left < 0) {
    const silent = await silentAtApiserver(found, context);
    // The cache will soon have the heartbeat.
    if (!silent) return { requeueAfterSeconds: 1 };
    const conditions = unknownConditions(silent, Date.now());
    node = await context.api.replace(Node, { ...silent, status: { ...silent.status, conditions } }, 'status');
    fellSilent = readyStatus(silent) === 'True';
  }

  // The taint first: refused writes of pods must not let new pods come. Each write happens even if the other fails.
  if (fellSilent) {
    recorder.about(Node, node, context).normal('NodeNotReady', `Node ${name} status is now: NodeNotReady`);
  }
  const tainting = await settled(writeTaintsAndLabels(node, context));
  // Only when a ready node falls silent: a kubelet that reports itself as not ready reports its pods too.
  const marks = fellSilent || (request.attempt > 1 && mayHaveReadyPods(found));
  const marking = marks ? await settled(markPodsNotReady(node, context)) : undefined;
  // Another client has changed the node since. This is no failed attempt, after which pods would be marked.
  if (!marking && tainting instanceof ApiError && tainting.code === 409) return { requeueAfterSeconds: AGAIN_SECONDS };
  const failure = tainting ?? marking;
  if (failure) throw retrySoon(failure, request.attempt);
  return isWatched && left >= 0 ? { requeueAfterSeconds: left + MARGIN_SECONDS } : {};
}

/**
 * Whether pods may still be marked as ready after a run that has found the node silent, and has failed: the node has
 * fallen silent in the last hour. The taint of a node that was not ready before is still there: only its pods' kubelet
 * has marked them. kube-controller-manager remembers such nodes instead, while it runs (`nodesToRetry`).
 */
function mayHaveReadyPods(node: Node): boolean {
  const { reason, lastTransitionTime = '' } = conditionOf(node, 'Ready') ?? {};
  const isRecent = Date.now() - Date.parse(lastTransitionTime) < RETRIED_MS;
  return reason === SILENT_REASON && isRecent && !taintsOf(node).some(({ key }) => key === NOT_READY);
}

const settled = (work: Promise<void>): Promise<Error | undefined> => work.then(() => undefined, asError);

async function writeTaintsAndLabels(node: Node, { api }: Context): Promise<void> {
  const taints = mirroredTaints(node, timestamp(Date.now()));
  const labels = followingLabels(node);
  if (!taints && !labels) return;
  const { name, resourceVersion } = node.metadata;
  // Refused when another client has changed the taints since.
  const body = {
    metadata: { resourceVersion, ...(labels ? { labels } : {}) },
    ...(taints ? { spec: { taints } } : {}),
  };
  await api.patch(Node, { name }, { type: 'merge', body });
}
