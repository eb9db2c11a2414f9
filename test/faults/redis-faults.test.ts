import { cp, readdir, rm, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterIdentity } from '../../src/ground/apiserver/discovery.ts';
import { queueKeys } from '../../src/gateway/controller/workqueue/queue-keys.ts';
import { type ControlPlane, type RedisServer, startControlPlane, startRedis } from '../../src/testing/index.ts';
import { viewsOf } from '../harness/cache-equals-server.ts';
import { configMaps } from '../harness/cluster.ts';
import { eventually } from '../harness/eventually.ts';
import { FaultWorld, type FaultWorldOptions } from '../harness/fault-world.ts';
import { uniqueName, untilIdle, untilReady } from '../harness/levelhook.ts';
import { ObservedConfigMaps } from '../harness/observed-config-maps.ts';
import { RedisClusterNodes, type RedisProcess, SentinelSet } from '../harness/redis-process.ts';
import { untilWritten } from '../harness/redis-written.ts';
import { Started } from '../harness/started.ts';

/** How often each row is done. */
const ROUNDS = Number(process.env['REDIS_FAULTS_ROUNDS'] ?? 1);
/**
 * `REDIS_SENTINEL_LAG=1`: the next master lacks the last writes, and runs are longer than the failover that follows.
 */
const lags = process.env['REDIS_SENTINEL_LAG'] === '1';
const INDEX = 'field:data.group' as const;

/** A world, and the Redis below it. */
interface Scene<R> {
  readonly world: FaultWorld;
  readonly redis: R;
  readonly started: Started;
}

/** Does a fault while objects change. Returns further checks, which the table makes after `untilAllIsWell`. */
type Fault<R> = (scene: Scene<R>) => Promise<(() => Promise<void>) | undefined>;

/** Faults that leave the world as it was, and so share one. */
interface Table<R> {
  readonly start: (started: Started) => Promise<{ redis: R; options: Omit<FaultWorldOptions, 'kubeconfig'> }>;
  /** By the end of the sentence that begins with the table's name. */
  readonly rows: Readonly<Record<string, Fault<R>>>;
}

let plane: ControlPlane;

/** Its own: nothing else changes ConfigMaps while cache and server are compared. */
beforeAll(async () => {
  plane = await startControlPlane();
});

afterAll(() => plane?.stop());

function loseNoChange<R>(name: string, { start, rows }: Table<R>): void {
  describe(name, () => {
    const started = new Started();
    let scene: Scene<R>;

    beforeAll(async () => {
      const { redis, options } = await start(started);
      const world = await FaultWorld.start(started, name, { alone: true, kubeconfig: plane.kubeconfig, ...options });
      scene = { world, redis, started };
      await world.untilAllIsWell();
    });

    afterAll(() => started.stop());

    for (const [what, fault] of Object.entries(rows)) {
      it.for(Array.from({ length: ROUNDS }, (_, at) => at + 1))(
        `loses no change when ${what} (round %i)`,
        { timeout: 300_000 },
        async () => {
          const { world } = scene;
          const checks: Awaited<ReturnType<Fault<R>>>[] = [];
          await world.underChanges(async () => {
            await sleep(world.random.below(1000));
            checks.push(await fault(scene));
          });
          await world.untilAllIsWell();
          for (const check of checks) await check?.();
        },
      );
    }

    it('lets its gateways stop in order after the faults', async () => {
      const { world } = scene;
      const { gateways } = world;
      for (const { url } of gateways) await untilIdle(url);
      const outputs = gateways.map(({ process }) => process);
      await world.stopInOrder();
      for (const { output } of outputs) expect(output).not.toMatch(/CROSSSLOT|same slot|same node|\[ioredis\]/i);
    });
  });
}

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

/** Until a fault that replaces a master is repaired, and each gateway runs keys on the new one. */
async function failOver({ world }: Scene<unknown>, fault: () => Promise<void>): Promise<void> {
  const before = await world.sum('levelhook_recoveries_total');
  await fault();
  await eventually(async () => expect(await world.sum('levelhook_recoveries_total')).toBeGreaterThan(before));
  for (const { url } of world.gateways) await untilReady(url);
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

/** Runs take long enough that two runs of one key would overlap and be seen. */
const observer = { delayMs: 200, concurrency: 30 };

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
      const check = await losing(scene, () => redis.removeKeys(`${prefix}:`));
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

/** Which of the two is the master, as of the last failover. */
interface Pair {
  master: RedisProcess;
  replica: RedisProcess;
}

interface Failover {
  /**
   * Cuts the replicas off, so that the next master lacks the writes from now on. A restart of the master ends this.
   */
  readonly lag?: (master: RedisProcess) => Promise<void>;
  readonly harm: (master: RedisProcess) => Promise<void>;
  /** Brings the former master back, as a replica. */
  readonly back: (former: RedisProcess) => Promise<void>;
}

/** Until the replica is the master and all is repaired. */
async function sentinelsFailOver(
  scene: Scene<Pair>,
  { lag = async () => {}, harm, back }: Failover,
): Promise<() => Promise<void>> {
  const { redis, started, world } = scene;
  // Sentinels on a busy machine may have failed over without a fault.
  if (!(await redis.master.isMaster(started))) [redis.master, redis.replica] = [redis.replica, redis.master];
  const { master, replica } = redis;
  await failOver(scene, async () => {
    await lag(master);
    // The next master may lack the starts of these runs.
    const known = world.observer.count;
    await eventually(async () => expect(world.observer.count).toBeGreaterThan(known + 5), 60_000, 20);
    await harm(master);
    await replica.until('master', started);
  });
  await back(master);
  await master.until('replica', started);
  [redis.master, redis.replica] = [replica, master];
  return async () => {
    const sum = (metric: string): Promise<number> => world.sum(metric);
    // Otherwise the overlaps would show less: the next master has lacked the starts of runs. A gateway alone puts its
    // runs back on record.
    if (lags && world.gateways.length > 1) expect(await sum('levelhook_stale_outcomes_total')).toBeGreaterThan(0);
    // The new master may lack the last writes, so the leader lists once; the others never do.
    expect(await sum('levelhook_reflector_lists_total')).toBeLessThanOrEqual(await sum('levelhook_recoveries_total'));
  };
}

const onSentinels = (gateways: number): Table<Pair> => ({
  start: async (started) => {
    const { master, replica, url } = await SentinelSet.start(started);
    const redis: Pair = { master, replica };
    // Runs take longer than a failover: those in flight, which the new master may not know, must not be met by others.
    const [delayMs, timeoutSeconds] = lags ? [6000, 10] : [3000, 6];
    const options = {
      redisUrl: url,
      cacheUrl: () => `redis://127.0.0.1:${redis.master.port}`,
      gateways,
      readsThroughGateway: true,
      observer: { concurrency: 50, delayMs, timeoutSeconds },
    };
    return { redis, options };
  },
  rows: {
    'the master is killed': (scene) =>
      sentinelsFailOver(scene, {
        lag: async (master) => (lags ? master.loseReplicas(scene.started) : undefined),
        harm: (master) => master.kill('SIGKILL'),
        back: (former) => former.startAgain(),
      }),
    'the master freezes and wakes up as a master that has not been told': (scene) =>
      sentinelsFailOver(scene, {
        harm: (master) => master.kill('SIGSTOP'),
        back: (former) => former.kill('SIGCONT'),
      }),
  },
});

loseNoChange('three gateways on a Redis with Sentinels', onSentinels(3));
if (lags) loseNoChange('a gateway on a Redis with Sentinels', onSentinels(1));

loseNoChange('a gateway on a Redis Cluster', {
  start: async (started) => {
    const redis = await RedisClusterNodes.start(started);
    const options = {
      redisUrl: redis.url,
      cacheUrl: () => undefined,
      readsThroughGateway: true,
      // The keys of six queues fall on all three nodes.
      observers: 6,
      observer,
      objects: 50,
      changesPerSecond: 20,
    };
    return { redis, options };
  },
  rows: {
    'a master without a replica is killed and restarted': async (scene) => {
      const { redis, world } = scene;
      const sizes = await Promise.all(redis.connections.slice(0, 3).map((node) => node.dbsize()));
      expect(sizes.filter((size) => size > 0)).toHaveLength(3);
      const [master] = redis.masters;
      await failOver(scene, async () => {
        await master?.kill('SIGKILL');
        await eventually(async () => expect((await fetch(`${world.gateway.url}/readyz`)).status).toBe(503));
        await master?.startAgain();
      });
      return undefined;
    },
    'a replica takes over from a killed and then from a frozen master': async (scene) => {
      const { redis, started } = scene;
      const master = redis.masters[2];
      await failOver(scene, async () => {
        await master?.kill('SIGKILL');
        await redis.replica.until('master', started);
      });
      await master?.startAgain();
      await master?.until('replica', started);
      await failOver(scene, async () => {
        await redis.replica.kill('SIGSTOP');
        await master?.until('master', started);
      });
      await redis.replica.kill('SIGCONT');
      await redis.replica.until('replica', started);
      return undefined;
    },
  },
});
