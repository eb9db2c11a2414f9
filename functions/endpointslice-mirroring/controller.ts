import { controller, EventRecorder } from 'levelhook/function';
import { Endpoints, EndpointSlice, Service } from 'levelhook/function/kinds';
import {
  LEADER_RECORD,
  MANAGED_BY,
  NO_CHANGES,
  SERVICE_NAME,
  slicesByService,
  slicesManagedBy,
  writeSlices,
} from '../lib/endpoint-slices.ts';
import { MANAGER, MAX_ENDPOINTS, mirror } from './mirror.ts';

/** The Events have kube-controller-manager's own source. */
const recorder = new EventRecorder({ component: 'endpoint-slice-mirroring-controller' });

/** Mirrors Endpoints that people or programs write for a Service without a selector into EndpointSlices. */
export const endpointsliceMirroring = controller({
  name: 'endpointslice-mirroring',
  for: Service,
  watches: [
    slicesManagedBy(MANAGER),
    // Not a plain watch: most Endpoints belong to a Service with a selector, and change whenever its pods do.
    { resource: Endpoints, map: { by: 'related' } },
  ],
  writes: [
    { resource: EndpointSlice, verbs: ['create', 'update', 'delete'] },
    // Its slices' owner references block the deletion of the Endpoints, which takes this right.
    { resource: Endpoints, subresource: 'finalizers', verbs: ['update'] },
    recorder.writes,
  ],
  indexes: [slicesByService],
  concurrency: 10,
  timeoutSeconds: 15,
}).reconcile(async (request, context) => {
  const { cache, api } = context;
  const { namespace = '', name } = request;
  const owner = `Endpoints ${namespace}/${name}`;
  const [endpoints, service, { items }] = await Promise.all([
    cache.get(Endpoints, request),
    cache.get(Service, request),
    cache.list(EndpointSlice, {
      namespace,
      index: { spec: slicesByService.index, value: name },
      labelSelector: { matchLabels: { [SERVICE_NAME]: name, [MANAGED_BY]: MANAGER } },
    }),
  ]);
  const slices = items.filter(({ metadata }) => !metadata.deletionTimestamp);
  const isWithoutSelector = service !== undefined && !service.spec?.selector;
  context.related(isWithoutSelector ? [{ resource: Endpoints, namespace, names: [name] }] : []);
  if (!endpoints || !isForMirroring(endpoints) || !isWithoutSelector) {
    await writeSlices(owner, { ...NO_CHANGES, delete: slices }, api);
    return;
  }

  const { changes, invalid, tooMany } = mirror(endpoints, slices);
  const events = recorder.about(Endpoints, endpoints, context);
  if (invalid > 0) {
    events.warning('InvalidIPAddress', `Skipped ${invalid} invalid IP addresses when mirroring to EndpointSlices`);
  }
  if (tooMany > 0) {
    const message = `A max of ${MAX_ENDPOINTS} addresses can be mirrored to EndpointSlices per Endpoints subset. ${invalid + tooMany} addresses were skipped`;
    events.warning('TooManyAddressesToMirror', message);
  }
  await writeSlices(owner, changes, api);
});

/** Some programs use an Endpoints object for leader election; it has no addresses. */
function isForMirroring({ metadata: { labels = {}, annotations = {} } }: Endpoints): boolean {
  return labels['endpointslice.kubernetes.io/skip-mirror'] !== 'true' && annotations[LEADER_RECORD] === undefined;
}
