import { controllerReference, equal, type NewObject } from 'levelhook/function';
import {
  type DiscoveryV1EndpointPort,
  type Endpoint,
  type EndpointSlice,
  type Node,
  type Pod,
  Service,
} from 'levelhook/function/kinds';
import { HEADLESS, joined, MANAGED_BY, portsKey, SERVICE_NAME, type SliceChanges } from '../lib/endpoint-slices.ts';
import { earliestReadiness, isHeadless, withTriggerTime } from '../lib/service-pods.ts';
import { familiesOf, type Family, portGroups } from './endpoints.ts';
import { withHints } from './hints.ts';
import { packEndpoints } from './packing.ts';

/** The manager's name on the slices: kube-controller-manager's own. */
export const MANAGER = 'endpointslice-controller.k8s.io';
/** kube-controller-manager's default for `--max-endpoints-per-slice`. */
export const MAX_ENDPOINTS = 100;

/** The inputs for a Service's slices. */
export interface Observed {
  /** Published pods (`publishedPods`). */
  readonly pods: readonly Pod[];
  readonly nodes: ReadonlyMap<string, Node>;
  /** All slices of the Service that this controller manages, except slices that are being deleted. */
  readonly slices: readonly EndpointSlice[];
}

/** The writes that make the slices show a Service's pods. */
export function planSlices(service: Service, observed: Observed): SliceChanges {
  const families = familiesOf(service);
  const { slices } = observed;
  const plans = families.map((family) =>
    planFamily(service, family, { ...observed, slices: slices.filter(({ addressType }) => addressType === family) }),
  );
  const foreign = slices.filter(({ addressType }) => !families.some((family) => family === addressType));
  const plan = withTimes(service, observed, joined([...plans, { create: [], update: [], delete: foreign }]));
  // The Service is being deleted: the garbage collector would have to delete new slices, too.
  return service.metadata.deletionTimestamp ? { ...plan, create: [] } : plan;
}

interface Draft {
  readonly ports: readonly DiscoveryV1EndpointPort[];
  readonly endpoints: readonly Endpoint[];
}

function planFamily(service: Service, family: Family, { pods, nodes, slices }: Observed): SliceChanges {
  const groups = portGroups(service, pods, { family, nodes });
  const labels = labelsOf(service);
  // Slices of an earlier Service of this name are deleted, whatever their contents.
  const own = slices.filter((slice) => isOwnedBy(slice, service));
  const byPorts = Object.groupBy(own, ({ ports }) => portsKey(ports ?? []));

  const create: Draft[] = [];
  const update = new Map<EndpointSlice, readonly Endpoint[]>();
  const remove = slices.filter((slice) => !own.includes(slice));
  for (const [key, { ports, endpoints }] of groups) {
    const mustWrite = (slice: EndpointSlice): boolean => !hasLabels(slice, labels);
    const packing = packEndpoints(byPorts[key] ?? [], endpoints, { max: MAX_ENDPOINTS, mustWrite });
    create.push(...packing.create.map((each) => ({ ports, endpoints: each })));
    for (const { slice, endpoints: next } of packing.update) update.set(slice, next);
    remove.push(...packing.delete);
  }
  remove.push(...own.filter(({ ports }) => !groups.has(portsKey(ports ?? []))));

  if (slices.length === remove.length && create.length === 0) {
    const [only] = remove;
    // At least one slice always exists, to show that the Service was processed.
    if (remove.length === 1 && only && isPlaceholder(only, labels)) remove.pop();
    else create.push({ ports: [], endpoints: [] });
  }

  const distribution = service.spec?.trafficDistribution;
  const hinted = (endpoints: readonly Endpoint[]): Endpoint[] => endpoints.map((each) => withHints(each, distribution));
  for (const slice of slices) {
    if (update.has(slice) || remove.includes(slice)) continue;
    const endpoints = slice.endpoints ?? [];
    const next = hinted(endpoints);
    if (next.some((endpoint, at) => endpoint !== endpoints[at])) update.set(slice, next);
  }
  const updated = [...update].map(([slice, endpoints]) =>
    rewritten(slice, labels, { ports: slice.ports ?? [], endpoints: hinted(endpoints) }),
  );

  // A slice that would be deleted is filled again instead of creating a new one.
  const reused = remove.filter((slice) => isOwnedBy(slice, service)).slice(0, create.length);
  const drafts = create.map(({ ports, endpoints }) => ({ ports, endpoints: hinted(endpoints) }));
  return {
    create: drafts.slice(reused.length).map((draft) => newSlice(service, family, labels, draft)),
    update: [
      ...updated,
      ...reused.map((slice, at) =>
        refilled(slice, newSlice(service, family, labels, drafts[at] ?? { ports: [], endpoints: [] })),
      ),
    ],
    delete: remove.filter((slice) => !reused.includes(slice)),
  };
}

function newSlice(
  service: Service,
  addressType: Family,
  labels: Record<string, string>,
  { ports, endpoints }: Draft,
): NewObject<EndpointSlice> {
  const { name, namespace } = service.metadata;
  return {
    metadata: {
      ...(namespace ? { namespace } : {}),
      generateName: `${name}-`,
      labels,
      ownerReferences: [controllerReference(Service, service)],
    },
    addressType,
    ports: [...ports],
    endpoints: [...endpoints],
  };
}

function rewritten(slice: EndpointSlice, labels: Record<string, string>, { ports, endpoints }: Draft): EndpointSlice {
  return { ...slice, metadata: { ...slice.metadata, labels }, ports: [...ports], endpoints: [...endpoints] };
}

/**
 * Replaces the content of a slice that would be deleted. Its annotations and finalizers go, as in a new slice.
 */
function refilled({ metadata, ...slice }: EndpointSlice, draft: NewObject<EndpointSlice>): EndpointSlice {
  const { finalizers: _, ...kept } = metadata;
  return { ...slice, ...draft, metadata: { ...kept, ...draft.metadata, annotations: {} } };
}

/** The Service's labels without this controller's reserved labels, and the reserved labels that apply. */
function labelsOf(service: Service): Record<string, string> {
  const { [HEADLESS]: _, ...labels } = service.metadata.labels ?? {};
  return {
    ...labels,
    ...(isHeadless(service) ? { [HEADLESS]: '' } : {}),
    [SERVICE_NAME]: service.metadata.name,
    [MANAGED_BY]: MANAGER,
  };
}

/** Whether a slice has the Service's labels. A change of the reserved labels alone is no reason to write it. */
function hasLabels(slice: EndpointSlice, labels: Readonly<Record<string, string>>): boolean {
  return equal(withoutReserved(slice.metadata.labels), withoutReserved(labels));
}

const RESERVED: ReadonlySet<string> = new Set([HEADLESS, SERVICE_NAME, MANAGED_BY]);

function withoutReserved(labels: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => !RESERVED.has(key)));
}

/**
 * Whether the slice will do as the only one of a Service without endpoints (`placeholderSliceCompare` of
 * k8s.io/endpointslice). Its owner does not count, and neither does a label with an empty value.
 */
function isPlaceholder(
  { metadata, endpoints, ports }: EndpointSlice,
  labels: Readonly<Record<string, string>>,
): boolean {
  const has = metadata.labels ?? {};
  const names = Object.keys({ ...has, ...labels });
  const isBare = (endpoints ?? []).length === 0 && (ports ?? []).length === 0;
  return isBare && names.every((name) => (has[name] ?? '') === (labels[name] ?? ''));
}

function isOwnedBy({ metadata }: EndpointSlice, service: Service): boolean {
  return (metadata.ownerReferences ?? []).some(
    ({ apiVersion, kind, uid }) => apiVersion === 'v1' && kind === 'Service' && uid === service.metadata.uid,
  );
}

/**
 * Sets the trigger time. For the first slices it is the Service's creation; later it is the earliest time at which a
 * pod's readiness changed, among the pods whose change is new in the slices. kube-controller-manager remembers the
 * times that it has seen; here the slices store them.
 */
function withTimes(service: Service, { pods, slices }: Observed, changes: SliceChanges): SliceChanges {
  const known = new Map(
    slices.flatMap(({ endpoints }) => (endpoints ?? []).map((each) => [each.targetRef?.uid, each])),
  );
  const written = new Map(
    [...changes.create, ...changes.update].flatMap(({ endpoints }) =>
      (endpoints ?? []).map((each) => [each.targetRef?.uid, each]),
    ),
  );
  const isNews = ({ metadata: { uid } }: Pod): boolean => {
    const next = written.get(uid);
    return next !== undefined && next.conditions?.serving !== known.get(uid)?.conditions?.serving;
  };
  const time = slices.length === 0 ? service.metadata.creationTimestamp : earliestReadiness(pods.filter(isNews));
  const timed = <T extends { metadata: { annotations?: Record<string, string> } }>(slice: T): T => ({
    ...slice,
    metadata: { ...slice.metadata, annotations: withTriggerTime(slice.metadata.annotations, time) },
  });
  return { ...changes, create: changes.create.map(timed), update: changes.update.map(timed) };
}
