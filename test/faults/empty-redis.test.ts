import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { controller } from 'levelhook/function';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { type KubernetesObject, resource, silentLogger } from '../../src/core/index.ts';
import { ApiClient } from '../../src/gateway/apiserver/api-client.ts';
import { loadCredentials } from '../../src/gateway/apiserver/credentials.ts';
import { DispatchLease } from '../../src/gateway/manager/dispatch-lease.ts';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { type Cluster, configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import {
  createSetting,
  type Listening,
  type Setting,
  startGateway,
  uniqueName,
  untilIdle,
  untilReady,
} from '../harness/levelhook.ts';
import type { Line } from '../harness/process.ts';
import { ServedFunction } from '../harness/served-function.ts';
import { Started } from '../harness/started.ts';

const leases = resource<KubernetesObject & { spec?: { holderIdentity?: string; renewTime?: string } }>(
  'coordination.k8s.io/v1',
  'Lease',
);

const RUN_MS = 3000;
const waits = ({ msg }: Line): boolean => String(msg).startsWith('unrecorded runs');

/** Redis is empty at a first start, and after it has lost the records of runs in flight. The Lease tells which. */
describe('an empty Redis', () => {
  const namespace = uniqueName('empty');
  const shared = new Started();
  let started: Started;
  let directory: string;
  let redis: RedisServer;
  let cluster: Cluster;
  let setting: Setting;
  let fn: ServedFunction;
  let gateway: Listening;
  let begun: number;
  let running: number;
  let mostAtOnce: number;

  beforeAll(async () => {
    directory = await shared.directory();
    redis = await startRedis({ ignoreEnvironment: true, directory });
    shared.add(() => redis.stop());
    cluster = await shared.cluster(inject('kubeconfig'), namespace);
    await cluster.create(configMaps, { metadata: { namespace, name: 'one' } });
  });

  afterAll(() => shared.stop());

  beforeEach(async () => {
    started = new Started();
    [begun, running, mostAtOnce] = [0, 0, 0];
    setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: redis.url });
    const slow = controller({
      name: 'slow',
      for: { resource: configMaps, namespaces: [namespace] },
      timeoutSeconds: 5,
    }).reconcile(async (request) => {
      if (request.namespace !== namespace || request.name !== 'one') return;
      begun += 1;
      running += 1;
      mostAtOnce = Math.max(mostAtOnce, running);
      await sleep(RUN_MS);
      running -= 1;
    });
    fn = await started.open(new ServedFunction(slow, setting));
    await start();
  });

  afterEach(() => started.stop());

  async function start(): Promise<void> {
    gateway = started.keep(await startGateway(setting, [fn.url], { LEVELHOOK_DRAIN_SECONDS: '0' }));
    await untilReady(gateway.url);
  }

  async function emptyRedis(): Promise<void> {
    await redis.kill();
    await rm(join(directory, 'dump.rdb'), { force: true });
    await redis.start();
  }

  async function lease() {
    const { items } = await cluster.list(leases, 'kube-system');
    return items.find(({ metadata }) => metadata.annotations?.['levelhook.dev/registry']?.includes(setting.keyPrefix));
  }

  const untilBegun = (count: number) => eventually(async () => expect(begun).toBeGreaterThanOrEqual(count), 60_000);
  const untilEnded = () => eventually(async () => expect(running).toBe(0));

  it('causes no wait at a first start and after an ordered stop', async () => {
    await untilBegun(1);
    expect((await lease())?.spec?.holderIdentity).toMatch(/^[0-9a-f]{40}$/);
    await untilEnded();
    await untilIdle(gateway.url);
    expect(await gateway.process.kill('SIGTERM')).toBe(0);
    expect(await lease()).toBeUndefined();
    expect(gateway.process.lines.filter(waits)).toEqual([]);

    await emptyRedis();
    await start();
    await untilBegun(2);
    expect(gateway.process.lines.filter(waits)).toEqual([]);
    await untilEnded();
  });

  it('causes a wait for the rest of a run after a stop that did not wait for the run', async () => {
    await untilBegun(1);
    await gateway.process.kill('SIGTERM');
    expect((await lease())?.spec).toEqual({ renewTime: expect.any(String) as string });
    await emptyRedis();
    await start();
    await untilBegun(2);
    expect(gateway.process.lines.filter(waits)).toHaveLength(1);
    expect(mostAtOnce).toBe(1);
    await untilEnded();
  });

  it.each([
    ['and the gateway is killed, too', 'SIGKILL' as const, 1],
    ['and the gateway, which remembers the run, goes on', undefined, 0],
  ])('causes no second run of a key beside a run in flight %s', async (_, signal, waited) => {
    await untilBegun(1);
    if (signal) await gateway.process.kill(signal);
    await emptyRedis();
    if (signal) await start();
    await untilBegun(2);
    expect(mostAtOnce).toBe(1);
    expect(gateway.process.lines.filter(waits)).toHaveLength(waited);
    await untilEnded();
  });
});

describe('the rights of infra/rbac/gateway.yaml', () => {
  const started = new Started();
  const account = uniqueName('account');
  const group = 'rbac.authorization.k8s.io';
  let cluster: Cluster;
  let client: ApiClient;
  let warned: string[];

  beforeAll(async () => {
    cluster = await started.cluster(inject('kubeconfig'), uniqueName('rights'));
    const directory = await started.directory();
    const config = parse(await readFile(inject('kubeconfig'), 'utf8')) as { users: { user: object }[] };
    for (const { user } of config.users) Object.assign(user, { as: `system:serviceaccount:default:${account}` });
    await writeFile(join(directory, 'config'), stringify(config));
    const credentials = await loadCredentials(join(directory, 'config'));
    started.add(() => credentials.close());
    client = new ApiClient(credentials);
  });

  afterAll(() => started.stop());

  beforeEach(() => void (warned = []));

  function leaseOf(keyPrefix: string): DispatchLease {
    const warn = (fields: object): void => void warned.push((fields as { lease: string }).lease);
    const logger = { ...silentLogger, warn };
    // At time 1, no Lease is older than the longest run.
    const clock = { now: () => 1, wallNow: () => 1, sleep: async () => {} };
    const location = { keyPrefix, registryKey: keyPrefix };
    return new DispatchLease({ runtime: { clock, logger }, client, location, clusterId: undefined });
  }

  it('allow the Lease, and without them the gateway waits at each Redis process', async () => {
    const keyPrefix = uniqueName('prefix');
    const forbidden = leaseOf(keyPrefix);
    expect((await forbidden.take('redis')).beforeMs).toBe(1);
    await forbidden.release(0);
    const [path = ''] = warned;
    const name = path.replace('kube-system/', '');

    const documents = parseAllDocuments(await readFile('infra/rbac/gateway.yaml', 'utf8'));
    const role = documents
      .map((document) => document.toJS() as { kind: string; rules: { resourceNames: string[] }[] })
      .find(({ kind }) => kind === 'Role');
    const rules = role?.rules.map((rule) => ({ ...rule, resourceNames: [name] })) ?? [];
    const metadata = { namespace: 'kube-system', name: account };
    await cluster.create(resource(`${group}/v1`, 'Role'), { metadata, rules });
    await cluster.create(resource(`${group}/v1`, 'RoleBinding'), {
      metadata,
      roleRef: { apiGroup: group, kind: 'Role', name: account },
      subjects: [{ kind: 'ServiceAccount', namespace: 'default', name: account }],
    });

    // The apiserver learns of a new Role a moment later.
    const allowed = await eventually(async () => {
      const lease = leaseOf(keyPrefix);
      expect((await lease.take('redis')).beforeMs).toBe(0);
      return lease;
    });
    expect(await cluster.get(leases, { namespace: 'kube-system', name })).toMatchObject({
      spec: { holderIdentity: 'redis' },
    });
    await leaseOf(keyPrefix).take('another');
    await allowed.release(0);
    expect(await cluster.get(leases, { namespace: 'kube-system', name })).toMatchObject({
      spec: { holderIdentity: 'another' },
    });
    const last = leaseOf(keyPrefix);
    expect((await last.take('third')).beforeMs).toBe(1);
    await last.release(1);
    expect((await cluster.get(leases, { namespace: 'kube-system', name }))?.spec).toEqual({
      renewTime: expect.any(String) as string,
    });
  });
});
