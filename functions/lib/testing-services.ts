import type { KubernetesObject, ObjectMeta } from 'levelhook/function';
import type { Endpoint, EndpointSlice, Node, Pod, Service, ServiceSpec } from 'levelhook/function/kinds';
import { MANAGED_BY, SERVICE_NAME } from './endpoint-slices.ts';

// Objects for the tests of the controllers of EndpointSlices and Endpoints: the Service test/web, its pods and nodes.

export const key = { namespace: 'test', name: 'web' };

function metadata(name: string, more: Partial<ObjectMeta> = {}): ObjectMeta {
  return { namespace: 'test', name, uid: `${name}-uid`, resourceVersion: '1', ...more };
}

export function service(spec: ServiceSpec = {}, more: Partial<ObjectMeta> = {}): Service {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadata('web', { creationTimestamp: '2026-01-01T00:00:00Z', ...more }),
    spec: {
      type: 'ClusterIP',
      clusterIP: '10.0.0.1',
      ipFamilies: ['IPv4'],
      selector: { app: 'web' },
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }],
      ...spec,
    },
  };
}

export interface GivenPod {
  readonly metadata?: Partial<ObjectMeta>;
  readonly spec?: Partial<NonNullable<Pod['spec']>>;
  /** Default: one address, derived from the name. Empty: the pod has no address yet. */
  readonly ips?: readonly string[];
  readonly ready?: boolean;
  readonly readyAt?: string;
  readonly phase?: string;
}

/** By default a ready pod on node n1. */
export function pod(name: string, given: GivenPod = {}): Pod {
  const { ready = true, readyAt = '2026-01-01T00:01:00Z', ips = [ipOf(name)], phase = 'Running' } = given;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: metadata(name, { labels: { app: 'web' }, ...given.metadata }),
    spec: { nodeName: 'n1', containers: [{ name: 'main' }], ...given.spec },
    status: {
      phase,
      ...(ips[0] === undefined ? {} : { podIP: ips[0], podIPs: ips.map((ip) => ({ ip })) }),
      conditions: [{ type: 'Ready', status: ready ? 'True' : 'False', lastTransitionTime: readyAt }],
    },
  };
}

/** The number in the name is the end of the address: `p7` has 10.1.0.7. */
export function ipOf(name: string): string {
  const number = Number(/\d+$/.exec(name)?.[0] ?? 0);
  return `10.1.${number >> 8}.${number & 255}`;
}

export function node(name: string, zone?: string): Node {
  const labels = zone === undefined ? {} : { labels: { 'topology.kubernetes.io/zone': zone } };
  const { namespace: _, ...rest } = metadata(name, labels);
  return { apiVersion: 'v1', kind: 'Node', metadata: rest };
}

/** The endpoint of a ready pod. */
export function endpoint(name: string, more: Partial<Endpoint> = {}): Endpoint {
  return {
    addresses: [ipOf(name)],
    conditions: { ready: true, serving: true, terminating: false },
    targetRef: { kind: 'Pod', namespace: 'test', name, uid: `${name}-uid` },
    nodeName: 'n1',
    ...more,
  };
}

/** A slice of the Service as the controller writes it. */
export function slice(
  name: string,
  endpoints: readonly Endpoint[],
  { manager, owner = service(), ...more }: Partial<EndpointSlice> & { manager: string; owner?: KubernetesObject },
): EndpointSlice {
  const { apiVersion, kind, metadata: of } = owner;
  const reference = { apiVersion, kind, name: of.name, uid: of.uid, controller: true, blockOwnerDeletion: true };
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [...endpoints],
    ...more,
    metadata: metadata(name, {
      labels: { [SERVICE_NAME]: 'web', [MANAGED_BY]: manager },
      ownerReferences: [reference],
      ...more.metadata,
    }),
  };
}
