import type { DiscoveryV1EndpointPort, Endpoint, Node, Pod, Service } from 'levelhook/function/kinds';
import { portsKey } from '../lib/endpoint-slices.ts';
import { parseIp } from '../lib/ip.ts';
import { hasEndpoint, hostnameOf, isReady, targetPortOf } from '../lib/service-pods.ts';

export type Family = 'IPv4' | 'IPv6';

/** Endpoints whose pods serve the Service's ports under the same numbers. */
export interface PortGroup {
  readonly ports: readonly DiscoveryV1EndpointPort[];
  readonly endpoints: readonly Endpoint[];
}

/** The address families of a Service. Each has its own slices. */
export function familiesOf({ spec }: Service): Family[] {
  const families = (spec?.ipFamilies ?? []).filter((each): each is Family => each === 'IPv4' || each === 'IPv6');
  if (families.length > 0) return families;
  // Written by an apiserver without support for families.
  const address = spec?.clusterIP && spec.clusterIP !== 'None' ? parseIp(spec.clusterIP) : undefined;
  return address ? [address.family] : ['IPv4', 'IPv6'];
}

/** The ports of a Service as this pod serves them. A port name that the pod lacks is left out. */
export function portsFor(service: Service, pod: Pod): DiscoveryV1EndpointPort[] {
  return (service.spec?.ports ?? []).flatMap((each) => {
    const port = targetPortOf(pod, each);
    if (port === undefined) return [];
    const { name = '', protocol = 'TCP', appProtocol } = each;
    return [{ name, port, protocol, ...(appProtocol === undefined ? {} : { appProtocol }) }];
  });
}

/**
 * The state of a pod as an endpoint of one family. Undefined without an address of that family.
 * @param node undefined when the pod's node does not exist.
 */
export function endpointOf(
  service: Service,
  pod: Pod,
  { family, node }: { family: Family; node: Node | undefined },
): Endpoint | undefined {
  const addresses = (pod.status?.podIPs ?? []).flatMap(({ ip }) => {
    const address = parseIp(ip);
    return address?.family === family ? [address.text] : [];
  });
  if (addresses.length === 0) return undefined;
  const { name, namespace, uid, deletionTimestamp } = pod.metadata;
  const serving = isReady(pod);
  const terminating = deletionTimestamp !== undefined;
  const ready = service.spec?.publishNotReadyAddresses === true || (serving && !terminating);
  const hostname = hostnameOf(pod, service);
  const nodeName = pod.spec?.nodeName;
  const zone = node?.metadata.labels?.['topology.kubernetes.io/zone'];
  return {
    addresses,
    conditions: { ready, serving, terminating },
    targetRef: { kind: 'Pod', ...(namespace ? { namespace } : {}), name, uid },
    ...(hostname ? { hostname } : {}),
    ...(nodeName ? { nodeName } : {}),
    ...(zone ? { zone } : {}),
  };
}

/**
 * The pods for the endpoints, and the pods that are left out because their node does not exist: it may be new, or the
 * pod is about to be deleted. A Service that publishes pods that are not ready publishes these too.
 */
export function publishedPods(
  service: Service,
  pods: readonly Pod[],
  nodes: ReadonlyMap<string, Node>,
): { published: Pod[]; withoutNode: Pod[] } {
  const present = pods.filter(hasEndpoint);
  if (service.spec?.publishNotReadyAddresses) return { published: present, withoutNode: [] };
  const { published = [], withoutNode = [] } = Object.groupBy(present, ({ spec }) =>
    nodes.has(spec?.nodeName ?? '') ? 'published' : 'withoutNode',
  );
  return { published, withoutNode };
}

/** The groups of a Service's endpoints of one family, by `portsKey`. A group may be without endpoints. */
export function portGroups(
  service: Service,
  pods: readonly Pod[],
  { family, nodes }: { family: Family; nodes: ReadonlyMap<string, Node> },
): Map<string, PortGroup> {
  const groups = new Map<string, { ports: DiscoveryV1EndpointPort[]; endpoints: Endpoint[] }>();
  for (const pod of pods) {
    const ports = portsFor(service, pod);
    const key = portsKey(ports);
    const group = groups.get(key) ?? { ports, endpoints: [] };
    groups.set(key, group);
    const endpoint = endpointOf(service, pod, { family, node: nodes.get(pod.spec?.nodeName ?? '') });
    if (endpoint) group.endpoints.push(endpoint);
  }
  return groups;
}
