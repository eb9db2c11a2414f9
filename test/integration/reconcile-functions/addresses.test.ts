import type { LookupAddress } from 'node:dns';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type KubernetesObject, resource, resourcePath } from '../../../src/core/index.ts';
import { type EndpointRules, guardedLookup } from '../../../src/gateway/controller/endpoint/endpoint-rules.ts';
import type { LookupAll } from '../../../src/gateway/controller/endpoint/name-lookups.ts';
import { functionEndpoint } from '../../../src/gateway/registration/function-endpoint.ts';
import type { ReconcileFunctionSpec } from '../../../src/gateway/registration/reconcile-function.ts';
import { type Cluster, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { ownBounds } from '../../harness/own-bounds.ts';
import { Started } from '../../harness/started.ts';

const services = resource<KubernetesObject & { spec: { clusterIP: string } }>('v1', 'Service');
const slices = resource('discovery.k8s.io/v1', 'EndpointSlice');
const nodes = resource('v1', 'Node', { namespaced: false });
/** Where the pods are: the garbage collector deletes pods of nodes that are not there. */
const node = uniqueName('node');
const tenant = uniqueName('tenant');
const victim = uniqueName('victim');
/** TEST-NET-1 and -2 (RFC 5737): no pod of another test has these. */
const OWN = '192.0.2.1';
const ENDED = '192.0.2.2';
const NODE = '192.0.2.3';
const FOREIGN = '198.51.100.1';
const FOREIGN_ENDED = '198.51.100.2';
const OUTSIDE = '203.0.113.1';
/** The addresses of pods whose status a tenant has written, by name. */
const FORGED = {
  pod: FOREIGN,
  node: NODE,
  'no-node': '203.0.113.2',
  metadata: '168.63.129.16',
} as const;
/** Of the pod that has `FOREIGN`, on a dual-stack cluster (RFC 3849). */
const FOREIGN_SECOND = '2001:db8::1';

const started = new Started();
let cluster: Cluster;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), tenant);
  await cluster.createNamespace(victim);
  started.add(() => cluster.deleteNamespace(victim));
  await cluster.create(nodes, { metadata: { name: node } });
  started.add(() => cluster.delete(nodes, { name: node }));
  await pod(tenant, 'web', OWN);
  await pod(tenant, 'job', ENDED, { phase: 'Succeeded' });
  await pod(victim, 'db', FOREIGN, { second: FOREIGN_SECOND });
  await pod(victim, 'job', FOREIGN_ENDED, { phase: 'Failed' });
  // Both are in the network of one node. The older one owns its address.
  await pod(victim, 'agent', NODE, { spec: { hostNetwork: true } });
  await pod(tenant, 'agent', NODE, { spec: { hostNetwork: true }, labels: { app: 'agent' } });
  // A tenant with all rights in its namespace may write `pods/status`, and name any node.
  for (const [name, address] of Object.entries(FORGED)) {
    const spec = name === 'no-node' ? { nodeName: undefined } : {};
    await pod(tenant, name, address, { spec, labels: { app: 'forged', forged: name } });
  }
  // The apiserver answers lists from a cache of its own.
  await eventually(async () => {
    const listed = [...(await cluster.list(pods, tenant)).items, ...(await cluster.list(pods, victim)).items];
    expect(listed.filter(({ status }) => status?.phase !== 'Pending')).toHaveLength(6 + Object.keys(FORGED).length);
  });
});
afterAll(() => started.stop());

interface PodOptions {
  readonly phase?: string;
  /** Its address of the other family. */
  readonly second?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: { readonly nodeName?: string | undefined; readonly hostNetwork?: boolean };
}

async function pod(namespace: string, name: string, ip: string, options: PodOptions = {}): Promise<void> {
  const { phase = 'Running', second, labels = { app: 'web' }, spec: more } = options;
  const containers = [{ name: 'a', image: 'a' }];
  // No kubelet ends it.
  const ends = { terminationGracePeriodSeconds: 0, automountServiceAccountToken: false };
  const spec = { containers, nodeName: node, ...ends, ...more };
  await cluster.create(pods, { metadata: { namespace, name, labels }, spec });
  const podIPs = [ip, ...(second === undefined ? [] : [second])].map((each) => ({ ip: each }));
  await cluster.client.json({
    method: 'PATCH',
    path: resourcePath(pods, { namespace, name, subresource: 'status' }),
    contentType: 'application/merge-patch+json',
    body: { status: { phase, podIP: ip, podIPs } },
  });
}

/** @returns its address. */
async function service(namespace: string, name: string, more: object = {}): Promise<string> {
  const spec = { ports: [{ port: 80 }], selector: { app: 'web' }, ...more };
  return (await cluster.create(services, { metadata: { namespace, name }, spec })).spec.clusterIP;
}

/** As a tenant makes it. */
function slice(name: string, of: string, ...addresses: string[]): Promise<unknown> {
  return cluster.create(slices, {
    metadata: { namespace: tenant, name, labels: { 'kubernetes.io/service-name': of } },
    addressType: 'IPv4',
    endpoints: addresses.map((address) => ({ addresses: [address] })),
    ports: [{ port: 80 }],
  });
}

async function rulesOf(endpoint: ReconcileFunctionSpec['endpoint'], allowed: string[] = []): Promise<EndpointRules> {
  const handshakes = () => ownBounds().budget;
  const where = { client: cluster.client, namespace: tenant, allowed, handshakes, signal: AbortSignal.timeout(10_000) };
  return (await functionEndpoint(endpoint, where)).rules;
}

/** A look that took longer than the gateway waits for one, two seconds, gives no answer and is asked again. */
const refusal = ({ connectRefusal }: EndpointRules, ...addresses: string[]) =>
  eventually(async () => connectRefusal?.(addresses));
const serviceRules = (name: string) => rulesOf({ service: { name, port: 80, path: '/', scheme: 'http' } });

describe('a connection to the Service of a ReconcileFunction', () => {
  it('is opened while its EndpointSlices have addresses of its own pods alone', async () => {
    const address = await service(tenant, 'good');
    await slice('good', 'good', OWN);
    const rules = await serviceRules('good');
    expect(await refusal(rules, address)).toBeUndefined();
    await slice('more', 'good', OWN, FOREIGN);
    const foreign = `an EndpointSlice of good has the address ${FOREIGN}, which is of none of its pods`;
    await eventually(async () => expect(await refusal(rules, address)).toBe(foreign));
    await cluster.delete(slices, { namespace: tenant, name: 'more' });
    await eventually(async () => expect(await refusal(rules, address)).toBeUndefined());
  });

  it('is refused at the address of a pod that has ended, which another pod may have by now', async () => {
    const address = await service(tenant, 'ended');
    await slice('ended', 'ended', ENDED);
    expect(await refusal(await serviceRules('ended'), address)).toContain(`has the address ${ENDED}`);
  });

  it('is refused when the name of a headless Service has another address than its pods', async () => {
    await service(tenant, 'headless', { clusterIP: 'None' });
    const rules = await serviceRules('headless');
    expect(await refusal(rules, OWN)).toBeUndefined();
    expect(await refusal(rules, FOREIGN)).toBe(
      `the name of headless has the address ${FOREIGN}, which is of none of its pods`,
    );
  });

  it.each([
    ['pod', "an address of another namespace's pod or Service"],
    ['node', "an address of another namespace's pod or Service"],
    ['no-node', 'which is of none of its pods'],
    ['metadata', 'an address that no function has'],
  ] as const)('is refused at an address that a tenant has given to its pod by pods/status: %s', async (name, why) => {
    const address = FORGED[name];
    const specs = { slice: {}, headless: { clusterIP: 'None' } };
    for (const [kind, spec] of Object.entries(specs)) {
      const named = `forged-${name}-${kind}`;
      const clusterIp = await service(tenant, named, { ...spec, selector: { forged: name } });
      if (kind === 'slice') await slice(named, named, address);
      const refused = await refusal(await serviceRules(named), kind === 'slice' ? clusterIp : address);
      expect(refused, kind).toContain(`has the address ${address}, ${why}`);
    }
  });

  it('is refused at an address of a Service that a tenant has given to its pod by pods/status', async () => {
    for (const [namespace, why] of [
      [victim, "an address of another namespace's pod or Service"],
      [tenant, 'an address of a Service'],
    ] as const) {
      const address = await service(namespace, 'aim');
      await pod(tenant, `aim-${namespace}`, address, { labels: { app: `aim-${namespace}` } });
      const clusterIp = await service(tenant, `at-${namespace}`, { selector: { app: `aim-${namespace}` } });
      await slice(`at-${namespace}`, `at-${namespace}`, address);
      const rules = await serviceRules(`at-${namespace}`);
      await eventually(async () => expect(await refusal(rules, clusterIp)).toContain(`${address}, ${why}`));
    }
  });

  it('is opened to the address of a node where its own pod is in the network of this node', async () => {
    const address = await service(tenant, 'agent', { selector: { app: 'agent' } });
    await slice('agent', 'agent', NODE);
    expect(await refusal(await serviceRules('agent'), address)).toBeUndefined();
  });

  it('is refused without a selector, at the declaration and at the use', async () => {
    await expect(
      service(tenant, 'anywhere', { selector: undefined }).then(() => serviceRules('anywhere')),
    ).rejects.toThrow('has no selector');
    const address = await service(tenant, 'changed');
    const rules = await serviceRules('changed');
    expect(await refusal(rules, address)).toBeUndefined();
    await cluster.client.json({
      method: 'PATCH',
      path: resourcePath(services, { namespace: tenant, name: 'changed' }),
      contentType: 'application/merge-patch+json',
      body: { spec: { selector: null } },
    });
    await slice('changed', 'changed', FOREIGN);
    await eventually(async () => expect(await refusal(rules, address)).toContain('changed has no selector'));
  });
});

describe('a connection to a URL that a star of the operator allows', () => {
  const url = 'http://fn.example.com';
  const star = () => rulesOf({ url }, ['http://*.example.com']);
  const another = (address: string): string => `the endpoint has ${address}, an address of another namespace's pod or`;

  it('goes outside of the cluster, and to pods of its namespace', async () => {
    const rules = await star();
    for (const address of [OUTSIDE, OWN, FOREIGN_ENDED]) expect(await refusal(rules, address)).toBeUndefined();
  });

  it("goes to no pod, Service or node's pod of another namespace", async () => {
    const rules = await star();
    for (const address of [FOREIGN, NODE, await service(victim, 'db')]) {
      expect(await refusal(rules, OUTSIDE, address)).toContain(another(address));
    }
  });

  it('uses no address of the second family, because the apiserver finds no pod by it', async () => {
    const both: LookupAddress[] = [
      { address: OUTSIDE, family: 4 },
      { address: FOREIGN_SECOND, family: 6 },
    ];
    const unknownName = Object.assign(new Error('getaddrinfo ENOTFOUND fn.example.com'), { code: 'ENOTFOUND' });
    const connectTo = async (...named: LookupAddress[]): Promise<unknown> => {
      const lookup: LookupAll = (_name, { family }, found) => {
        const some = named.filter((each) => !family || each.family === family);
        return some.length > 0 ? found(null, some) : found(unknownName, []);
      };
      const rules = await star();
      return new Promise((resolve) =>
        guardedLookup(rules, lookup)('fn.example.com', { all: true }, (error, found) => resolve(error ?? found)),
      );
    };
    await eventually(async () => expect(await connectTo(...both)).toEqual([{ address: OUTSIDE, family: 4 }]));
    const onlyIpv4 = 'ENOTFOUND fn.example.com: only IPv4 is used';
    await eventually(async () =>
      expect(String(await connectTo({ address: FOREIGN_SECOND, family: 6 }))).toContain(onlyIpv4),
    );
  });

  it('goes to a Service of its namespace only while this leads to its pods alone', async () => {
    const rules = await star();
    const anywhere = await service(tenant, 'no-selector', { selector: undefined });
    expect(await refusal(rules, anywhere)).toContain('no-selector has no selector');
    const address = await service(tenant, 'by-name');
    expect(await refusal(rules, address)).toBeUndefined();
    await slice('by-name', 'by-name', FOREIGN);
    await eventually(async () => expect(await refusal(rules, address)).toContain(`has the address ${FOREIGN}`));
  });

  it('goes to a Service of another namespace that the operator names, such as that of an ingress', async () => {
    const ingress = await service(victim, 'ingress');
    const named = [`http://ingress.${victim}.svc`, `http://ingress.${victim}.svc.cluster.local:8080`];
    for (const origin of named) {
      expect(await refusal(await rulesOf({ url }, ['http://*.example.com', origin]), ingress)).toBeUndefined();
    }
    const other = `http://ingress.${victim}.svcs`;
    expect(await refusal(await rulesOf({ url }, ['http://*.example.com', other]), ingress)).toContain(another(ingress));
  });

  it('goes anywhere when the operator names the origin itself', async () => {
    const rules = await rulesOf({ url }, ['http://*.example.com', url]);
    expect(await refusal(rules, FOREIGN)).toBeUndefined();
    // A star is no name.
    const starred = await rulesOf({ url: 'http://*.example.com' }, ['http://*.example.com']);
    expect(await refusal(starred, FOREIGN)).toContain(another(FOREIGN));
  });
});
