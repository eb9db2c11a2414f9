import { controllerReference, equal, type NewObject } from 'levelhook/function';
import {
  type DiscoveryV1EndpointPort,
  type Endpoint,
  type EndpointAddress,
  Endpoints,
  type EndpointSlice,
  type EndpointSubset,
} from 'levelhook/function/kinds';
import {
  identityOf,
  isSameState,
  joined,
  MANAGED_BY,
  portsKey,
  SERVICE_NAME,
  type SliceChanges,
} from '../lib/endpoint-slices.ts';
import { parseIp } from '../lib/ip.ts';
import { TRIGGER_TIME } from '../lib/service-pods.ts';
import { packSubsets, servedPorts } from '../lib/subsets.ts';

/** The manager's name on the slices: kube-controller-manager's own. */
export const MANAGER = 'endpointslicemirroring-controller.k8s.io';
/** kube-controller-manager's default for `--mirroring-max-endpoints-per-subset`: each subset becomes one slice. */
export const MAX_ENDPOINTS = 1000;
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

export interface Mirroring {
  readonly changes: SliceChanges;
  /** Addresses that are not IP addresses. */
  readonly invalid: number;
  /** Addresses beyond the limit of their subset's slice. */
  readonly tooMany: number;
}

interface Wanted {
  readonly family: Family;
  readonly ports: readonly DiscoveryV1EndpointPort[];
  /** By identity. */
  readonly endpoints: Map<string, Endpoint>;
}

type Family = 'IPv4' | 'IPv6';

/** The writes that make the slices show the Endpoints: one slice for each subset and address family. */
export function mirror(endpoints: Endpoints, slices: readonly EndpointSlice[]): Mirroring {
  const { wanted, invalid, tooMany } = wantedOf(packSubsets(servedPorts(endpoints.subsets)));
  const existing = Map.groupBy(slices, ({ addressType, ports }) => groupKey(addressType, ports ?? []));
  const plans = [...wanted].map(([key, each]) => planGroup(endpoints, each, existing.get(key) ?? []));
  const unwanted = [...existing].flatMap(([key, those]) => (wanted.has(key) ? [] : those));
  const plan = reusing(joined([...plans, { create: [], update: [], delete: unwanted }]));
  const changes = endpoints.metadata.deletionTimestamp ? { ...plan, create: [] } : plan;
  return { changes, invalid, tooMany };
}

const groupKey = (family: string, ports: readonly DiscoveryV1EndpointPort[]): string => `${family} ${portsKey(ports)}`;

function wantedOf(subsets: readonly EndpointSubset[]) {
  const wanted = new Map<string, Wanted>();
  let invalid = 0;
  let tooMany = 0;
  for (const { addresses = [], notReadyAddresses = [], ports: subsetPorts = [] } of subsets) {
    const ports = subsetPorts.map(({ name = '', protocol = 'TCP', port, appProtocol }) => ({
      name,
      port,
      protocol,
      ...(appProtocol === undefined ? {} : { appProtocol }),
    }));
    let count = 0;
    const all = [
      ...addresses.map((each) => [each, true] as const),
      ...notReadyAddresses.map((each) => [each, false] as const),
    ];
    for (const [address, ready] of all) {
      const ip = parseIp(address.ip);
      if (!ip) invalid += 1;
      else if (count >= MAX_ENDPOINTS) tooMany += 1;
      else {
        const key = groupKey(ip.family, ports);
        const group = wanted.get(key) ?? { family: ip.family, ports, endpoints: new Map<string, Endpoint>() };
        wanted.set(key, group);
        const endpoint = endpointOf(address, ip.text, ready);
        group.endpoints.set(identityOf(endpoint), endpoint);
        count += 1;
      }
    }
  }
  return { wanted, invalid, tooMany };
}

function endpointOf({ hostname, nodeName, targetRef }: EndpointAddress, ip: string, ready: boolean): Endpoint {
  return {
    addresses: [ip],
    conditions: { ready },
    ...(hostname ? { hostname } : {}),
    ...(nodeName === undefined ? {} : { nodeName }),
    ...(targetRef ? { targetRef } : {}),
  };
}

function planGroup(endpoints: Endpoints, wanted: Wanted, existing: readonly EndpointSlice[]): SliceChanges {
  const [first, ...others] = existing;
  const draft = sliceOf(endpoints, wanted);
  if (!first) return { create: [draft], update: [], delete: [] };
  const update = isMirror(first, wanted, draft) && !isOfEarlier(first, endpoints) ? [] : [rewritten(first, draft)];
  return { create: [], update, delete: others };
}

function sliceOf(endpoints: Endpoints, wanted: Wanted): NewObject<EndpointSlice> {
  const { name, namespace, labels } = endpoints.metadata;
  const { [TRIGGER_TIME]: _, [LAST_APPLIED]: __, ...annotations } = endpoints.metadata.annotations ?? {};
  return {
    metadata: {
      ...(namespace ? { namespace } : {}),
      generateName: `${name}-`,
      labels: { ...labels, [SERVICE_NAME]: name, [MANAGED_BY]: MANAGER },
      annotations,
      ownerReferences: [controllerReference(Endpoints, endpoints)],
    },
    addressType: wanted.family,
    ports: [...wanted.ports],
    endpoints: [...wanted.endpoints.values()],
  };
}

/** A slice with all contents of the draft. */
function rewritten(slice: EndpointSlice, { metadata, ports, endpoints }: NewObject<EndpointSlice>): EndpointSlice {
  const { labels = {}, annotations = {}, ownerReferences = [] } = metadata;
  return {
    ...slice,
    metadata: { ...slice.metadata, labels, annotations, ownerReferences },
    ...(ports ? { ports } : {}),
    ...(endpoints ? { endpoints } : {}),
  };
}

function isMirror(slice: EndpointSlice, wanted: Wanted, draft: NewObject<EndpointSlice>): boolean {
  const { labels = {}, annotations = {} } = slice.metadata;
  const has = slice.endpoints ?? [];
  return (
    has.length === wanted.endpoints.size &&
    has.every((endpoint) => {
      const next = wanted.endpoints.get(identityOf(endpoint));
      return next !== undefined && isSameState(endpoint, next);
    }) &&
    equal(labels, draft.metadata.labels) &&
    equal(annotations, draft.metadata.annotations)
  );
}

/**
 * Whether the slice belongs to earlier Endpoints of the name (`needRebuildExistingSlices` of kube-controller-manager).
 * A slice without an owner may stay so.
 */
function isOfEarlier(slice: EndpointSlice, { metadata }: Endpoints): boolean {
  return (slice.metadata.ownerReferences ?? []).some(
    ({ kind, name, uid }) => kind === 'Endpoints' && name === metadata.name && uid !== metadata.uid,
  );
}

/** Fills a slice of the same family again instead of deleting it and creating a new one. */
function reusing({ create, update, delete: remove }: SliceChanges): SliceChanges {
  const left = [...remove];
  const created: NewObject<EndpointSlice>[] = [];
  const refilled: EndpointSlice[] = [];
  for (const draft of create) {
    const at = left.findIndex(({ addressType }) => addressType === draft.addressType);
    const [slice] = at < 0 ? [] : left.splice(at, 1);
    if (slice) refilled.push(rewritten(slice, draft));
    else created.push(draft);
  }
  return { create: created, update: [...update, ...refilled], delete: left };
}
