import { createAdaptorServer } from '@hono/node-server';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { silentLogger } from '../../../src/core/index.ts';
import { ApiError, controller, createFunctionApp, type Reconcile, resource } from '../../../src/function/index.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { HoldingProxy } from '../../harness/holding-proxy.ts';
import { createSetting, uniqueName, untilIdle, untilReady } from '../../harness/levelhook.ts';
import { openGateway } from '../../harness/opened.ts';
import { LoopbackServer } from '../../harness/loopback-server.ts';
import { TestProcess } from '../../harness/process.ts';
import { type ProxiedTenant, proxiedTenant } from '../../harness/proxied-tenant.ts';
import type { HandedOver } from '../../harness/run-worker.ts';
import { Started } from '../../harness/started.ts';
import { settingsFor } from '../../harness/tenant.ts';

const serviceAccounts = resource('v1', 'ServiceAccount');

describe.each(['proxy', 'token'] as const)('a function with nothing but fetch, credentials: %s', (credentials) => {
  const namespace = uniqueName('outside');
  const started = new Started();
  let world: ProxiedTenant;
  let gatewayUrl: string;
  let reconcile: Reconcile;

  beforeAll(async () => {
    world = await proxiedTenant(started, namespace);
    await world.account.grantFile(`credentials-${credentials}.yaml`);
    started.add(() => world.account.revoke(`credentials-${credentials}.yaml`));
    // With its Lease the gateway knows that no runs of another are in flight, and does not wait for their longest time.
    const verbs = ['get', 'create', 'update', 'delete'];
    await world.account.grant('leases', [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs }]);
    started.add(() => world.account.revoke('leases'));
    // An apiserver on loopback: fetch trusts no authority of a test.
    const proxy = await HoldingProxy.start(inject('kubeconfig'));
    started.add(() => proxy.close());
    const kubeconfig = await proxy.kubeconfig(world.kubeconfig, await started.directory());
    const options = { name: 'outside', for: configMaps, owns: [serviceAccounts], callbackSeconds: 60 };
    const handler = controller({ ...options, timeoutSeconds: 30 }).reconcile(async (...run) => reconcile(...run));
    const app = createFunctionApp(handler, { secrets: [world.tenant.secret], logger: silentLogger });
    // As on a platform that has only web requests: not the server of Node that the SDK brings.
    const { url } = await started.open(new LoopbackServer(createAdaptorServer({ fetch: app.fetch })));
    const setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
    const gateway = started.keep(await openGateway(setting, [], settingsFor([namespace], [url])));
    gatewayUrl = gateway.url;
    await untilReady(gatewayUrl);
    reconcile = async () => {};
    await world.tenant.declare('outside', {
      endpoint: { url },
      credentials,
      timeoutSeconds: 30,
      callbackSeconds: 60,
      for: {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        namespaces: [namespace],
        labelSelector: { matchLabels: { for: 'it' } },
      },
      owns: [{ apiVersion: 'v1', kind: 'ServiceAccount', namespaces: [namespace] }],
    });
    await world.tenant.until('outside', 'Ready', { status: 'True' });
  });

  afterAll(() => started.stop());

  const create = (name: string) =>
    world.cluster.create(configMaps, { metadata: { namespace, name, labels: { for: 'it' } } });

  it('writes and reads live as its ServiceAccount, and no more', async () => {
    const found: unknown[] = [];
    reconcile = async (key, { api }) => {
      if (found.length > 0) return;
      const patched = await api.patch(configMaps, key, { type: 'merge', body: { data: { a: '1' } } });
      const live = await api.get(configMaps, key);
      const refused = await api.delete(configMaps, key).catch((error: unknown) => error);
      found.push(patched.data, live?.data, refused);
    };
    await create('now');
    await eventually(async () => expect(found).toHaveLength(3));
    expect(found.slice(0, 2)).toEqual([{ a: '1' }, { a: '1' }]);
    expect(found[2]).toBeInstanceOf(ApiError);
    expect(found[2]).toMatchObject({ code: 403 });
    await untilIdle(gatewayUrl);
  });

  it('hands a run to another process, which writes with its credentials and finishes it', async () => {
    const workers: TestProcess[] = [];
    const seen: number[] = [];
    reconcile = async ({ name }, { cache, runToken, runCredentials }) => {
      if (name !== 'later' || !runToken || !runCredentials) return;
      const { items } = await cache.list(serviceAccounts, { namespace });
      seen.push(items.filter(({ metadata }) => metadata.name === 'later').length);
      if (workers.length > 0) return;
      const { secret } = world.tenant;
      const run: HandedOver = { runToken, runCredentials, secret, metadata: { namespace, name } };
      const worker = new TestProcess('test/harness/run-worker.ts', [], { RUN: JSON.stringify(run) });
      workers.push(worker);
      started.add(() => worker.kill());
      return { completesWithinSeconds: 60 };
    };
    await create('later');
    const worker = await eventually(async () => {
      expect(workers).toHaveLength(1);
      return workers[0] as TestProcess;
    });
    const { late } = await worker.line((line) => 'late' in line);
    expect(await worker.exited).toBe(0);
    // The gateway refuses what comes after the outcome; the apiserver cannot.
    expect(late).toBe(credentials === 'proxy' ? 403 : 201);
    await world.cluster.patch(configMaps, { namespace, name: 'later' }, { data: { again: 'yes' } });
    await eventually(async () => expect(seen).toEqual([0, 1]));
    await untilIdle(gatewayUrl);
  });
});
