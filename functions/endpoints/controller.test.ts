import type { KubernetesObject } from 'levelhook/function';
import { Endpoints, Event, Pod } from 'levelhook/function/kinds';
import { MemoryApiserver, runReconciler } from 'levelhook/testing/reconciler';
import { beforeEach, describe, expect, it } from 'vitest';
import { LEADER_RECORD } from '../lib/endpoint-slices.ts';
import { ipOf, key, pod, service } from '../lib/testing-services.ts';
import { endpoints } from './controller.ts';

const TRIGGER_TIME = 'endpoints.kubernetes.io/last-change-trigger-time';
const MANAGED = { 'endpoints.kubernetes.io/managed-by': 'endpoint-controller' };
const port = { name: 'http', port: 8080, protocol: 'TCP' };

let apiserver: MemoryApiserver;
const run = (reasons: { type: 'deleted'; object: string; resourceVersion: string }[] = []) =>
  runReconciler(endpoints, key, { apiserver, reasons });
const current = () => apiserver.object(Endpoints, key);
const address = (name: string) => ({
  ip: ipOf(name),
  nodeName: 'n1',
  targetRef: { kind: 'Pod', namespace: 'test', name, uid: `${name}-uid` },
});

beforeEach(() => {
  apiserver = new MemoryApiserver();
});

function given(...objects: KubernetesObject[]): void {
  for (const each of objects) apiserver.put(each);
}

const own = (labels: Record<string, string> = {}): Endpoints => ({
  apiVersion: 'v1',
  kind: 'Endpoints',
  metadata: { ...key, uid: 'e', resourceVersion: '1', labels },
  subsets: [{ addresses: [{ ip: '10.9.9.9' }], ports: [port] }],
});

describe('the endpoints controller', () => {
  it('writes the addresses of ready pods and of others, and is still afterwards', async () => {
    given(service({}, { labels: { team: 'a' } }), pod('p1'), pod('p2', { ready: false }));
    given(pod('p3', { metadata: { deletionTimestamp: '2026-01-01T00:05:00Z' } }), pod('p4', { ips: [] }));
    await run();
    expect(current()).toMatchObject({
      metadata: { labels: { team: 'a', ...MANAGED }, annotations: { [TRIGGER_TIME]: '2026-01-01T00:00:00Z' } },
      subsets: [{ addresses: [address('p1')], notReadyAddresses: [address('p2')], ports: [port] }],
    });
    apiserver.clearRequests();
    await run();
    expect(apiserver.requests).toEqual([]);
  });

  it('leaves subsets alone that kube-controller-manager wrote in another order', async () => {
    given(service(), pod('p1'), pod('p2'));
    const before = { ...own(MANAGED), subsets: [{ addresses: [address('p2'), address('p1')], ports: [port] }] };
    given(before);
    await run();
    expect(apiserver.writes).toEqual([]);
  });

  it('leaves subsets alone that name other versions of the same pods', async () => {
    given(service(), pod('p1'));
    const { targetRef, ...rest } = address('p1');
    const before = { ...rest, targetRef: { ...targetRef, resourceVersion: '5' } };
    const having = (each: object) => ({ ...own(MANAGED), subsets: [{ addresses: [each], ports: [port] }] });
    given(having(before));
    await run();
    expect(apiserver.writes).toEqual([]);
    given(having({ ...rest, targetRef: { ...targetRef, name: 'x' } }));
    await run();
    expect(apiserver.writes).toHaveLength(1);
  });

  it('follows a pod that comes, becomes ready and goes', async () => {
    given(service());
    await run();
    expect(current()?.subsets ?? []).toEqual([]);
    given(pod('p1', { ready: false, readyAt: '2026-01-01T00:03:00Z' }));
    await run();
    expect(current()?.subsets).toEqual([{ notReadyAddresses: [address('p1')], ports: [port] }]);
    expect(current()?.metadata.annotations).toEqual({ [TRIGGER_TIME]: '2026-01-01T00:03:00Z' });
    given(pod('p1', { readyAt: '2026-01-01T00:04:00Z' }));
    await run();
    expect(current()?.subsets).toEqual([{ addresses: [address('p1')], ports: [port] }]);
    expect(current()?.metadata.annotations).toEqual({ [TRIGGER_TIME]: '2026-01-01T00:04:00Z' });
    apiserver.remove(Pod, { namespace: 'test', name: 'p1' });
    await run();
    expect(current()?.subsets).toEqual([]);
    expect(current()?.metadata.annotations).toBeUndefined();
  });

  it('publishes pods that are not ready, or leave, where the Service says so', async () => {
    given(service({ publishNotReadyAddresses: true }), pod('p1', { ready: false }));
    given(pod('p2', { metadata: { deletionTimestamp: '2026-01-01T00:05:00Z' } }));
    await run();
    expect(current()?.subsets).toEqual([{ addresses: [address('p1'), address('p2')], ports: [port] }]);
  });

  it('has addresses of the first family alone, and of a headless Service without ports too', async () => {
    given(service({ clusterIP: 'None', ports: [], ipFamilies: ['IPv6', 'IPv4'] }), pod('p2'));
    given(pod('p1', { ips: ['10.1.0.1', '2001:DB8::1'], spec: { hostname: 'a', subdomain: 'web' } }));
    await run();
    expect(current()?.subsets).toMatchObject([{ addresses: [{ ip: '2001:db8::1', hostname: 'a' }] }]);
    expect(current()?.subsets?.[0]).not.toHaveProperty('ports');
    expect(current()?.metadata.labels).toHaveProperty(['service.kubernetes.io/headless'], '');
  });

  it('keeps a thousand addresses, ready ones first, and says so, once', async () => {
    given(service(), ...Array.from({ length: 1010 }, (_, at) => pod(`p${at}`, { ready: at % 2 === 0 })));
    await run();
    const [subset] = current()?.subsets ?? [];
    expect(subset?.addresses).toHaveLength(505);
    expect(subset?.notReadyAddresses).toHaveLength(495);
    expect(current()?.metadata.annotations).toHaveProperty(['endpoints.kubernetes.io/over-capacity'], 'truncated');
    await run();
    expect(apiserver.writes).toHaveLength(1);
    for (let at = 0; at < 20; at += 1) apiserver.remove(Pod, { namespace: 'test', name: `p${at}` });
    await run();
    expect(current()?.metadata.annotations).not.toHaveProperty(['endpoints.kubernetes.io/over-capacity']);
  });

  it('deletes its own Endpoints when the Service is gone', async () => {
    given(own(MANAGED));
    await run();
    expect(current()).toBeUndefined();
    expect((await run()).writes).toEqual([]);
  });

  it('leaves its own Endpoints to an election that keeps its record there', async () => {
    const election = own(MANAGED);
    given({ ...election, metadata: { ...election.metadata, annotations: { [LEADER_RECORD]: '{}' } } });
    expect((await run()).writes).toEqual([]);
  });

  it('leaves Endpoints alone that were made before their Service, and deletes them with it', async () => {
    given(own());
    await run();
    expect(current()).toBeDefined();
    await run([{ type: 'deleted', object: 'v1/Service test/other', resourceVersion: '5' }]);
    expect(current()).toBeDefined();
    await run([{ type: 'deleted', object: 'v1/Service test/web', resourceVersion: '5' }]);
    expect(current()).toBeUndefined();
  });

  it.each([
    ['without a selector', service({ selector: undefined as never })],
    ['that stands for a name outside', service({ type: 'ExternalName', externalName: 'a.example' })],
  ])('leaves the Endpoints of a Service alone %s', async (_, found) => {
    given(found, own(), pod('p1'));
    await run();
    expect(apiserver.writes).toEqual([]);
  });

  it('tells when it cannot write, unless the namespace is being deleted', async () => {
    given(service(), pod('p1'));
    const causes = [{ reason: 'NamespaceTerminating' }];
    apiserver.fail({ verb: 'create', resource: 'endpoints' }, { code: 403, causes });
    expect((await run()).outcome.status).toBe('done');
    apiserver.fail({ verb: 'create', resource: 'endpoints' }, { code: 403 });
    expect((await run()).outcome.status).toBe('error');
    expect(apiserver.objects(Event)).toMatchObject([{ type: 'Warning', reason: 'FailedToCreateEndpoint' }]);
  });
});
