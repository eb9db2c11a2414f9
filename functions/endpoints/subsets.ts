import type { EndpointAddress, EndpointSubset, Pod, Service } from 'levelhook/function/kinds';
import { parseIp } from '../lib/ip.ts';
import { hasEndpoint, hostnameOf, isReady, targetPortOf } from '../lib/service-pods.ts';
import { packSubsets, type ServedPort } from '../lib/subsets.ts';

/** Addresses in an Endpoints object, at most. */
export const MAX_ADDRESSES = 1000;

/** The subsets of a Service's Endpoints: each pod with its address of the first family, at each port that it serves. */
export function subsetsOf(service: Service, pods: readonly Pod[]): EndpointSubset[] {
  return packSubsets(pods.flatMap((pod) => servedBy(service, pod)));
}

function servedBy(service: Service, pod: Pod): ServedPort[] {
  const { publishNotReadyAddresses = false, ports = [], clusterIP } = service.spec ?? {};
  if (!hasEndpoint(pod) || (pod.metadata.deletionTimestamp && !publishNotReadyAddresses)) return [];
  const address = addressOf(service, pod);
  if (!address) return [];
  const ready = publishNotReadyAddresses || isReady(pod);
  if (ports.length === 0) return clusterIP === 'None' ? [{ address, port: undefined, ready }] : [];
  return ports.flatMap((each) => {
    const port = targetPortOf(pod, each);
    if (port === undefined) return [];
    const { name, protocol = 'TCP', appProtocol } = each;
    const optional = { ...(name ? { name } : {}), ...(appProtocol === undefined ? {} : { appProtocol }) };
    return [{ address, port: { ...optional, port, protocol }, ready }];
  });
}

function addressOf(service: Service, pod: Pod): EndpointAddress | undefined {
  const { podIP, podIPs = [] } = pod.status ?? {};
  const { ipFamilies, clusterIP } = service.spec ?? {};
  // An old apiserver wrote no families: then use the family of the Service's address, or else the pod's.
  const own = clusterIP && clusterIP !== 'None' ? clusterIP : podIP;
  const family = ipFamilies?.[0] ?? (own && parseIp(own)?.family) ?? 'IPv4';
  const found = podIPs.map(({ ip }) => parseIp(ip)).find((ip) => ip?.family === family);
  if (!found) return undefined;
  const { name, namespace, uid } = pod.metadata;
  const hostname = hostnameOf(pod, service);
  return {
    ip: found.text,
    ...(hostname ? { hostname } : {}),
    ...(pod.spec?.nodeName ? { nodeName: pod.spec.nodeName } : {}),
    targetRef: { kind: 'Pod', ...(namespace ? { namespace } : {}), name, uid },
  };
}

/** The number of addresses; an address in several subsets counts in each. */
export function countOf(subsets: readonly EndpointSubset[] = []): number {
  return readyCount(subsets) + notReadyCount(subsets);
}

const readyCount = (subsets: readonly EndpointSubset[]): number =>
  subsets.reduce((sum, { addresses = [] }) => sum + addresses.length, 0);
const notReadyCount = (subsets: readonly EndpointSubset[]): number =>
  subsets.reduce((sum, { notReadyAddresses = [] }) => sum + notReadyAddresses.length, 0);

/** As many addresses as allowed, ready ones first, with a proportional share for each subset. */
export function truncated(subsets: readonly EndpointSubset[]): EndpointSubset[] {
  const ready = readyCount(subsets);
  if (ready + notReadyCount(subsets) <= MAX_ADDRESSES) return [...subsets];
  const ofReady = ready > MAX_ADDRESSES;
  const room = ofReady ? MAX_ADDRESSES : MAX_ADDRESSES - ready;
  const total = ofReady ? ready : notReadyCount(subsets);
  let left = room;
  const share = (all: readonly EndpointAddress[] = []): EndpointAddress[] => {
    const taken = all.slice(0, Math.min(left, Math.ceil((all.length / total) * room)));
    left -= taken.length;
    return taken;
  };
  return subsets.map(({ addresses = [], notReadyAddresses = [], ...subset }) => {
    const [kept, others] = ofReady ? [share(addresses), []] : [addresses, share(notReadyAddresses)];
    return {
      ...(kept.length > 0 ? { addresses: kept } : {}),
      ...(others.length > 0 ? { notReadyAddresses: others } : {}),
      ...subset,
    };
  });
}
