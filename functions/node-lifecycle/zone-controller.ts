import { controller, type Controller } from 'levelhook/function';
import { Namespace, Node } from 'levelhook/function/kinds';
import { failuresOf, inParallel } from '../lib/in-parallel.ts';
import type { NodeSettings } from './settings.ts';
import { timestamp, withLostTaint } from './taints.ts';
import { nodeChanged } from './wakes.ts';
import { planZones } from './zones.ts';

/** Where the nodes' heartbeats are. Its one key stands for all nodes: the state of all zones decides about each. */
const NAMESPACE = 'kube-node-lease';
const PARALLEL = 20;

/** Taints lost nodes with NoExecute, at the rate of their zone. */
export function nodeZones(settings: NodeSettings): Controller {
  return controller({
    name: 'node-zones',
    for: { resource: Namespace, labelSelector: { matchLabels: { 'kubernetes.io/metadata.name': NAMESPACE } } },
    watches: [{ resource: Node, predicate: nodeChanged, map: { by: 'cel', expression: `"${NAMESPACE}"` } }],
    concurrency: 1,
    timeoutSeconds: 60,
    // Many nodes change together, and each run reads all of them.
    queue: { debounce: { seconds: 0.1, maxSeconds: 0.5 } },
  }).reconcile(async (_, { api, cache }) => {
    const { items } = await cache.list(Node);
    const { taints, nextMs } = planZones(items, settings, Date.now());
    const outcomes = await inParallel(taints, PARALLEL, async ({ node, key }) => {
      const { name, resourceVersion } = node.metadata;
      // Refused when another has changed the taints since.
      const body = { metadata: { resourceVersion }, spec: { taints: withLostTaint(node, key, timestamp(Date.now())) } };
      await api.patch(Node, { name }, { type: 'merge', body });
    });
    const [failure] = failuresOf(outcomes);
    if (failure) throw failure;
    return nextMs === undefined ? {} : { requeueAfterSeconds: nextMs / 1000 };
  });
}
