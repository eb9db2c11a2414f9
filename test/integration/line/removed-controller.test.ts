import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { clusterIdentity } from '../../../src/ground/apiserver/discovery.ts';
import { gatewayKeys } from '../../../src/contract/cache-layout.ts';
import { configMaps, pods } from '../../harness/cluster.ts';
import { eventually } from '../../harness/eventually.ts';
import type { Setting } from '../../harness/levelhook.ts';
import { type Observer, openObserver } from '../../harness/observer.ts';
import { ObservedConfigMaps } from '../../harness/observed-config-maps.ts';
import { openGateway } from '../../harness/opened.ts';
import { it } from '../../harness/world.ts';

let namespace: string;
let setting: Setting;
let objects: ObservedConfigMaps;
let redis: Redis;
let kept: Observer;
let removed: Observer;

it.beforeAll(async ({ world }) => {
  const { started } = world;
  ({ namespace, setting } = world);
  objects = new ObservedConfigMaps(world.cluster, namespace);
  redis = new Redis(setting.redisUrl);
  started.add(async () => redis.disconnect());
  kept = started.keep(await openObserver(setting, { name: 'kept', for: configMaps, timeoutSeconds: 60 }));
  removed = started.keep(
    await openObserver(setting, { name: 'removed', for: configMaps, reads: [pods], timeoutSeconds: 10 }),
  );
  await objects.create('one', 'a');
});

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

it('nothing is left of a controller that is no more, once all the others are known', async ({ world }) => {
  const first = await world.gateway([kept.url, removed.url]);
  await objects.untilSeen([kept, removed]);
  expect(await names(':queue:removed')).not.toEqual([]);
  expect(await names(':v1/Pod:')).not.toEqual([]);
  await first.process.kill('SIGTERM');
  const runs = kept.count;

  // One function does not answer, and nobody knows what its controller is called.
  const second = world.started.keep(await openGateway(setting, [kept.url, 'http://127.0.0.1:9']));
  await second.process.line(({ msg }) => msg === 'controller started');
  await changeAndSee('b');
  expect(await names(':queue:removed')).not.toEqual([]);
  await second.process.kill('SIGTERM');

  const third = await world.gateway([kept.url]);
  await eventually(async () => {
    expect(await names(':queue:removed')).toEqual([]);
    expect(await names(':v1/Pod:')).toEqual([]);
  });
  const { registry, views } = gatewayKeys({
    keyPrefix: setting.keyPrefix,
    clusterId: await clusterIdentity(world.cluster.client),
  });
  // The gateway deletes the keys of a view and of a queue before it takes their names out of the records.
  await eventually(async () => {
    // Redis has the runs of the queue, so it is known when the last of them is over.
    expect(await redis.hget(registry, 'controller:removed')).toMatch(/^removed:[0-9]{13}:[0-9]{13}$/);
    expect(await redis.smembers(views)).toEqual([expect.stringContaining(':v1/ConfigMap:')]);
  });
  // The other has lost nothing: it is not run again for what it has seen.
  await changeAndSee('c');
  expect(kept.seen({ from: runs, key: `${namespace}/one` })).toHaveLength(2);
  await third.process.kill('SIGTERM');
});

it('a controller that comes back begins anew', async ({ world }) => {
  const from = removed.count;
  const gateway = await world.gateway([kept.url, removed.url]);
  await eventually(async () =>
    expect(removed.seen({ from, key: `${namespace}/one` }).at(-1)).toMatchObject({ reasons: [{ type: 'initial' }] }),
  );
  await gateway.process.kill('SIGTERM');
});

it('a gateway without functions removes nothing', async ({ world }) => {
  const gateway = await world.gateway([]);
  // It removes in the background.
  await sleep(1000);
  // Keys of other tests' objects may wait in it: `:queued` is there, too.
  const left = await names(':queue:');
  for (const name of ['kept', 'removed']) {
    expect(left.filter((each) => each.endsWith(`:queue:${name}}:queue`))).toHaveLength(1);
  }
  await gateway.process.kill('SIGTERM');
});

it('nothing is left of a controller that is removed after Redis has lost its data', async ({ world }) => {
  const from = removed.count;
  const first = await world.gateway([kept.url, removed.url]);
  await redis.del(await redis.keys(`*${setting.keyPrefix}:*`));
  await eventually(async () => {
    expect(removed.seen({ from, key: `${namespace}/one` }).at(-1)).toMatchObject({ reasons: [{ type: 'initial' }] });
    expect(await names(':v1/Pod:')).not.toEqual([]);
  });
  await first.process.kill('SIGTERM');

  const second = await world.gateway([kept.url]);
  await eventually(async () => {
    expect(await names(':queue:removed')).toEqual([]);
    expect(await names(':v1/Pod:')).toEqual([]);
  });
  await second.process.kill('SIGTERM');
});
