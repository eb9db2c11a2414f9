import { ApiError, type Context, EventRecorder } from 'levelhook/function';
import { type Node, Pod } from 'levelhook/function/kinds';
import { failuresOf, inParallel } from '../lib/in-parallel.ts';
import { timestamp } from './taints.ts';

export const ON_NODE = 'field:spec.nodeName';
/** Concurrent requests. */
const PARALLEL = 20;

/** The pods that are bound to the node, from the cache. */
export async function podsOn(name: string, { cache }: Pick<Context, 'cache'>): Promise<Pod[]> {
  return (await cache.list(Pod, { index: { spec: ON_NODE, value: name } })).items;
}

/** Calls `act` for each pod. A pod that is gone needs nothing. @throws the first other failure, after all calls */
export async function forEachPod(pods: readonly Pod[], act: (pod: Pod) => Promise<void>): Promise<void> {
  const outcomes = await inParallel(pods, PARALLEL, act);
  const failure = failuresOf(outcomes).find((error) => !(error instanceof ApiError && error.code === 404));
  if (failure) throw failure;
}

/** The Events have kube-controller-manager's own source. */
export const recorder = new EventRecorder({ component: 'node-controller' });

/** Marks all pods of a node that is no longer ready as not ready, so that their Services stop sending to them. */
export async function markPodsNotReady(node: Node, context: Context): Promise<void> {
  const pods = (await podsOn(node.metadata.name, context)).filter(isReady);
  await forEachPod(pods, async (pod) => {
    const { uid, namespace = '', name } = pod.metadata;
    const conditions = [{ type: 'Ready', status: 'False', lastTransitionTime: timestamp(Date.now()) }];
    const body = { metadata: { uid }, status: { conditions } };
    await context.api.patch(Pod, { namespace, name }, { type: 'strategic', body }, 'status');
    recorder.about(Pod, pod, context).warning('NodeNotReady', 'Node is not ready');
  });
}

function isReady({ status }: Pod): boolean {
  const condition = status?.conditions?.find(({ type }) => type === 'Ready');
  return condition !== undefined && condition.status !== 'False';
}
