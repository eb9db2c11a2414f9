import type { KubernetesObject } from 'levelhook/function';
import { type Endpoints, type EndpointAddress, EndpointSlice, Event } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { beforeEach, describe, expect, it } from 'vitest';
import { key, service, slice } from '../lib/testing-services.ts';
import { endpointsliceMirroring } from './controller.ts';
import { MANAGER } from './mirror.ts';

const port = { name: 'http', port: 80, protocol: 'TCP' };
const withoutSelector = service({ selector: undefined as never });

let apiserver: MemoryApiserver;
const run = () => runReconciler(endpointsliceMirroring, key, { apiserver });
const slices = () => apiserver.objects(EndpointSlice);

function given(...objects: KubernetesObject[]): void {
  for (const each of objects) apiserver.put(each);
}

function endpointsOf(
  addresses: readonly (string | EndpointAddress)[],
  { uid = 'e', ...metadata }: Partial<Endpoints['metadata']> = {},
): Endpoints {
  return {
    apiVersion: 'v1',
    kind: 'Endpoints',
    metadata: { ...key, uid, resourceVersion: '1', ...metadata },
    subsets: [{ addresses: addresses.map((each) => (typeof each === 'string' ? { ip: each } : each)), ports: [port] }],
  };
}

const addressesOf = (family: string): string[][] =>
  slices()
    .filter(({ addressType }) => addressType === family)
    .map(({ endpoints }) => (endpoints ?? []).flatMap(({ addresses }) => addresses));

beforeEach(() => {
  apiserver = new MemoryApiserver();
});

describe('the mirroring controller', () => {
  it('is woken by the Endpoints of a Service without a selector, and by no others', async () => {
    given(withoutSelector);
    const rule = { apiVersion: 'v1', kind: 'Endpoints', namespace: key.namespace, names: [key.name] };
    expect(await run()).toMatchObject({ outcome: { related: [rule] } });
    given(service());
    expect(await run()).toMatchObject({ outcome: { related: [] } });
  });

  it('makes a slice for each address family, and is still afterwards', async () => {
    const annotations = { note: 'a', 'kubectl.kubernetes.io/last-applied-configuration': '{}' };
    given(
      withoutSelector,
      endpointsOf(['10.0.0.1', '10.0.0.2', '2001:DB8::1'], { labels: { team: 'a' }, annotations }),
    );
    await run();
    expect(addressesOf('IPv4')).toEqual([['10.0.0.1', '10.0.0.2']]);
    expect(addressesOf('IPv6')).toEqual([['2001:db8::1']]);
    expect(slices()[0]).toMatchObject({
      ports: [port],
      endpoints: [{ conditions: { ready: true } }, {}],
      metadata: {
        generateName: 'web-',
        labels: {
          team: 'a',
          'kubernetes.io/service-name': 'web',
          'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io',
        },
        annotations: { note: 'a' },
        ownerReferences: [{ kind: 'Endpoints', name: 'web', uid: 'e', controller: true }],
      },
    });
    apiserver.clearRequests();
    await run();
    expect(apiserver.requests).toEqual([]);
  });

  it.each([1, 57, 58, 63])(
    'names the slices after Endpoints whose name has %i characters, with a dash after it, as kube-controller-manager',
    async (length) => {
      const name = 'a'.repeat(length);
      const metadata = { ...withoutSelector.metadata, name };
      given({ ...withoutSelector, metadata }, endpointsOf(['10.0.0.1'], { name }));
      await runReconciler(endpointsliceMirroring, { ...key, name }, { apiserver });
      expect(slices().map((each) => each.metadata.generateName)).toEqual([`${name}-`]);
    },
  );

  it('follows changes of addresses, readiness, labels, annotations and owner with one update each', async () => {
    given(withoutSelector, endpointsOf(['10.0.0.1']));
    await run();
    const steps: Endpoints[] = [
      endpointsOf(['10.0.0.1', '10.0.0.3']),
      { ...endpointsOf([]), subsets: [{ notReadyAddresses: [{ ip: '10.0.0.1' }], ports: [port] }] },
      endpointsOf([{ ip: '10.0.0.1', nodeName: 'n1', hostname: 'a' }]),
      endpointsOf([{ ip: '10.0.0.1', nodeName: 'n2', hostname: 'a' }]),
      endpointsOf(['10.0.0.1'], { labels: { a: 'b' } }),
      endpointsOf(['10.0.0.1'], { annotations: { a: 'b' } }),
      endpointsOf(['10.0.0.1'], { uid: 'another' }),
    ];
    for (const step of steps) {
      apiserver.clearRequests();
      given(step);
      await run();
      expect(
        apiserver.writes.map(({ verb }) => verb),
        JSON.stringify(step),
      ).toEqual(['update']);
    }
    expect(slices()).toHaveLength(1);
    expect(slices()[0]?.metadata.ownerReferences).toMatchObject([{ uid: 'another' }]);
  });

  it('leaves a slice without an owner as it is, as kube-controller-manager', async () => {
    given(withoutSelector, endpointsOf(['10.0.0.1']));
    await run();
    for (const each of slices()) given({ ...each, metadata: { ...each.metadata, ownerReferences: [] } });
    apiserver.clearRequests();
    await run();
    expect(apiserver.writes).toEqual([]);
  });

  it('fills a slice of other ports again', async () => {
    given(withoutSelector, endpointsOf(['10.0.0.1']));
    await run();
    const other = { ...port, port: 81 };
    given({ ...endpointsOf([]), subsets: [{ addresses: [{ ip: '10.0.0.1' }], ports: [other] }] } as Endpoints);
    await run();
    expect(apiserver.writes.map(({ verb }) => verb)).toEqual(['create', 'update']);
    expect(slices()).toMatchObject([{ ports: [other] }]);
  });

  it('keeps one slice of several', async () => {
    const owner = endpointsOf(['10.0.0.1']);
    given(withoutSelector, owner);
    for (const name of ['a', 'b']) given(slice(name, [], { manager: MANAGER, owner, ports: [port] }));
    await run();
    expect(addressesOf('IPv4')).toEqual([['10.0.0.1']]);
  });

  it.each<[string, KubernetesObject[]]>([
    ['are gone', [withoutSelector]],
    ['have no Service', [endpointsOf(['10.0.0.1'])]],
    ['have a Service with a selector', [service(), endpointsOf(['10.0.0.1'])]],
    [
      'are not to be mirrored',
      [withoutSelector, endpointsOf(['10.0.0.1'], { labels: { 'endpointslice.kubernetes.io/skip-mirror': 'true' } })],
    ],
    [
      'elect a leader',
      [withoutSelector, endpointsOf([], { annotations: { 'control-plane.alpha.kubernetes.io/leader': '{}' } })],
    ],
  ])('deletes the slices of Endpoints that %s, and no others', async (_, objects) => {
    given(...objects, slice('mirrored', [], { manager: MANAGER }), slice('other', [], { manager: 'somebody' }));
    await run();
    expect(slices().map(({ metadata }) => metadata.name)).toEqual(['other']);
  });

  it('mirrors a thousand addresses of a subset, and tells of the others', async () => {
    const many = Array.from({ length: 1003 }, (_, at) => `10.0.${at >> 8}.${at & 255}`);
    given(withoutSelector, endpointsOf([...many, 'no address']));
    await run();
    expect(addressesOf('IPv4').map((each) => each.length)).toEqual([1000]);
    expect(new Set(apiserver.objects(Event).map(({ reason }) => reason))).toEqual(
      new Set(['InvalidIPAddress', 'TooManyAddressesToMirror']),
    );
    apiserver.clearRequests();
    await run();
    expect(apiserver.writes.filter(({ resource }) => resource === 'endpointslices')).toEqual([]);
  });

  it('creates nothing for Endpoints that are being deleted', async () => {
    const deletionTimestamp = '2026-01-01T00:00:00Z';
    given(withoutSelector, endpointsOf(['10.0.0.1'], { deletionTimestamp, finalizers: ['a/b'] }));
    await run();
    expect(slices()).toEqual([]);
  });
});
