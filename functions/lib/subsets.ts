import type { EndpointAddress, EndpointPort, EndpointSubset } from 'levelhook/function/kinds';

/** An address with a port that it serves, and its readiness there. Without a port, only the address counts. */
export interface ServedPort {
  readonly address: EndpointAddress;
  readonly port: EndpointPort | undefined;
  readonly ready: boolean;
}

/** Every address of the subsets with every port. */
export function servedPorts(subsets: readonly EndpointSubset[] = []): ServedPort[] {
  return subsets.flatMap(({ addresses = [], notReadyAddresses = [], ports = [] }) => {
    const each: readonly (EndpointPort | undefined)[] = ports.length === 0 ? [undefined] : ports;
    return each.flatMap((port) => [
      ...addresses.map((address) => ({ address, port, ready: true })),
      ...notReadyAddresses.map((address) => ({ address, port, ready: false })),
    ]);
  });
}

/**
 * Subsets in one form and order: the same served ports in any order give the same text. An address is identified by its
 * IP and its UID. If it is both ready and not ready at one port, it counts as not ready. As `RepackSubsets` of
 * Kubernetes, which orders by hashes instead.
 */
export function packSubsets(served: readonly ServedPort[]): EndpointSubset[] {
  const addresses = new Map<string, EndpointAddress>();
  const byPort = new Map<string, { port: EndpointPort | undefined; ready: Map<string, boolean> }>();
  for (const { address, port, ready } of served) {
    const key = addressKey(address);
    if (!addresses.has(key)) addresses.set(key, address);
    const portKey = textOfPort(port);
    const group = byPort.get(portKey) ?? { port, ready: new Map<string, boolean>() };
    byPort.set(portKey, group);
    group.ready.set(key, ready && group.ready.get(key) !== false);
  }

  const bySet = new Map<string, { ready: ReadonlyMap<string, boolean>; ports: EndpointPort[] }>();
  for (const [, { port, ready }] of inOrder(byPort)) {
    const set = JSON.stringify(inOrder(ready));
    const subset = bySet.get(set) ?? { ready, ports: [] };
    bySet.set(set, subset);
    if (port) subset.ports.push(port);
  }
  return inOrder(bySet).map(([, { ready, ports }]) => {
    const those = (wanted: boolean): EndpointAddress[] =>
      inOrder(ready).flatMap(([key, is]) => (is === wanted ? (addresses.get(key) ?? []) : []));
    const [isReady, notReady] = [those(true), those(false)];
    return {
      ...(isReady.length > 0 ? { addresses: isReady } : {}),
      ...(notReady.length > 0 ? { notReadyAddresses: notReady } : {}),
      ...(ports.length > 0 ? { ports } : {}),
    };
  });
}

const addressKey = ({ ip, targetRef }: EndpointAddress): string => `${ip} ${targetRef?.uid ?? ''}`;

function textOfPort(port: EndpointPort | undefined): string {
  if (!port) return '';
  const { name = '', protocol = 'TCP', appProtocol } = port;
  return JSON.stringify([name, protocol, port.port, appProtocol]);
}

function inOrder<T>(map: ReadonlyMap<string, T>): [string, T][] {
  return [...map].toSorted(([a], [b]) => (a < b ? -1 : 1));
}
