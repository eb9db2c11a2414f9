import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { resource, silentLogger } from '../../../src/core/index.ts';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { GatewayWriter } from '../../../src/gateway/informer/cache/gateway-writer.ts';
import { Informers } from '../../../src/gateway/informer/cache/informers.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, uniqueName } from '../../harness/levelhook.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { Started } from '../../harness/started.ts';

const USER = 'user';
const namespace = uniqueName('left-out');
const roles = resource('rbac.authorization.k8s.io/v1', 'Role');
const started = new Started();
/** Redis has no memory for these namespaces. */
const without = new Set<string | undefined>([namespace]);
const woken: string[] = [];
let cluster: Cluster;
let informers: Informers;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  const redis = new Redis(inject('redisUrl'));
  started.add(async () => redis.disconnect());
  const setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  const location = redisLocation(redis, setting.keyPrefix, await clusterIdentity(cluster.client));
  const writer = new GatewayWriter({ logger: silentLogger, onReplaced: () => {}, askLeader: () => {} });
  informers = new Informers({
    client: cluster.client,
    location,
    settings: { defaults: {}, kinds: {} },
    bounds: {
      memory: {
        reserve: async () => {},
        leftOut: (_place, of) => (without.has(of) ? 'there is no memory' : undefined),
      },
    },
    writer,
    listeners: {
      enqueue: async (wakeups) => void woken.push(...wakeups.map(({ key }) => key)),
      onHandlerError: () => {},
      lookupBudget: () => undefined,
      onUndeliverable: () => {},
      onViewChanged: () => {},
    },
    runtime: quietRuntime(),
  });
  const term = new AbortController();
  await informers.lead(writer.begin(term.signal, () => true));
  started.add(() => informers.stop());
});
afterAll(() => started.stop());

it('objects that were left out for want of memory come back without a list of their kind', async () => {
  for (const name of ['kept', 'changed', 'deleted']) await cluster.create(roles, { metadata: { namespace, name } });
  const [informer] = await informers.ensure(roles, USER);
  if (!informer) throw new Error('there is no informer');
  await informer.setHandlers(USER, [
    {
      needsOld: () => false,
      handle: ({ object: { metadata } }) => [
        { controller: USER, key: `${metadata.namespace}/${metadata.name}`, reasons: [] },
      ],
    },
  ]);
  await informer.begin();
  await informer.waitForSync(AbortSignal.timeout(20_000));
  const { view } = informer;
  const marked = async (): Promise<string[]> => {
    const keys = ['kept', 'changed', 'deleted'].map((name) => `${namespace}/${name}`);
    const heads = await view.objects.heads(keys, { index: 'left-out' });
    return keys.filter((_, at) => heads[at]?.indexEntries.length);
  };
  expect(await marked()).toHaveLength(3);
  const listed = await view.record.lastList();
  await cluster.patch(roles, { namespace, name: 'changed' }, { metadata: { labels: { it: 'changed' } } });
  await cluster.delete(roles, { namespace, name: 'deleted' });
  await eventually(async () => expect(await marked()).toHaveLength(2));
  // As long as there is no memory nothing is read.
  await informer.takeBack();
  expect(await marked()).toHaveLength(2);

  const from = woken.length;
  const { version } = await view.record.state();
  without.clear();
  await eventually(
    async () => {
      await informer.takeBack();
      expect(await marked()).toEqual([]);
    },
    90_000,
    1000,
  );
  for (const name of ['kept', 'changed']) {
    const object = await cluster.client.json({
      path: `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/roles/${name}`,
    });
    expect(await view.objects.get(`${namespace}/${name}`)).toEqual(object);
  }
  expect(await view.objects.get(`${namespace}/deleted`)).toBeUndefined();
  expect(await view.record.lastList()).toEqual(listed);
  expect(BigInt((await view.record.state()).version ?? 0)).toBeGreaterThanOrEqual(BigInt(version ?? 0));
  expect(woken.slice(from)).toEqual(expect.arrayContaining(['kept', 'changed'].map((name) => `${namespace}/${name}`)));
});

it('a view has a namespace for its reader while only its functions use it', async () => {
  const [informer] = await informers.ensure(roles, USER);
  if (!informer) throw new Error('there is no informer');
  const { view } = informer;
  const reads = (user: string, tenant: string | undefined): void => informer.setIndexes(user, { specs: [], tenant });
  const none = (user: string): void => informer.removeUser(user);
  expect(view.onlyReader).toBeUndefined();
  reads('shop.one', 'shop');
  reads('shop.two', 'shop');
  expect(view.onlyReader).toBe('shop');
  reads('bank.one', 'bank');
  expect(view.onlyReader).toBeUndefined();
  none('bank.one');
  expect(view.onlyReader).toBe('shop');
  reads('configured', undefined);
  expect(view.onlyReader).toBeUndefined();
  none('configured');
  none('shop.one');
  expect(view.onlyReader).toBe('shop');
  none('shop.two');
  expect(view.onlyReader).toBeUndefined();
});
