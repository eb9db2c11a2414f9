import { describe, expect } from 'vitest';
import { ApiError, controller, type Reconcile } from '../../../src/function/index.ts';
import { readConfig } from '../../../src/ground/config/config.ts';
import { type Cluster, configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { GatewayAccount } from '../../harness/gateway-account.ts';
import { untilReady } from '../../harness/levelhook.ts';
import { NodeFunction } from '../../harness/node-function.ts';
import { openGateway } from '../../harness/opened.ts';
import { installReconcileFunctions, settingsFor, Tenant } from '../../harness/tenant.ts';
import { it } from '../../harness/world.ts';

let cluster: Cluster;
let namespace: string;
let tenant: Tenant;
let account: GatewayAccount;
let served: NodeFunction;
let logs: () => string;
let reconcile: Reconcile;
/** What the writes of the last runs have led to. */
const refusals: ApiError[] = [];

it.beforeAll(async ({ world }) => {
  const { setting, started } = world;
  ({ cluster, namespace } = world);
  await installReconcileFunctions(cluster);
  tenant = await new Tenant(cluster, namespace).create();
  await tenant.allow('own', [{ apiGroups: [''], resources: ['configmaps'] }]);
  await tenant.allow('write', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['patch', 'update'] }]);
  account = new GatewayAccount(cluster, namespace);
  const kubeconfig = await account.create(setting.kubeconfig, await started.directory());
  await account.grantFile('gateway.yaml');
  started.add(() => account.revoke('gateway.yaml'));
  await account.grant('read', [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'watch'] }]);
  started.add(() => account.revoke('read'));
  const handler = controller({ name: 'stamper', for: configMaps }).reconcile(async (request, context) => {
    return reconcile(request, context);
  });
  served = await started.open(new NodeFunction(handler, tenant.secret));
  const variables = { ...settingsFor([namespace], [served.url]), LEVELHOOK_LOG_LEVEL: 'debug' };
  const gateway = started.keep(await openGateway({ ...setting, kubeconfig }, [], variables));
  logs = () => gateway.process.output;
  await untilReady(gateway.url);
});

const own = () => ({ for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace] } });

describe('credentials: token', () => {
  it('says which right the gateway lacks, and sends nothing', async () => {
    reconcile = async () => {};
    await tenant.declare('stamper', { endpoint: { url: served.url }, credentials: 'token', ...own() });
    const { message } = await tenant.until('stamper', 'Ready', { status: 'False', reason: 'TokenRefused' });
    expect(message).toContain('infra/rbac/credentials-token.yaml');
    expect(served.triggers).toEqual([]);
  });

  it('lets a function that has no credentials write as its ServiceAccount, and no more', async ({ world }) => {
    reconcile = async ({ namespace, name }, { api }) => {
      if (name !== 'mine') return;
      const key = namespace === undefined ? { name } : { namespace, name };
      await api.patch(configMaps, key, { type: 'merge', body: { data: { stamped: 'yes' } } });
      await api.delete(configMaps, key).catch((error: unknown) => refusals.push(error as ApiError));
    };
    await account.grantFile('credentials-token.yaml');
    world.started.add(() => account.revoke('credentials-token.yaml'));
    await tenant.until('stamper', 'Ready', { status: 'True' });
    await cluster.create(configMaps, { metadata: { namespace, name: 'mine' } });
    await eventually(async () => {
      const found = await cluster.get(configMaps, { namespace, name: 'mine' });
      expect(found?.data).toEqual({ stamped: 'yes' });
    });
    const [refused] = await eventually(async () => {
      expect(refusals.length).toBeGreaterThan(0);
      return refusals;
    });
    expect(refused).toBeInstanceOf(ApiError);
    expect(refused).toMatchObject({ code: 403, reason: 'Forbidden' });
    expect(refused?.message).toContain(`User "system:serviceaccount:${namespace}:reader" cannot delete`);
  });

  it('uses one token for many triggers, and shows it to nobody else', async () => {
    const before = served.triggers.length;
    await cluster.create(configMaps, { metadata: { namespace, name: 'more' } });
    await eventually(async () => expect(served.triggers.length).toBeGreaterThan(before));
    const found = new Set(served.triggers.map(({ kubernetes }) => kubernetes?.token));
    expect(found.size).toBe(1);
    const [token = ''] = found;
    expect(token).not.toBe('');
    expect(logs()).not.toContain(token);
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, number>;
    expect((claims['exp'] ?? 0) - (claims['iat'] ?? 0)).toBe(600);
    expect(claims['sub']).toBe(`system:serviceaccount:${namespace}:reader`);
  });

  it('gets other tokens when the ServiceAccount is made anew', async () => {
    const accounts = { apiVersion: 'v1', kind: 'ServiceAccount', plural: 'serviceaccounts', namespaced: true } as const;
    const before = served.triggers.at(-1)?.kubernetes?.token;
    await cluster.delete(accounts, { namespace, name: 'reader' });
    await cluster.create(accounts, { metadata: { namespace, name: 'reader' } });
    await eventually(async () => {
      await cluster.patch(configMaps, { namespace, name: 'more' }, { data: { at: String(Date.now()) } });
      expect(served.triggers.at(-1)?.kubernetes?.token).not.toBe(before);
    });
    await cluster.patch(configMaps, { namespace, name: 'mine' }, { data: { stamped: null } });
    await eventually(async () => {
      const found = await cluster.get(configMaps, { namespace, name: 'mine' });
      expect(found?.data).toEqual({ stamped: 'yes' });
    });
  });

  it('is not sent over plain http', async () => {
    await cluster.create(
      { apiVersion: 'v1', kind: 'Service', plural: 'services', namespaced: true },
      { metadata: { namespace, name: 'plain' }, spec: { selector: { app: 'plain' }, ports: [{ port: 80 }] } },
    );
    await tenant.declare('plain', {
      endpoint: { service: { name: 'plain', port: 80 } },
      credentials: 'token',
      ...own(),
    });
    const { message } = await tenant.until('plain', 'Ready', { status: 'False', reason: 'EndpointNotSecure' });
    expect(message).toContain('spec.credentials: token needs a function at https');
  });

  it('is for an address at https or on loopback only', () => {
    const read = (url: string) => readConfig({ LEVELHOOK_APISERVER_URL: url }).apiserverUrl;
    expect(read('https://api.example.com/')).toBe('https://api.example.com');
    expect(() => read('http://api.example.com')).toThrow('LEVELHOOK_APISERVER_URL is wrong: must be https');
  });
});
