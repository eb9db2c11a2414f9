import { cel, controller, EventRecorder, messageOf } from 'levelhook/function';
import { EndpointSlice, Node, type Pod, Service } from 'levelhook/function/kinds';
import { SERVICE_NAME, MANAGED_BY, slicesByService, slicesManagedBy, writeSlices } from '../lib/endpoint-slices.ts';
import { podLabels, podsOfServices, selectedPods, selectorOf, oncePerSecond } from '../lib/service-pods.ts';
import { asError } from '../lib/in-parallel.ts';
import { publishedPods } from './endpoints.ts';
import { MANAGER, planSlices } from './slices.ts';

/** The Events have kube-controller-manager's own source. */
const recorder = new EventRecorder({ component: 'endpoint-slice-controller' });

/** Seconds until the next check for a node that appears after its pods, and the number of pods that an Event names. */
const NODE_SECONDS = 10;
const MAX_TOLD = 10;

const zoneOf = (node: string): string =>
  `(has(${node}.metadata.labels) && 'topology.kubernetes.io/zone' in ${node}.metadata.labels ? ${node}.metadata.labels['topology.kubernetes.io/zone'] : '')`;
/** A node that a cloud is still setting up runs no pods. */
const isBeingSetUp = (node: string): string =>
  `(has(${node}.spec.taints) && ${node}.spec.taints.exists(t, t.key == 'node.cloudprovider.kubernetes.io/uninitialized'))`;

/** Keeps EndpointSlices with the addresses and ports of the pods behind a Service. */
export const endpointslice = controller({
  name: 'endpointslice',
  for: Service,
  watches: [
    podsOfServices,
    slicesManagedBy(MANAGER),
    // A node moves to another zone when a user edits its label, and then any Service may have a pod on it.
    {
      resource: Node,
      map: { by: 'all' },
      predicate: cel(
        `oldObject != null && !${isBeingSetUp('oldObject')} && ${zoneOf('object')} != ${zoneOf('oldObject')}`,
      ),
    },
  ],
  writes: [
    { resource: EndpointSlice, verbs: ['create', 'update', 'delete'] },
    // Its slices' owner references block the deletion of the Service, which takes this right.
    { resource: Service, subresource: 'finalizers', verbs: ['update'] },
    recorder.writes,
  ],
  indexes: [podLabels, slicesByService],
  concurrency: 10,
  timeoutSeconds: 15,
  queue: oncePerSecond,
}).reconcile(async (request, context) => {
  const { cache, api } = context;
  const service = await cache.get(Service, request);
  const selector = service && selectorOf(service);
  if (!selector) return;

  const { namespace = '', name } = service.metadata;
  const owner = `Service ${namespace}/${name}`;
  const [pods, { items: managed }] = await Promise.all([
    selectedPods(service, selector, cache),
    cache.list(EndpointSlice, {
      namespace,
      index: { spec: slicesByService.index, value: name },
      labelSelector: { matchLabels: { [SERVICE_NAME]: name, [MANAGED_BY]: MANAGER } },
    }),
  ]);
  const nodeNames = [...new Set(pods.flatMap(({ spec }) => spec?.nodeName ?? []))];
  const found = await Promise.all(nodeNames.map((each) => cache.get(Node, { name: each })));
  const nodes = new Map(found.flatMap((node) => (node ? [[node.metadata.name, node]] : [])));

  const { published, withoutNode } = publishedPods(service, pods, nodes);
  const slices = managed.filter(({ metadata }) => !metadata.deletionTimestamp);
  // All other pods are in the slices. Most often the node is about to appear in the cache.
  const problems = withoutNode.slice(0, MAX_TOLD).map((pod) => skipped(pod, owner));
  const failure = await writeSlices(owner, planSlices(service, { pods: published, nodes, slices }), api).then(
    () => undefined,
    asError,
  );
  if (failure) problems.push(messageOf(failure));
  const [problem] = problems;
  if (problem !== undefined) {
    // As kube-controller-manager joins errors.
    const told = problems.length === 1 ? problem : `[${problems.join(', ')}]`;
    const message = `Error updating Endpoint Slices for ${owner}: ${told}`;
    recorder.about(Service, service, context).warning('FailedToUpdateEndpointSlices', message);
    throw new Error(told);
  }
  // A Service that publishes all its pods shows them without a zone until their nodes exist.
  return published.every(({ spec }) => !spec?.nodeName || nodes.has(spec.nodeName))
    ? {}
    : { requeueAfterSeconds: NODE_SECONDS };
});

/** In the words of kube-controller-manager. */
function skipped({ metadata, spec }: Pod, owner: string): string {
  return `skipping Pod ${metadata.name} for ${owner}: Node ${spec?.nodeName ?? ''} Not Found`;
}
