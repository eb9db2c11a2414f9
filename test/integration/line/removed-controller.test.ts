import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { clusterIdentity } from '../../../src/gateway/apiserver/discovery.ts';
import { gatewayKeys } from '../../../src/contract/cache-layout.ts';
import { type Cluster, configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import { createSetting, type Setting, uniqueName, untilReady } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { ObservedConfigMaps } from '../../harness/observed-config-maps.ts';
import { openGateway } from '../../harness/opened.ts';
import { Started } from '../../harness/started.ts';

const namespace = uniqueName('removed');
const started = new Started();
let cluster: Cluster;
let objects: ObservedConfigMaps;
let setting: Setting;
let redis: Redis;
let kept: Observer;
let removed: Observer;

beforeAll(async () => {
  cluster = await started.cluster(inject('kubeconfig'), namespace);
  objects = new ObservedConfigMaps(cluster, namespace);
  setting = createSetting({ kubeconfig: inject('kubeconfig'), redisUrl: inject('redisUrl') });
  redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  kept = started.keep(await openObserver(setting, { name: 'kept', for: configMaps, timeoutSeconds: 5 }));
  removed = started.keep(await openObserver(setting, { name: 'removed', for: configMaps, reads: [pods] }));
  await objects.create('one', 'a');
});

afterAll(() => started.stop());

async function gatewayOf(...urls: string[]): ReturnType<typeof openGateway> {
  const gateway = started.keep(await openGateway(setting, urls));
  return gateway;
}

/** The names of the keys in Redis, without the prefix of the test and the cluster, as far as they contain `part`. */
async function names(part: string): Promise<string[]> {
  const found = await redis.keys(`*${setting.keyPrefix}:*`);
  return found.map((name) => name.slice(name.indexOf(setting.keyPrefix))).filter((name) => name.includes(part));
}

async function changeAndSee(group: string): Promise<void> {
  const { resourceVersion } = (await objects.change('one', group)).metadata;
  await eventually(async () =>
    expect(kept.seen({ key: `${namespace}/one` }).at(-1)).toMatchObject({ resourceVersion }),
  );
}

test('nothing is left of a controller that is no more, once all the others are known', async () => {
  const first = await gatewayOf(kept.url, removed.url);
  await untilReady(first.url);
  await objects.untilSeen([kept, removed]);
  expect(await names(':queue:removed')).not.toEqual([]);
  expect(await names(':v1/Pod:')).not.toEqual([]);
  await first.process.kill('SIGTERM');
  const runs = kept.count;

  // One function does not answer, and nobody knows what its controller is called.
  const second = await gatewayOf(kept.url, 'http://127.0.0.1:9');
  await second.process.line(({ msg }) => msg === 'controller started');
  await changeAndSee('b');
  expect(await names(':queue:removed')).not.toEqual([]);
  await second.process.kill('SIGTERM');

  const third = await gatewayOf(kept.url);
  await untilReady(third.url);
  await eventually(async () => {
    expect(await names(':queue:removed')).toEqual([]);
    expect(await names(':v1/Pod:')).toEqual([]);
  });
  const { registry, views } = gatewayKeys({
    keyPrefix: setting.keyPrefix,
    clusterId: await clusterIdentity(cluster.client),
  });
  // The gateway deletes the keys of a view and of a queue before it takes their names out of the records.
  await eventually(async () => {
    expect(await redis.hget(registry, 'controller:removed')).toMatch(/^removed:[0-9]{13}$/);
    expect(await redis.smembers(views)).toEqual([expect.stringContaining(':v1/ConfigMap:')]);
  });
  // The other has lost nothing: it is not run again for what it has seen.
  await changeAndSee('c');
  expect(kept.seen({ from: runs, key: `${namespace}/one` })).toHaveLength(2);
  await third.process.kill('SIGTERM');
});

test('a controller that comes back begins anew', async () => {
  const from = removed.count;
  const gateway = await gatewayOf(kept.url, removed.url);
  await untilReady(gateway.url);
  await eventually(async () =>
    expect(removed.seen({ from, key: `${namespace}/one` }).at(-1)).toMatchObject({ reasons: [{ type: 'initial' }] }),
  );
  await gateway.process.kill('SIGTERM');
});

test('a gateway without functions removes nothing', async () => {
  const gateway = await gatewayOf();
  await untilReady(gateway.url);
  // Keys of other tests' objects may wait in it: `:queued` is there, too.
  const left = await names(':queue:');
  for (const name of ['kept', 'removed']) {
    expect(left.filter((each) => each.endsWith(`:queue:${name}}:queue`))).toHaveLength(1);
  }
  await gateway.process.kill('SIGTERM');
});
