import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { CONTRACT_VERSION, type Trigger } from '../../../src/contract/index.ts';
import { resource } from '../../../src/core/index.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { queueKeys } from '../../../src/gateway/controller/workqueue/queue-keys.ts';
import { CACHE_KEYS } from '../../harness/cache-keys.ts';
import { configMaps } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { HoldingProxy } from '../../harness/holding-proxy.ts';
import {
  createSetting,
  type Listening,
  type Setting,
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
const namespace = uniqueName('replicas');
const path = `/api/v1/namespaces/${namespace}/serviceaccounts`;
const started = new Started();

let world: ProxiedTenant;
let proxy: HoldingProxy;
let setting: Setting;
let redis: Redis;
let raw: RawFunction;
let gateways: Listening[];

beforeAll(async () => {
  world = await proxiedTenant(started, namespace);
  await world.account.grantFile('credentials-proxy.yaml');
  started.add(() => world.account.revoke('credentials-proxy.yaml'));
  const verbs = ['get', 'list', 'watch', 'create', 'update', 'delete'];
  await world.account.grant('leases', [{ apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs }]);
  started.add(() => world.account.revoke('leases'));
  proxy = await HoldingProxy.start(inject('kubeconfig'));
  started.add(() => proxy.close());
  const kubeconfig = await proxy.kubeconfig(world.kubeconfig, await started.directory());
  setting = createSetting({ kubeconfig, redisUrl: inject('redisUrl') });
  redis = await connectRedis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
  raw = await started.open(new RawFunction({ name: 'raw', for: kind, concurrency: 1, timeoutSeconds: 60 }));
  raw.onTrigger = finish;
  const settings = {
    ...settingsFor([namespace], [raw.url]),
    LEVELHOOK_LEASE: `${namespace}/levelhook`,
    LEVELHOOK_CACHE_KEYS: CACHE_KEYS,
  };
  gateways = [];
  while (gateways.length < 2) gateways.push(started.keep(await startGateway(setting, [], settings)));
  for (const { url } of gateways) await untilReady(url);
  await world.tenant.declare('raw', {
    endpoint: { url: raw.url },
    credentials: 'proxy',
    timeoutSeconds: 60,
    for: { ...kind, namespaces: [namespace], labelSelector: { matchLabels: { for: 'raw' } } },
    owns: [{ apiVersion: 'v1', kind: 'ServiceAccount', namespaces: [namespace] }],
  });
  await world.tenant.until('raw', 'Ready', { status: 'True' });
  // Both know the function.
  for (const { url } of gateways) {
    const labels = { controller: `${namespace}.raw` };
    await eventually(async () =>
      expect(await metric(url, 'controller_runtime_max_concurrent_reconciles', labels)).toBe(1),
    );
  }
});

afterAll(() => started.stop());

const finish = ({ requests }: Trigger, response: ServerResponse): void =>
  void response.end(JSON.stringify({ version: CONTRACT_VERSION, results: requests.map(() => ({ status: 'done' })) }));

interface StartedRun {
  readonly trigger: Trigger;
  readonly end: () => void;
  /** The gateway that did not send the trigger. */
  readonly other: Listening;
  /** What to write with: the token of the trigger, at the other gateway. */
  readonly elsewhere: Pick<Trigger, 'kubernetes'>;
}

/** A run that is under way. */
async function startRun(name: string): Promise<StartedRun> {
  const { promise, resolve } = Promise.withResolvers<StartedRun>();
  raw.onTrigger = (trigger, response) => {
    if (trigger.requests[0]?.name !== name) return finish(trigger, response);
    raw.onTrigger = finish;
    const { url = '', token = '' } = trigger.kubernetes ?? {};
    const other = gateways.find((each) => !url.startsWith(each.url));
    if (!other) throw new Error('there is no other gateway');
    const elsewhere = { kubernetes: { url: other.url + new URL(url).pathname, token } };
    resolve({ trigger, end: () => finish(trigger, response), other, elsewhere });
  };
  await world.cluster.create(configMaps, { metadata: { namespace, name, labels: { for: 'raw' } } });
  return promise;
}

async function recordOf(name: string): Promise<unknown[]> {
  const clusterId = await clusterIdentity(world.cluster.client);
  const keys = queueKeys({ keyPrefix: setting.keyPrefix, clusterId }, `${namespace}.raw`);
  return recordedWrites(redis, `${keys.writesPrefix}${namespace}/${name}`);
}

const namesInCache = async ({ cache }: Trigger): Promise<string[]> => {
  const { status, text } = await ask({ kubernetes: { url: cache.url ?? '', token: cache.token ?? '' } }, path);
  expect(status).toBe(200);
  return (JSON.parse(text) as { items: { metadata: { name: string } }[] }).items.map(({ metadata }) => metadata.name);
};

describe('two gateways', () => {
  it('record a write through the one for the run of the other, and the next run sees it', async () => {
    const { end, elsewhere, other } = await startRun('shared');
    proxy.watchLagMs = 700;
    started.add(async () => void (proxy.watchLagMs = 0));
    // Wakes the key, and the gateways hear of it before they hear of the write.
    await world.cluster.patch(configMaps, { namespace, name: 'shared' }, { data: { again: 'yes' } });
    await sleep(400);
    const body = JSON.stringify({ metadata: { name: 'shared' } });
    expect(await ask(elsewhere, path, { method: 'POST', body })).toMatchObject({ status: 201 });
    const uid = expect.any(String) as string;
    expect(await recordOf('shared')).toEqual([{ done: [expect.objectContaining({ name: 'shared', uid }) as object] }]);
    const next = new Promise<string[]>((resolve, reject) => {
      raw.onTrigger = (trigger, response) => {
        raw.onTrigger = finish;
        namesInCache(trigger)
          .then(resolve, reject)
          .finally(() => finish(trigger, response));
      };
    });
    // The outcome does not name the write.
    end();
    expect(await next).toContain('shared');
    const late = await ask(elsewhere, path, { method: 'POST', body: JSON.stringify({ metadata: { name: 'late' } }) });
    expect(late).toMatchObject({ status: 403, text: expect.stringContaining('is over') as string });
    proxy.watchLagMs = 0;
    for (const { url } of gateways) await untilIdle(url);
    expect(await metric(other.url, 'levelhook_proxied_requests_total', { verb: 'create', code: '201' })).toBe(1);
  });

  it('stop with SIGTERM when the writes under way are on record, and take no others meanwhile', async () => {
    const { end, elsewhere, other } = await startRun('stopped');
    proxy.hold(({ method, url }) => method === 'POST' && (url?.includes(`${path}?`) ?? false));
    const body = JSON.stringify({ metadata: { name: 'stopped' } });
    const writing = ask(elsewhere, path, { method: 'POST', body });
    await eventually(async () => expect(proxy.held).toBe(1));
    other.process.send('SIGTERM');
    const refused = await eventually(async () => {
      const answer = await ask(elsewhere, path);
      expect(answer).toMatchObject({ status: 503, text: expect.stringContaining('the gateway is stopping') as string });
      return answer;
    });
    expect([refused.headers.get('retry-after'), refused.headers.get('connection')]).toEqual(['1', 'close']);
    expect(await recordOf('stopped')).toEqual([{ open: { apiVersion: 'v1', kind: 'ServiceAccount', namespace } }]);
    proxy.release();
    expect(await writing).toMatchObject({ status: 201 });
    expect(await other.process.exited).toBe(0);
    expect(await recordOf('stopped')).toEqual([{ done: [expect.objectContaining({ name: 'stopped' }) as object] }]);
    gateways = gateways.filter((each) => each !== other);
    end();
    const [left] = gateways;
    await untilIdle(left?.url ?? '');
    const labels = { controller: `${namespace}.raw` };
    expect(await metric(left?.url ?? '', 'levelhook_unknown_outcomes_total', labels)).toBe(0);
    expect(await world.cluster.get(serviceAccounts, { namespace, name: 'stopped' })).toBeDefined();
  });
});
