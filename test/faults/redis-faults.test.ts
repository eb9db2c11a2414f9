import { cp, readdir, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { clusterIdentity } from '../../src/ground/apiserver/discovery.ts';
import { queueKeys } from '../../src/gateway/controller/workqueue/queue-keys.ts';
import { type RedisServer, startRedis } from '../../src/testing/index.ts';
import { viewsOf } from '../harness/cache-equals-server.ts';
import { configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import type { FaultWorld } from '../harness/fault-world.ts';
import { uniqueName, untilReady } from '../harness/levelhook.ts';
import { ObservedConfigMaps } from '../harness/observed-config-maps.ts';
import { untilWritten } from '../harness/redis-written.ts';
import type { Started } from '../harness/started.ts';
import { failOver, faultTables, observer, type Scene } from './redis-faults/table.ts';

const INDEX = 'field:data.group' as const;

const loseNoChange = faultTables();

/** A single Redis, which the test can take away with its data. */
class SingleRedis {
  readonly server: RedisServer;
  readonly connection: Redis;
  readonly #folder: string;
  readonly #copy: string;

  private constructor(server: RedisServer, connection: Redis, directory: string) {
    this.server = server;
    this.connection = connection;
    this.#folder = join(directory, 'redis', 'appendonlydir');
    this.#copy = join(directory, 'copy');
  }

  static async start(started: Started): Promise<SingleRedis> {
    const directory = await started.directory();
    const server = await startRedis({
      ignoreEnvironment: true,
      appendOnly: true,
      directory: join(directory, 'redis'),
    });
    started.add(() => server.stop());
    const connection = new Redis(server.url, { maxRetriesPerRequest: null });
    connection.on('error', () => {});
    started.add(async () => connection.disconnect());
    return new SingleRedis(server, connection, directory);
  }

  async length(): Promise<number> {
    await untilWritten(this.connection);
    return (await stat(await this.#file())).size;
  }

  async truncate(length: number): Promise<void> {
    await truncate(await this.#file(), length);
  }

  async empty(): Promise<void> {
    await rm(this.#folder, { recursive: true });
  }

  async copy(): Promise<void> {
    await untilWritten(this.connection);
    await rm(this.#copy, { recursive: true, force: true });
    await cp(this.#folder, this.#copy, { recursive: true });
  }

  async restoreCopy(): Promise<void> {
    await this.empty();
    await cp(this.#copy, this.#folder, { recursive: true });
  }

  /** At once: no reader sees half of it. */
  async removeKeys(prefix: string): Promise<void> {
    const found: string[] = [];
    const scan = this.connection.scanStream({ match: `${prefix}*`, count: 1000 });
    for await (const keys of scan as AsyncIterable<string[]>) found.push(...keys);
    expect(found).not.toEqual([]);
    await this.connection.del(...found);
  }

  async #file(): Promise<string> {
    const name = (await readdir(this.#folder)).find((each) => each.endsWith('.incr.aof'));
    expect(name).toBeDefined();
    return join(this.#folder, name ?? '');
  }
}

/** Kills a single Redis, does something while it is away, and waits until the gateways have recovered. */
async function restart(
  { world, redis: { server } }: Scene<SingleRedis>,
  whileAway: () => Promise<void> = async () => {},
): Promise<void> {
  const before = await world.sum('levelhook_recoveries_total');
  await server.kill('SIGKILL');
  await eventually(async () => expect((await fetch(`${world.gateway.url}/readyz`)).status).toBe(503));
  await whileAway();
  await server.start();
  await untilReady(world.gateway.url);
  // Ready means recovered, not only connected.
  expect(await world.sum('levelhook_recoveries_total')).toBeGreaterThan(before);
}

/** Objects with a run each, for a fault to change and delete. Their names are new. */
async function made(world: FaultWorld, count: number): Promise<{ objects: ObservedConfigMaps; names: string[] }> {
  const objects = new ObservedConfigMaps(world.cluster, world.namespace);
  const names = Array.from({ length: count }, () => uniqueName('made'));
  for (const name of names) await objects.create(name, 'a');
  for (const name of names) {
    await eventually(async () => expect(world.observer.seen({ key: `${world.namespace}/${name}` })).not.toEqual([]));
  }
  return { objects, names };
}

/** Changes one object and deletes another while Redis has lost data. Returns the check that every key runs again. */
async function losing(
  scene: Scene<SingleRedis>,
  fault: (whileLost: () => Promise<void>) => Promise<void>,
): Promise<() => Promise<void>> {
  const { objects, names } = await made(scene.world, 2);
  const [changed = '', deleted = ''] = names;
  const { observer } = scene.world;
  const from = observer.count;
  await fault(async () => {
    await objects.change(changed, 'b');
    await objects.delete(deleted);
  });
  return () => objects.untilSeen([observer], from);
}

/** A key that a person has paused is neither run by `fault` nor lost: recovery ends its own pause, and not that one. */
async function whilePaused(
  { world, redis }: Scene<SingleRedis>,
  fault: () => Promise<void>,
): Promise<() => Promise<void>> {
  const { cluster, namespace, observer } = world;
  const { names } = await made(world, 1);
  const [name = ''] = names;
  const key = `${namespace}/${name}`;
  const scope = `key/${key}`;
  const post = async (verb: 'pause' | 'resume'): Promise<void> => {
    const answer = await fetch(`${world.gateway.url}/queues/${observer.name}/${verb}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ scope }),
    });
    expect(answer.status).toBe(200);
  };
  const runs = (): number => observer.seen({ key }).length;
  await post('pause');
  await untilWritten(redis.connection);
  const before = runs();
  await fault();
  await cluster.patch(configMaps, { namespace, name }, { data: { changed: 'while paused' } });
  return async () => {
    await eventually(async () => {
      const answer = await fetch(`${world.gateway.url}/queues/${observer.name}/keys/${key}`);
      // It may wait for more: after a loss, for the cache to show what its last run may have written.
      expect(await answer.json()).toMatchObject({
        waits: expect.arrayContaining([{ reason: 'paused', by: scope }]) as unknown,
      });
    });
    expect(runs()).toBe(before);
    await post('resume');
    await eventually(async () => expect(runs()).toBeGreaterThan(before));
  };
}

loseNoChange('a gateway on one Redis', {
  start: async (started) => {
    const redis = await SingleRedis.start(started);
    return { redis, options: { redisUrl: redis.server.url, observer, changesPerSecond: 60 } };
  },
  rows: {
    'Redis is killed and restarted with its append-only file': (scene) => whilePaused(scene, () => restart(scene)),
  },
});

// After a loss nobody knows of an object that was deleted just before, so only the rows delete objects.
loseNoChange('a gateway on a Redis that loses data', {
  start: async (started) => {
    const redis = await SingleRedis.start(started);
    const indexes = [{ resource: configMaps, index: INDEX }];
    return { redis, options: { redisUrl: redis.server.url, observer: { ...observer, indexes }, deletions: false } };
  },
  rows: {
    'Redis is restarted without the last second of its append-only file': async (scene) => {
      const { redis, world } = scene;
      const { objects, names } = await made(world, 1);
      const [deleted = ''] = names;
      let from = 0;
      const check = await whilePaused(scene, async () => {
        const length = await redis.length();
        await objects.delete(deleted);
        await sleep(1000);
        from = world.observer.count;
        await restart(scene, () => redis.truncate(length));
      });
      return async () => {
        await objects.untilSeenGone(world.observer, deleted, from);
        await check();
      };
    },
    'Redis is restarted empty': (scene) =>
      losing(scene, (whileLost) =>
        restart(scene, async () => {
          await scene.redis.empty();
          await whileLost();
        }),
      ),
    'Redis is flushed': (scene) =>
      losing(scene, async (whileLost) => {
        await scene.redis.connection.flushall();
        await whileLost();
      }),
    'the keys of one view are removed': (scene) =>
      losing(scene, async (whileLost) => {
        await removeView(scene);
        await whileLost();
      }),
    'the keys of one view are removed as soon as a killed gateway is replaced': (scene) =>
      losing(scene, async (whileLost) => {
        const { world } = scene;
        await world.gateway.process.kill('SIGKILL');
        await world.replace(world.gateway);
        await removeView(scene);
        await whileLost();
      }),
    'the keys of one queue are removed, and lists nothing for it': async (scene) => {
      const { world, redis } = scene;
      const clusterId = await clusterIdentity(world.cluster.client);
      const { prefix } = queueKeys({ keyPrefix: world.setting.keyPrefix, clusterId }, world.observer.name);
      const lists = await world.sum('levelhook_reflector_lists_total');
      // Objects change until the queue is in order: a late bookmark would make the gateway list.
      const check = await losing(scene, () => failOver(scene, () => redis.removeKeys(`${prefix}:`)));
      return async () => {
        await check();
        expect(await world.sum('levelhook_reflector_lists_total')).toBe(lists);
      };
    },
    'Redis is restarted with an older copy of its data': async (scene) => {
      const { redis, world } = scene;
      const { objects, names } = await made(world, 4);
      const [deleted = '', replaced = '', deletedWhileAway = '', changed = ''] = names;
      await redis.copy();
      // The copy lacks these deletions, the index entry of the change, the second object of one name, and the new one.
      await objects.delete(deleted);
      await objects.delete(replaced);
      await objects.create(replaced, 'c');
      await objects.create(uniqueName('made'), 'b');
      await objects.change(changed, 'b');
      await objects.untilSeenGone(world.observer, deleted);
      const from = world.observer.count;
      await restart(scene, async () => {
        await objects.change(changed, 'd');
        await objects.delete(deletedWhileAway);
        await redis.restoreCopy();
      });
      return async () => {
        await objects.untilSeen([world.observer], from);
        await objects.untilSeenGone(world.observer, deleted, from);
        await objects.untilSeenGone(world.observer, deletedWhileAway, from);
      };
    },
  },
});

async function removeView({ world, redis }: Scene<SingleRedis>): Promise<void> {
  const [view] = await viewsOf(world.setting, world.cluster, { resource: configMaps });
  await redis.removeKeys(`${view?.prefix}:`);
}
