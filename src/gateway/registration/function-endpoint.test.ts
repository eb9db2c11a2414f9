import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/harness/eventually.ts';
import { ScriptedApiserver } from '../../../test/harness/scripted-apiserver.ts';
import { CpuBudgets } from '../controller/cel/cpu-budget.ts';
import { type EndpointRules, guardedLookup } from '../controller/endpoint/endpoint-rules.ts';
import { functionEndpoint } from './function-endpoint.ts';
import type { ReconcileFunctionSpec } from './reconcile-function.ts';

let server: ScriptedApiserver;
let services: Record<string, object>;
let slices: object[];
let pods: Pod[];
/** Pods of another namespace. */
let foreignPods: Pod[];
let asked: number;
/** Lists of the owners of an address. */
let askedOwners: number;
/** Whether the apiserver has more EndpointSlices, or pods, than its answer. */
let more: { slices?: boolean; pods?: boolean };
interface Pod {
  readonly metadata: {
    readonly namespace: string;
    readonly name: string;
    readonly annotations?: object;
    readonly creationTimestamp?: string;
  };
  readonly spec: { readonly nodeName?: string; readonly hostNetwork?: boolean };
  readonly status: { readonly podIPs: readonly { readonly ip: string }[] };
}

const podAt = (ips: readonly string[], namespace = 'shop', spec: Pod['spec'] = { nodeName: 'n1' }): Pod => ({
  metadata: { namespace, name: 'p' },
  spec,
  status: { podIPs: ips.map((ip) => ({ ip })) },
});

/** As the apiserver selects pods, by the fields that the gateway names. */
const selected = (all: readonly Pod[], selector: string): Pod[] =>
  all.filter(({ spec, status }) =>
    selector.split(',').every((term) => {
      const [field, value] = term.split('=') as [string, string];
      if (field === 'spec.nodeName!') return (spec.nodeName ?? '') !== value;
      if (field === 'spec.hostNetwork') return String(spec.hostNetwork ?? false) === value;
      return field !== 'status.podIP' || status.podIPs[0]?.ip === value;
    }),
  );

const metadata = { namespace: 'shop', name: 'web' };
const selector = { app: 'web' };
beforeEach(async () => {
  server = await ScriptedApiserver.start();
  services = { web: { metadata, spec: { selector, ports: [{ name: 'http', port: 8080 }, { port: 443 }] } } };
  slices = [];
  pods = [];
  foreignPods = [];
  asked = 0;
  askedOwners = 0;
  more = {};
  const clusterIpOf = (selector: string): object[] =>
    Object.values(services).filter(({ spec }: { spec?: { clusterIP?: string } }) =>
      selector.endsWith(`=${spec?.clusterIP}`),
    );
  const listed = (items: object[], isPart = false): object => ({ metadata: isPart ? { continue: 'x' } : {}, items });
  server.answer((path, _body, { fieldSelector = '' }) => {
    asked += 1;
    if (path === '/api/v1/pods' || path === '/api/v1/services') askedOwners += 1;
    if (path === '/api/v1/pods') return listed(selected([...pods, ...foreignPods], fieldSelector));
    if (path === '/api/v1/services') return listed(clusterIpOf(fieldSelector));
    if (path === '/api/v1/namespaces/default/services/kubernetes') return { spec: { clusterIP: '10.96.0.1' } };
    if (path.startsWith('/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices')) return listed(slices, more.slices);
    if (path.startsWith('/api/v1/namespaces/shop/pods')) return listed(selected(pods, fieldSelector), more.pods);
    return services[path.replace('/api/v1/namespaces/shop/services/', '')];
  });
});
afterEach(() => server[Symbol.asyncDispose]());

const handshakes = () => new CpuBudgets().of('shop.');
const at = (endpoint: ReconcileFunctionSpec['endpoint'], allowed: string[] = []) =>
  functionEndpoint(endpoint, {
    // Each function has a client of its own.
    client: server.client.for('shop.web'),
    namespace: 'shop',
    allowed,
    handshakes,
    signal: AbortSignal.timeout(10_000),
  });
/** A look has two seconds, and is made again: a machine may stand still for longer. */
const refusalOf = async ({ connectRefusal }: EndpointRules, ...addresses: string[]): Promise<string | undefined> => {
  for (;;) {
    try {
      return await connectRefusal?.(addresses);
    } catch (error) {
      if (!(error instanceof DOMException && error.name === 'TimeoutError')) throw error;
    }
  }
};
const service = (more: object = {}) => ({
  service: { name: 'web', port: 'http', path: '/', scheme: 'http' as const, ...more },
});

describe('where a ReconcileFunction is', () => {
  it.each<[object, string]>([
    [{}, 'http://web.shop.svc:8080/'],
    [{ port: 443, scheme: 'https' }, 'https://web.shop.svc/'],
    [{ path: '/a/b?c=d' }, 'http://web.shop.svc:8080/a/b?c=d'],
    // Such a path would name another host, if it were resolved as a link is.
    [{ path: '//169.254.169.254/latest' }, 'http://web.shop.svc:8080//169.254.169.254/latest'],
    [{ path: '/\\169.254.169.254/latest' }, 'http://web.shop.svc:8080//169.254.169.254/latest'],
    [{ path: '/@169.254.169.254' }, 'http://web.shop.svc:8080/@169.254.169.254'],
  ])('is its Service: %j', async (more, url) => {
    const found = await at(service(more));
    expect(found.url).toBe(url);
    // Nothing else may be connected to, this machine least of all.
    expect(found.rules).toMatchObject({ allow: [new URL(url).origin], loopback: false, handshakes });
  });

  it.each<[string, object, object, string]>([
    ['that is not there', {}, { name: 'other' }, 'ServiceNotFound'],
    [
      'that stands for another name',
      { spec: { type: 'ExternalName', externalName: 'x' } },
      {},
      'ServiceIsExternalName',
    ],
    ['without a selector', { spec: { ports: [{ name: 'http', port: 8080 }] } }, {}, 'ServiceWithoutSelector'],
    ['without that port', { spec: { selector, ports: [{ name: 'https', port: 443 }] } }, {}, 'ServicePortNotFound'],
    ['without any', { spec: { selector } }, {}, 'ServicePortNotFound'],
  ])('is no Service %s', async (_what, web, more, reason) => {
    services['web'] = web;
    await expect(at(service(more))).rejects.toMatchObject({ condition: 'Reachable', reason });
  });

  it('is no Service any more once that has become an ExternalName, or is gone: no connection is opened', async () => {
    const { rules } = await at(service());
    const connects = (): Promise<unknown> =>
      new Promise((resolve) =>
        guardedLookup(rules, (_name, _options, found) => found(null, [{ address: '10.0.0.7', family: 4 }]))(
          'web.shop.svc',
          {},
          resolve,
        ),
      );
    expect(await connects()).toBeNull();
    services['web'] = {
      spec: { type: 'ExternalName', externalName: 'elsewhere.example.com', ports: [{ port: 8080 }] },
    };
    // And not with the next review, which comes once a minute.
    await eventually(async () => expect(String(await connects())).toContain('is an ExternalName'), 30_000);
    delete services['web'];
    await eventually(async () => expect(String(await connects())).toContain('there is no Service web'));
    services['web'] = { metadata, spec: { ports: [{ port: 8080 }] } };
    await eventually(async () => expect(String(await connects())).toContain('has no selector'));
    services['web'] = { metadata, spec: { selector, ports: [{ port: 8080 }] } };
    await eventually(async () => expect(await connects()).toBeNull());
  });

  it('is its pods alone: an EndpointSlice with another address keeps the gateway from connecting', async () => {
    const { rules } = await at(service());
    const endpoints = (...addresses: string[]): object => ({ endpoints: [{ addresses }] });
    pods = [podAt(['10.0.0.7', 'fd00::7'])];
    slices = [endpoints('10.0.0.7'), endpoints('fd00:0::7')];
    expect(await refusalOf(rules)).toBeUndefined();
    for (const address of ['10.0.0.8', '168.63.129.16', 'fd00::8', 'node.example.com']) {
      slices = [endpoints('10.0.0.7'), { endpoints: null }, endpoints(address)];
      await eventually(async () =>
        expect(await refusalOf(rules)).toBe(
          `an EndpointSlice of web has the address ${address}, which is of none of its pods`,
        ),
      );
    }
    slices = [];
    await eventually(async () => expect(await refusalOf(rules)).toBeUndefined());
  });

  it('is its pods alone, also where the name of a headless Service leads to an address that no slice has any more', async () => {
    services['web'] = { metadata, spec: { clusterIP: 'None', selector, ports: [{ name: 'http', port: 8080 }] } };
    pods = [podAt(['10.0.0.7'])];
    const { rules } = await at(service());
    expect(await refusalOf(rules, '10.0.0.7')).toBeUndefined();
    // A pod that has just started is one of its pods at once: a function that was at zero must not wait.
    pods = [podAt(['10.0.0.7']), podAt(['10.0.0.8'])];
    expect(await refusalOf(rules, '10.0.0.8')).toBeUndefined();
    expect(await refusalOf(rules, '10.0.0.7', '10.0.0.9')).toBe(
      'the name of web has the address 10.0.0.9, which is of none of its pods',
    );
    pods = [podAt(['10.0.0.9'])];
    await eventually(async () => expect(await refusalOf(rules, '10.0.0.9')).toBeUndefined());
  });

  it.each<[string, string, Pod, Pod[]]>([
    [
      'another namespace has its pod',
      "10.0.0.8, an address of another namespace's pod or Service",
      podAt(['10.0.0.8']),
      [podAt(['10.0.0.8'], 'bank')],
    ],
    ['no node has its pod', '10.0.0.8, which is of none of its pods', podAt(['10.0.0.8'], 'shop', {}), []],
    [
      'no function has such an address',
      '168.63.129.16, an address that no function has (link-local, multicast, unspecified, or metadata of a cloud)',
      podAt(['168.63.129.16']),
      [],
    ],
    ['it has another spelling', '010.0.0.8, which is of none of its pods', podAt(['010.0.0.8']), []],
    [
      'it is within IPv6',
      "10.0.0.8, an address of another namespace's pod or Service",
      podAt(['::ffff:10.0.0.8']),
      [podAt(['10.0.0.8'], 'bank')],
    ],
    [
      'it is a Service of another namespace',
      "10.96.0.9, an address of another namespace's pod or Service",
      podAt(['10.96.0.9']),
      [],
    ],
    ['it is a Service of its own', '10.96.0.8, an address of a Service', podAt(['10.96.0.8']), []],
    [
      'a node has it',
      "10.1.0.1, an address of another namespace's pod or Service",
      podAt(['10.1.0.1']),
      [podAt(['10.1.0.1'], 'kube-system', { nodeName: 'n1', hostNetwork: true })],
    ],
    [
      'its pod in the network of a node has it from another namespace',
      "10.0.0.8, an address of another namespace's pod or Service",
      podAt(['10.0.0.8'], 'shop', { nodeName: 'n1', hostNetwork: true }),
      [podAt(['10.0.0.8'], 'bank')],
    ],
  ])('is at no address that a client has written into the status of a pod: %s', async (_what, why, pod, others) => {
    services['other'] = { metadata: { namespace: 'shop', name: 'other' }, spec: { clusterIP: '10.96.0.8' } };
    services['bank'] = { metadata: { namespace: 'bank', name: 'db' }, spec: { clusterIP: '10.96.0.9' } };
    services['headless'] = { metadata, spec: { clusterIP: 'None', selector, ports: [{ name: 'http', port: 8080 }] } };
    pods = [podAt(['10.0.0.7']), pod];
    foreignPods = others;
    const [{ ip } = { ip: '' }] = pod.status.podIPs;
    slices = [{ endpoints: [{ addresses: ['10.0.0.7', ip] }] }];
    expect(await refusalOf((await at(service())).rules)).toBe(`an EndpointSlice of web has the address ${why}`);
    // A slice need not be there any more.
    slices = [];
    const { rules } = await at(service({ name: 'headless' }));
    expect(await refusalOf(rules, '10.0.0.7', ip)).toBe(`the name of headless has the address ${why}`);
    expect(await refusalOf(rules, '10.0.0.7')).toBeUndefined();
  });

  it.each([
    ['later', 2, undefined],
    [
      'in the same second',
      1,
      "an EndpointSlice of web has the address 10.0.0.8, an address of another namespace's pod or Service",
    ],
    ['before', 0, "an EndpointSlice of web has the address 10.0.0.8, an address of another namespace's pod or Service"],
  ])('has its address when another namespace claims it %s, if its own pod is older', async (_, second, why) => {
    const born = (pod: Pod, at: number): Pod => ({
      ...pod,
      metadata: { ...pod.metadata, creationTimestamp: `2026-11-30T10:00:0${at}Z` },
    });
    slices = [{ endpoints: [{ addresses: ['10.0.0.8'] }] }];
    pods = [born(podAt(['10.0.0.8']), 1)];
    foreignPods = [born(podAt(['10.0.0.8'], 'bank'), second)];
    expect(await refusalOf((await at(service())).rules)).toBe(why);
  });

  it('is at the address of a node where its own pod is in the network of this node', async () => {
    const inHost = { nodeName: 'n1', hostNetwork: true };
    pods = [podAt(['10.1.0.1'], 'shop', inHost)];
    foreignPods = [podAt(['10.1.0.1'], 'kube-system', inHost)];
    slices = [{ endpoints: [{ addresses: ['10.1.0.1'] }] }];
    expect(await refusalOf((await at(service())).rules)).toBeUndefined();
  });

  it('is at an address that only a pod without a node has in another namespace', async () => {
    pods = [podAt(['10.0.0.7'])];
    foreignPods = [podAt(['10.0.0.7'], 'bank', {})];
    slices = [{ endpoints: [{ addresses: ['10.0.0.7'] }] }];
    expect(await refusalOf((await at(service())).rules)).toBeUndefined();
  });

  it('is connected to by the first address family of the cluster, because others have no known owner', async () => {
    expect((await at(service())).rules.family).toBe(4);
  });

  it('asks for the owners of an address once, as long as they are remembered', async () => {
    pods = Array.from({ length: 20 }, (_, at) => podAt([`10.0.0.${at}`]));
    slices = [{ endpoints: pods.map(({ status }) => ({ addresses: status.podIPs.map(({ ip }) => ip) })) }];
    services['headless'] = { metadata, spec: { clusterIP: 'None', selector, ports: [{ name: 'http', port: 8080 }] } };
    const { rules } = await at(service({ name: 'headless' }));
    expect(await refusalOf(rules, '10.0.0.1')).toBeUndefined();
    for (let connection = 0; connection < 20; connection += 1)
      expect(await refusalOf(rules, `10.0.0.${connection}`)).toBeUndefined();
    // Of the Services and of the pods.
    expect(askedOwners).toBe(2 * 20);
  });

  it('has the owners of eight addresses asked for by a look, and of the others by the next ones', async () => {
    pods = Array.from({ length: 9 }, (_, at) => podAt([`10.0.0.${at}`]));
    slices = [{ endpoints: pods.map(({ status }) => ({ addresses: status.podIPs.map(({ ip }) => ip) })) }];
    const { rules } = await at(service());
    expect(await refusalOf(rules)).toBeUndefined();
    expect(askedOwners).toBe(2 * 8);
    // One of them is asked for by each look. The false one is found, wherever it stands.
    foreignPods = pods.map(({ status }) => podAt([status.podIPs[0]?.ip ?? ''], 'bank'));
    await eventually(async () =>
      expect(await refusalOf(rules)).toMatch(
        /^an EndpointSlice of web has the address 10\.0\.0\.\d, an address of another/,
      ),
    );
    expect(askedOwners).toBe(2 * 9);
  });

  it('is not compared with its pods when there is too much to compare', async () => {
    const own = '10.0.0.7';
    pods = [podAt([own])];
    const withSlices = async (...found: object[]): Promise<string | undefined> => {
      slices = found;
      services = { [`web-${asked}`]: services['web'] as object };
      const [name] = Object.keys(services) as [string];
      const refused = await refusalOf((await at(service({ name }))).rules);
      services = { web: services[name] as object };
      return refused?.replace(name, 'web');
    };
    const slice = (...addresses: string[]): object => ({ endpoints: [{ addresses }] });
    expect(await withSlices(slice(own))).toBeUndefined();
    const large = { metadata: { annotations: { a: 'x'.repeat(4 * 1024 * 1024) } } };
    const tooMany = (kind: string): string => `web has too many ${kind} to compare: 1000 and 4 MiB at most`;
    expect(await withSlices({ ...large, ...slice(own) })).toBe(tooMany('EndpointSlices'));
    const spellings = Array.from({ length: 5001 }, (_, at) => `fd00::${at.toString(16)}`);
    expect(await withSlices(slice(...spellings))).toBe('web has more than 5000 addresses in its EndpointSlices');
    pods = [podAt([own])];
    more = { slices: true };
    expect(await withSlices(slice(own))).toBe(tooMany('EndpointSlices'));
    more = { pods: true };
    expect(await withSlices(slice(own))).toBe(tooMany('pods'));
    more = {};
    pods = [{ ...podAt([own]), metadata: { ...metadata, ...large.metadata } }];
    expect(await withSlices(slice(own))).toBe(tooMany('pods'));
  });

  it('is looked at twice a second at most when it is refused, however often connections are attempted', async () => {
    slices = [{ endpoints: [{ addresses: ['10.0.0.8'] }] }];
    const { rules } = await at(service());
    const startedMs = performance.now();
    asked = 0;
    for (let attempt = 0; attempt < 50; attempt += 1)
      expect(await refusalOf(rules)).toContain('has the address 10.0.0.8');
    // A look asks for the Service, its EndpointSlices and its pods.
    expect(asked).toBeLessThanOrEqual(2 * 3 * Math.ceil(1 + (performance.now() - startedMs) / 1000));
  });

  it('is looked at once for all functions that name it', async () => {
    const all = await Promise.all([at(service()), at(service({ port: 443 })), at(service({ path: '/a' }))]);
    asked = 0;
    await Promise.all(all.map(async ({ rules }) => refusalOf(rules)));
    expect(asked).toBe(2);
  });

  it('asks once for connections that are opened together, and opens none while nobody knows', async () => {
    const { rules } = await at(service());
    asked = 0;
    const answers = await Promise.all(Array.from({ length: 50 }, async () => refusalOf(rules)));
    // The Service and its EndpointSlices.
    expect([asked, new Set(answers)]).toEqual([2, new Set([undefined])]);
    await server[Symbol.asyncDispose]();
    await eventually(async () => expect(refusalOf(rules)).rejects.toThrow());
  });

  it('is behind a star no Service of another namespace, which an ingress in the cluster would find by its name', async () => {
    const stars = ['http://*.svc.cluster.local', 'https://*.example.com'];
    expect((await at({ url: 'http://web.shop.svc.cluster.local/' }, stars)).url).toBe(
      'http://web.shop.svc.cluster.local/',
    );
    expect((await at({ url: 'https://svc.example.com/' }, stars)).url).toBe('https://svc.example.com/');
    expect((await at({ url: 'https://web.svc.example.com/' }, stars)).url).toBe('https://web.svc.example.com/');
    const other = { url: 'http://web.bank.svc.cluster.local/any?path' };
    const refused = { condition: 'Reachable', reason: 'EndpointNotAllowed', message: expect.stringContaining('bank') };
    await expect(at(other, stars)).rejects.toMatchObject(refused);
    expect((await at(other, ['http://web.bank.svc.cluster.local'])).url).toBe(other.url);
  });

  it('is where the operator allows, on this machine only if he names it', async () => {
    const allowed = ['https://functions.example.com'];
    expect(await at({ url: 'https://functions.example.com/a' }, allowed)).toEqual({
      url: 'https://functions.example.com/a',
      rules: { allow: allowed, loopback: false, tenant: 'shop.', handshakes },
      ca: undefined,
    });
    const onThis = ['http://127.0.0.1:1', 'http://*.example.com:8080'];
    expect((await at({ url: 'http://127.0.0.1:1/' }, onThis)).rules.loopback).toBe(true);
    // The owner of the name may let it lead to this machine.
    expect((await at({ url: 'http://a.example.com:8080/' }, onThis)).rules.loopback).toBe(false);
  });

  it.each([
    ['https://elsewhere.example.com', 'EndpointNotAllowed'],
    ['https://functions.example.com:444', 'EndpointNotAllowed'],
    ['http://169.254.169.254', 'EndpointAddressRefused'],
    ['https://a:b@functions.example.com', 'EndpointHasPassword'],
    ['file:///etc/passwd', 'EndpointInvalid'],
    ['functions', 'EndpointInvalid'],
  ])('is not %s: %s', async (url, reason) => {
    const allowed = ['https://functions.example.com', 'http://169.254.169.254'];
    await expect(at({ url }, allowed)).rejects.toMatchObject({ condition: 'Reachable', reason });
  });
});
