import { cel, controller, EventRecorder, messageOf } from 'levelhook/function';
import { EndpointSlice, Node, Service } from 'levelhook/function/kinds';
import { SERVICE_NAME, MANAGED_BY, slicesByService, slicesManagedBy, writeSlices } from '../lib/endpoint-slices.ts';
import { podLabels, podsOfServices, selectedPods, selectorOf, oncePerSecond } from '../lib/service-pods.ts';
import { publishedPods } from './endpoints.ts';
import { MANAGER, planSlices } from './slices.ts';

/** Tells under the name of kube-controller-manager's own. */
const recorder = new EventRecorder({ component: 'endpoint-slice-controller' });

const zoneOf = (node: string): string =>
  `(has(${node}.metadata.labels) && 'topology.kubernetes.io/zone' in ${node}.metadata.labels ? ${node}.metadata.labels['topology.kubernetes.io/zone'] : '')`;
/** A node that a cloud is still setting up runs no pods. */
const isBeingSetUp = (node: string): string =>
  `(has(${node}.spec.taints) && ${node}.spec.taints.exists(t, t.key == 'node.cloudprovider.kubernetes.io/uninitialized'))`;

/** Keeps in EndpointSlices which pods stand behind a Service, by address and port. */
export const endpointslice = controller({
  name: 'endpointslice',
  for: Service,
  ownNamespaceOnly: true,
  watches: [
    podsOfServices,
    slicesManagedBy(MANAGER),
    // A node moves to another zone when somebody edits its label, and then any Service may have a pod on it.
    {
      resource: Node,
      map: { by: 'all' },
      predicate: cel(
        `oldObject != null && !${isBeingSetUp('oldObject')} && ${zoneOf('object')} != ${zoneOf('oldObject')}`,
      ),
    },
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
  try {
    await writeSlices(planSlices(service, { pods: published, nodes, slices }), api);
    // All others are in the slices. Most often the node is about to appear in the cache.
    const [pod] = withoutNode;
    if (pod)
      throw new Error(`${withoutNode.length} pods left out: no node ${pod.spec?.nodeName} of ${pod.metadata.name}`);
  } catch (error) {
    const message = `Error updating Endpoint Slices for Service ${namespace}/${name}: ${messageOf(error)}`;
    recorder.about(Service, service, context).warning('FailedToUpdateEndpointSlices', message);
    throw error;
  }
});
