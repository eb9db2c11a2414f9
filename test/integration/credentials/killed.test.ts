import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { CONTRACT_VERSION, type Trigger } from '../../../src/contract/index.ts';
import { resource } from '../../../src/core/index.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { freePort } from '../../../src/testing/process/free-port.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { HoldingProxy } from '../../harness/holding-proxy.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startFunctionProcess,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../../harness/levelhook.ts';
import { ask, type ProxiedTenant, proxiedTenant } from '../../harness/proxied-tenant.ts';
import { RawFunction } from '../../harness/raw-function.ts';
import { recordedWrites } from '../../harness/recorded-writes.ts';
import { Started } from '../../harness/started.ts';
import { settingsFor } from '../../harness/tenant.ts';

const serviceAccounts = resource('v1', 'ServiceAccount');
const namespace = uniqueName('killed');
const started = new Started();
const forLabel = (label: string) => ({
  credentials: 'proxy',
  for: { apiVersion: 'v1', kind: 'ConfigMap', namespaces: [namespace], labelSelector: { matchLabels: { for: label } } },
  owns: [{ apiVersion: 'v1', kind: 'ServiceAccount', namespaces: [namespace] }],
});

let world: ProxiedTenant;
let proxy: HoldingProxy;
let setting: Setting;
let redis: Redis;
let clusterId: string;
let gateway: Listening;
let maker: Listening;
let raw: RawFunction;

beforeAll(async () => {
  world = await proxiedTenant(started, namespace);
  await world.account.grantFile('credentials-proxy.yaml');
  started.add(() => world.account.revoke('credentials-proxy.yaml'));
  proxy = await HoldingProxy.start(inject('kubeconfig'));
  started.add(() => proxy.close());
  const kubeconfig = await proxy.kubeconfig(world.kubeconfig, await started.directory());
  setting = { ...createSetting({ kubeconfig, redisUrl: inject('redisUrl') }), secret: world.tenant.secret };
  redis = await connectRedis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  clusterId = await clusterIdentity(world.cluster.client);
  // Killed and started again at its port, which no connection may have taken in between.
  maker = started.keep(await startMaker(await freePort()));
  raw = await started.open(new RawFunction({ name: 'raw', for: { apiVersion: 'v1', kind: 'ConfigMap' } } as never));
  await startNext();
  await world.tenant.declare('maker', { endpoint: { url: maker.url }, timeoutSeconds: 10, ...forLabel('maker') });
  await world.tenant.until('maker', 'Ready', { status: 'True' });
});

afterAll(() => started.stop());

const startMaker = (port: number) =>
  startFunctionProcess({ ...setting, redisUrl: '' }, 'test/harness/maker-function.ts', { port });

async function startNext(): Promise<void> {
  const settings = settingsFor([namespace], [maker.url, raw.url]);
  gateway = started.keep(await startGateway(setting, [], settings));
  await untilReady(gateway.url);
}

/** Creates a parent, and resolves when the write of its child has taken effect and its answer is kept back. */
async function untilHeld(name: string): Promise<void> {
  proxy.hold(({ method, url }) => method === 'POST' && (url?.includes(`/${namespace}/serviceaccounts?`) ?? false));
  await world.cluster.create(configMaps, { metadata: { namespace, name, labels: { for: 'maker' } } });
  await eventually(async () => expect(proxy.held).toBe(1));
}

async function childrenOf(name: string): Promise<number> {
  const { items } = await world.cluster.list(serviceAccounts, namespace);
  return items.filter(({ metadata }) => metadata.ownerReferences?.[0]?.name === name).length;
}

/** The writes on record of the key's last run. */
async function recordOf(controller: string, name: string): Promise<unknown[]> {
  const keys = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, `${namespace}.${controller}`);
  return recordedWrites(redis, `${keys.writesPrefix}${namespace}/${name}`);
}

/** The key has run again since, and there is nothing left to do for it. */
async function untilRunAgain(): Promise<void> {
  await eventually(async () => {
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
    expect(metrics).toMatch(
      new RegExp(`controller_runtime_reconcile_total\\{controller="${namespace}.maker",result="success"\\} [1-9]`),
    );
  });
  await untilIdle(gateway.url);
}

describe('in the middle of a write', () => {
  it('a function is killed: the gateway reads the answer to its end, and records what was written', async () => {
    await untilHeld('function');
    const port = Number(new URL(maker.url).port);
    await maker.process.kill('SIGKILL');
    proxy.release();
    await eventually(async () => {
      const [write] = await recordOf('maker', 'function');
      expect(write).toMatchObject({ done: [{ kind: 'ServiceAccount', uid: expect.any(String) as string }] });
    });
    maker = started.keep(await startMaker(port));
    await untilRunAgain();
    expect(await childrenOf('function')).toBe(1);
  });

  it('a gateway is killed: the record says that there is no answer, and the next run sees the write', async () => {
    await untilHeld('gateway');
    await gateway.process.kill('SIGKILL');
    expect(await recordOf('maker', 'gateway')).toEqual([
      { open: { apiVersion: 'v1', kind: 'ServiceAccount', namespace } },
    ]);
    proxy.release();
    await startNext();
    await untilRunAgain();
    expect(await childrenOf('gateway')).toBe(1);
  });

  it('a function says that it is done: the outcome is unknown, as the write may yet take effect', async () => {
    const arrived = Promise.withResolvers<Trigger>();
    let first = true;
    raw.onTrigger = (trigger, response) => {
      const results = trigger.requests.map(() => ({ status: 'done' }));
      const answer = (): void => void response.end(JSON.stringify({ version: CONTRACT_VERSION, results }));
      if (!first) return answer();
      first = false;
      arrived.resolve(trigger);
      void eventually(async () => expect(proxy.held).toBe(1)).then(answer);
    };
    await world.tenant.declare('raw', { endpoint: { url: raw.url }, timeoutSeconds: 10, ...forLabel('raw') });
    await world.tenant.until('raw', 'Ready', { status: 'True' });
    proxy.hold(({ method, url }) => method === 'POST' && (url?.includes(`/${namespace}/serviceaccounts?`) ?? false));
    await world.cluster.create(configMaps, { metadata: { namespace, name: 'undecided', labels: { for: 'raw' } } });
    const trigger = await arrived.promise;
    const body = JSON.stringify({ metadata: { name: 'undecided' } });
    const writing = ask(trigger, `/api/v1/namespaces/${namespace}/serviceaccounts`, { method: 'POST', body });
    const unknown = `levelhook_unknown_outcomes_total{controller="${namespace}.raw",reason="write"} 1`;
    await eventually(async () => expect(await (await fetch(`${gateway.url}/metrics`)).text()).toContain(unknown));
    proxy.release();
    expect(await writing).toMatchObject({ status: 201 });
    // Settled at the deadline, and then run again.
    await eventually(async () => {
      const lost = `levelhook_lost_outcomes_total{controller="${namespace}.raw"} 1`;
      expect(await (await fetch(`${gateway.url}/metrics`)).text()).toContain(lost);
    });
    await eventually(async () => expect(raw.arrivals.length).toBeGreaterThan(1));
  });
});

describe('a cache that lags', () => {
  it('shows each run what the runs before it wrote, although no outcome names it', async () => {
    proxy.watchLagMs = 700;
    started.add(async () => void (proxy.watchLagMs = 0));
    const key = { namespace, name: 'lagging' };
    await world.cluster.create(configMaps, { metadata: { ...key, labels: { for: 'maker' } } });
    // Each wakes the key, the most of them before the event of the child.
    for (let at = 0; at < 8; at += 1) {
      await sleep(100);
      await world.cluster.patch(configMaps, key, { data: { at: String(at) } });
    }
    await eventually(async () => expect(await childrenOf('lagging')).toBeGreaterThan(0));
    await sleep(2 * proxy.watchLagMs);
    await untilIdle(gateway.url);
    expect(await childrenOf('lagging')).toBe(1);
  });
});
