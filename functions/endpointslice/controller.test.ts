import { type KubernetesObject } from 'levelhook/function';
import { EndpointSlice, Event, Pod, type Service } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { beforeEach, describe, expect, it } from 'vitest';
import { endpoint, ipOf, key, node, pod, service, slice } from '../lib/testing-services.ts';
import { endpointslice } from './controller.ts';
import { MANAGER } from './slices.ts';

const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time';
const deletionTimestamp = '2026-01-01T00:05:00Z';

let apiserver: MemoryApiserver;
const run = () => runReconciler(endpointslice, key, { apiserver });
const slices = () => apiserver.objects(EndpointSlice);
const endpoints = () => slices().flatMap((each) => each.endpoints ?? []);
const verbs = () => apiserver.writes.map(({ verb }) => verb);
const only = (): EndpointSlice => {
  const [found, ...others] = slices();
  if (!found || others.length > 0) throw new Error(`${others.length + 1} slices`);
  return found;
};

beforeEach(() => {
  apiserver = new MemoryApiserver({ objects: [node('n1', 'z1'), node('n2', 'z2')] });
});

function given(...objects: KubernetesObject[]): void {
  for (const each of objects) apiserver.put(each);
}

const serviceOf = (spec: Service['spec'] = {}, metadata: Partial<Service['metadata']> = {}) => service(spec, metadata);

describe('the endpointslice controller', () => {
  it.each([
    ['that is gone', undefined],
    ['without a selector', service({ selector: undefined as never })],
    ['that stands for a name outside', service({ type: 'ExternalName', externalName: 'a.example' })],
  ])('writes nothing for a Service %s', async (_, found) => {
    if (found) given(found);
    given(pod('p1'));
    expect((await run()).outcome).toEqual({ status: 'done', writes: [] });
  });

  it('makes a slice as kube-controller-manager does, and is still afterwards', async () => {
    given(serviceOf({}, { labels: { team: 'a', 'service.kubernetes.io/headless': 'no' } }), pod('p1'));
    given(pod('p2', { spec: { nodeName: 'n2' }, ready: false }), pod('other', { metadata: { labels: { app: 'x' } } }));
    await run();
    expect(only()).toMatchObject({
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      metadata: {
        generateName: 'web-',
        labels: {
          team: 'a',
          'kubernetes.io/service-name': 'web',
          'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
        },
        annotations: { [TRIGGER_TIME]: '2026-01-01T00:00:00Z' },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Service', name: 'web', uid: 'web-uid', controller: true }],
      },
    });
    expect(only().metadata.labels).not.toHaveProperty(['service.kubernetes.io/headless']);
    const notReady = { ready: false, serving: false, terminating: false };
    expect(endpoints()).toEqual([
      endpoint('p1', { zone: 'z1' }),
      endpoint('p2', { nodeName: 'n2', zone: 'z2', conditions: notReady }),
    ]);
    apiserver.clearRequests();
    await run();
    expect(apiserver.requests).toEqual([]);
  });

  it.each([1, 57, 58, 63])(
    'names the slices after a Service whose name has %i characters, with a dash after it, as kube-controller-manager',
    async (length) => {
      const name = 'a'.repeat(length);
      given(serviceOf({}, { name }), pod('p1'));
      await runReconciler(endpointslice, { ...key, name }, { apiserver });
      expect(only().metadata.generateName).toBe(`${name}-`);
    },
  );

  it('has one empty slice while there is no pod, and fills it', async () => {
    given(serviceOf());
    await run();
    expect(only()).toMatchObject({ endpoints: [], ports: [] });
    const { uid } = only().metadata;
    await run();
    expect(apiserver.writes).toHaveLength(1);
    given(pod('p1'));
    await run();
    expect(only()).toMatchObject({ ports: [{ port: 8080 }], metadata: { uid } });
    expect(verbs()).toEqual(['create', 'update']);
    apiserver.remove(Pod, { namespace: 'test', name: 'p1' });
    await run();
    expect(only()).toMatchObject({ endpoints: [], ports: [], metadata: { uid } });
  });

  it('keeps what others have added to a slice, but not when it fills the slice anew, as kube-controller-manager', async () => {
    const added = { annotations: { theirs: 'a' } };
    const extra = { apiVersion: 'v1', kind: 'ConfigMap', name: 'c', uid: 'c' };
    given(serviceOf(), pod('p1'));
    await run();
    const { ownerReferences = [] } = only().metadata;
    const metadata = { ...only().metadata, ...added, ownerReferences: [...ownerReferences, extra] };
    given({ ...only(), metadata }, pod('p2'));
    await run();
    expect(endpoints()).toHaveLength(2);
    expect(only().metadata).toMatchObject({ ...added, ownerReferences: [{}, extra] });
    for (const name of ['p1', 'p2']) apiserver.remove(Pod, { namespace: 'test', name });
    await run();
    expect(only().metadata).toMatchObject({ uid: metadata.uid, ownerReferences });
    expect(only().metadata.annotations).toBeUndefined();
  });

  it.each<[string, Partial<EndpointSlice['metadata']>, Record<string, string>]>([
    ['has no owner', { ownerReferences: [] }, {}],
    ['lacks a label without a value', {}, { marked: '' }],
  ])(
    'leaves the only slice of a Service without pods alone if it %s, as kube-controller-manager',
    async (_, metadata, labels) => {
      given(serviceOf());
      await run();
      given({ ...only(), metadata: { ...only().metadata, ...metadata } }, serviceOf({}, { labels }));
      apiserver.clearRequests();
      await run();
      expect(apiserver.writes).toEqual([]);
      given(pod('p1'));
      await run();
      expect(only().metadata).toMatchObject({ labels, ownerReferences: [{ kind: 'Service' }] });
    },
  );

  it('leaves out pods that have ended or have no address, and keeps those that are being deleted', async () => {
    given(serviceOf(), pod('p1', { phase: 'Succeeded' }), pod('p2', { phase: 'Failed' }), pod('p3', { ips: [] }));
    given(pod('p4', { metadata: { deletionTimestamp } }));
    await run();
    const conditions = { ready: false, serving: true, terminating: true };
    expect(endpoints()).toMatchObject([{ addresses: [ipOf('p4')], conditions }]);
  });

  it('says that all are ready where the Service publishes those that are not', async () => {
    given(serviceOf({ publishNotReadyAddresses: true }), pod('p1', { ready: false }));
    given(pod('p2', { metadata: { deletionTimestamp } }), pod('p3', { spec: { nodeName: 'gone' } }));
    await run();
    expect(endpoints().map(({ conditions }) => conditions)).toEqual([
      { ready: true, serving: false, terminating: false },
      { ready: true, serving: true, terminating: true },
      { ready: true, serving: true, terminating: false },
    ]);
  });

  it('comes again for the zone of a published pod whose node comes later', async () => {
    given(serviceOf({ publishNotReadyAddresses: true }), pod('p1', { spec: { nodeName: 'later' } }));
    expect((await run()).outcome).toMatchObject({ status: 'done', requeueAfterSeconds: 10 });
    expect(endpoints()[0]).not.toHaveProperty('zone');
    apiserver.put(node('later', 'z3'));
    expect((await run()).outcome).not.toHaveProperty('requeueAfterSeconds');
    expect(endpoints()).toMatchObject([{ nodeName: 'later', zone: 'z3' }]);
  });

  it('leaves out a pod whose node does not exist, writes all others, and tries again', async () => {
    given(serviceOf(), pod('p1'), pod('p2', { spec: { nodeName: 'gone' } }), pod('p3', { spec: { nodeName: '' } }));
    const skipped = ({ name, node }: { name: string; node: string }) =>
      `skipping Pod ${name} for Service ${key.namespace}/${key.name}: Node ${node} Not Found`;
    const message = `[${[
      { name: 'p2', node: 'gone' },
      { name: 'p3', node: '' },
    ]
      .map(skipped)
      .join(', ')}]`;
    expect((await run()).outcome).toMatchObject({ status: 'error', message });
    expect(endpoints()).toHaveLength(1);
    expect(apiserver.objects(Event)).toMatchObject([{ type: 'Warning', reason: 'FailedToUpdateEndpointSlices' }]);
  });

  it('has slices for each family, with the addresses of that family', async () => {
    given(serviceOf({ ipFamilies: ['IPv4', 'IPv6'] }), pod('p1', { ips: ['10.1.0.1', '2001:DB8::1'] }), pod('p2'));
    await run();
    const found = Object.fromEntries(slices().map((each) => [each.addressType, each.endpoints ?? []]));
    expect(found['IPv4']?.map(({ addresses }) => addresses)).toEqual([['10.1.0.1'], ['10.1.0.2']]);
    expect(found['IPv6']?.map(({ addresses }) => addresses)).toEqual([['2001:db8::1']]);
    given(serviceOf({ ipFamilies: ['IPv4'] }));
    await run();
    expect(slices().map(({ addressType }) => addressType)).toEqual(['IPv4']);
  });

  it('has slices for each number that a named port has in the pods', async () => {
    const ports = [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 'web' }];
    const named = (containerPort: number) => [
      { name: 'main', ports: [{ name: 'web', containerPort, protocol: 'TCP' }] },
    ];
    const sidecar = [{ ...named(83)[0], name: 'side', restartPolicy: 'Always' }];
    given(serviceOf({ ports }), pod('p1', { spec: { containers: named(81) } }));
    given(pod('p2', { spec: { containers: named(82) } }), pod('p3', { spec: { initContainers: sidecar } }));
    given(pod('p4'));
    await run();
    const found = slices().map((each) => [each.ports?.[0]?.port, each.endpoints?.[0]?.targetRef?.name]);
    expect(new Set(found.map(String))).toEqual(new Set(['81,p1', '82,p2', '83,p3', ',p4']));
  });

  it('labels the slices of a headless Service, and names the hosts that ask for it', async () => {
    given(serviceOf({ clusterIP: 'None', ports: [] }), pod('p1', { spec: { hostname: 'a', subdomain: 'web' } }));
    given(pod('p2', { spec: { hostname: 'b', subdomain: 'elsewhere' } }));
    await run();
    expect(only().metadata.labels).toHaveProperty(['service.kubernetes.io/headless'], '');
    expect(endpoints().map(({ hostname }) => hostname)).toEqual(['a', undefined]);
    expect(only().ports).toEqual([]);
  });

  it('makes slices of a hundred', async () => {
    given(serviceOf(), ...Array.from({ length: 250 }, (_, at) => pod(`p${at}`)));
    await run();
    expect(slices().map((each) => each.endpoints?.length)).toEqual([100, 100, 50]);
  });

  it('tells in the trigger time when the oldest of the changes happened', async () => {
    given(serviceOf(), pod('p1'));
    await run();
    given(pod('p2', { readyAt: '2026-01-01T00:09:00Z' }), pod('p3', { readyAt: '2026-01-01T00:08:00Z' }));
    await run();
    expect(only().metadata.annotations).toEqual({ [TRIGGER_TIME]: '2026-01-01T00:08:00Z' });
    apiserver.remove(Pod, { namespace: 'test', name: 'p3' });
    await run();
    expect(only().metadata.annotations).toBeUndefined();
  });

  it('gives the slices the labels of the Service, in one write with the endpoints', async () => {
    given(serviceOf(), pod('p1'));
    await run();
    given(serviceOf({}, { labels: { team: 'b' } }), pod('p2'));
    await run();
    expect(only().metadata.labels).toHaveProperty('team', 'b');
    expect(verbs()).toEqual(['create', 'update']);
  });

  it('gives hints, also to endpoints that are there, and takes them away', async () => {
    given(serviceOf(), pod('p1'));
    await run();
    given(serviceOf({ trafficDistribution: 'PreferSameNode' }));
    await run();
    expect(endpoints()[0]?.hints).toEqual({ forZones: [{ name: 'z1' }], forNodes: [{ name: 'n1' }] });
    given(serviceOf());
    await run();
    expect(endpoints()[0]).not.toHaveProperty('hints');
    expect(verbs()).toEqual(['create', 'update', 'update']);
  });

  it('deletes the slices of an earlier Service of the name, and leaves those of others alone', async () => {
    const earlier = { ...service(), metadata: { ...service().metadata, uid: 'earlier' } };
    given(serviceOf(), pod('p1'), slice('old', [endpoint('p1')], { manager: MANAGER, owner: earlier }));
    given(slice('manual', [endpoint('p9')], { manager: 'somebody' }));
    given(
      slice('leaving', [endpoint('p1')], {
        manager: MANAGER,
        metadata: { deletionTimestamp, finalizers: ['a/b'] } as never,
      }),
    );
    await run();
    const names = slices().map(({ metadata }) => metadata.generateName ?? metadata.name);
    expect(new Set(names)).toEqual(new Set(['web-', 'manual', 'leaving']));
  });

  it('creates nothing for a Service that is being deleted', async () => {
    given(serviceOf({}, { deletionTimestamp, finalizers: ['a/b'] }), pod('p1'));
    await run();
    expect(slices()).toEqual([]);
  });

  it('creates nothing in a namespace that is being deleted, and is content', async () => {
    given(serviceOf(), pod('p1'));
    const causes = [{ reason: 'NamespaceTerminating' }];
    apiserver.fail({ verb: 'create', resource: 'endpointslices' }, { code: 403, causes });
    expect((await run()).outcome.status).toBe('done');
  });

  it('tells of a failed write and of a pod without a node in one Event, as kube-controller-manager does', async () => {
    given(serviceOf(), pod('p1'));
    const failed = async (): Promise<string | undefined> => {
      const before = new Set(apiserver.objects(Event).map(({ metadata }) => metadata.uid));
      expect((await run()).outcome.status).toBe('error');
      return apiserver.objects(Event).find(({ metadata }) => !before.has(metadata.uid))?.message;
    };
    const of = 'Service test/web';
    apiserver.fail({ verb: 'create', resource: 'endpointslices' }, { code: 403, message: 'quota' });
    expect(await failed()).toBe(
      `Error updating Endpoint Slices for ${of}: failed to create EndpointSlice for ${of}: quota`,
    );
    await run();
    const { name } = only().metadata;
    given(pod('p2', { spec: { nodeName: 'gone' } }), pod('p3'));
    apiserver.fail({ verb: 'update', resource: 'endpointslices' }, { code: 403, message: 'no' });
    const skipped = `skipping Pod p2 for ${of}: Node gone Not Found`;
    expect(await failed()).toBe(
      `Error updating Endpoint Slices for ${of}: [${skipped}, failed to update ${name} EndpointSlice for ${of}: no]`,
    );
  });

  it('fails when a slice has changed since, and tells', async () => {
    given(serviceOf(), pod('p1'));
    await run();
    given(pod('p2'));
    apiserver.fail({ verb: 'update', resource: 'endpointslices' }, { code: 409 });
    expect((await run()).outcome.status).toBe('error');
    expect((await run()).outcome.status).toBe('done');
    expect(endpoints()).toHaveLength(2);
  });
});
