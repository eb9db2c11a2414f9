import { ApiError, type Context, controller, type Controller } from 'levelhook/function';
import { Namespace, Node } from 'levelhook/function/kinds';
import { asError, inParallel } from '../lib/in-parallel.ts';
import { retrySoon } from './retry.ts';
import type { NodeSettings } from './settings.ts';
import { timestamp, withLostTaint } from './taints.ts';
import { nodeChanged } from './wakes.ts';
import { planZones, type TaintChange, takesTurn, zoneOf } from './zones.ts';

/**
 * The namespace of the nodes' heartbeats. Its single key stands for all nodes, because the state of all zones decides
 * about each node.
 */
const NAMESPACE = 'kube-node-lease';
const PARALLEL = 20;
/** For this time, further nodes are tried instead of refused ones, because an admission webhook may be slow. */
const SPARES_MS = 10_000;

/** Taints lost nodes with NoExecute, at the rate of their zone. */
export function nodeZones(settings: NodeSettings): Controller {
  return controller({
    name: 'node-zones',
    for: { resource: Namespace, labelSelector: { matchLabels: { 'kubernetes.io/metadata.name': NAMESPACE } } },
    watches: [{ resource: Node, predicate: nodeChanged, map: { by: 'cel', expression: `"${NAMESPACE}"` } }],
    writes: [{ resource: Node, verbs: ['patch'] }],
    concurrency: 1,
    timeoutSeconds: 60,
    // Many nodes change together, and each run reads all of them.
    queue: { debounce: { seconds: 0.1, maxSeconds: 0.5 } },
  }).reconcile(async ({ attempt }, context) => {
    const { items } = await context.cache.list(Node);
    const { taints, spares, nextMs } = planZones(items, settings, Date.now());
    const left = new Map([...spares].map(([zone, changes]) => [zone, [...changes]]));
    const failures: Error[] = [];
    const untilMs = Date.now() + SPARES_MS;
    await inParallel(taints, PARALLEL, async (planned) => {
      const isTurn = takesTurn(planned);
      for (let change: TaintChange | undefined = planned; change; change = left.get(zoneOf(planned.node))?.shift()) {
        const failure = await write(change, context).then(() => undefined, asError);
        if (!failure) return;
        failures.push(failure);
        if (!isTurn || !isRefusal(failure) || Date.now() > untilMs) return;
      }
    });
    const seconds = nextMs === undefined ? undefined : nextMs / 1000;
    const [failure] = failures;
    if (failure) throw retrySoon(failure, attempt, seconds);
    return seconds === undefined ? {} : { requeueAfterSeconds: seconds };
  });
}

/** The apiserver refused this node. After any other failure the node may have its taint. */
function isRefusal(error: Error): boolean {
  return error instanceof ApiError && error.code < 500 && error.code !== 429;
}

async function write({ node, key }: TaintChange, { api }: Context): Promise<void> {
  const { name, resourceVersion } = node.metadata;
  // Refused when another client has changed the taints since.
  const body = { metadata: { resourceVersion }, spec: { taints: withLostTaint(node, key, timestamp(Date.now())) } };
  await api.patch(Node, { name }, { type: 'merge', body });
}
