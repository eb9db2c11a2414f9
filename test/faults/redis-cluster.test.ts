import { expect } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { RedisClusterNodes, type RedisProcess } from '../harness/redis-process.ts';
import { failOver, faultTables, observer } from './redis-faults/table.ts';

const loseNoChange = faultTables();

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
      let [master, replica] = [redis.masters[2] as RedisProcess, redis.replica];
      // Nodes on a busy machine may have failed over without a fault.
      if (await replica.isMaster(started)) [master, replica] = [replica, master];
      await failOver(scene, async () => {
        await master.kill('SIGKILL');
        await replica.until('master', started);
      });
      await master.startAgain();
      await master.until('replica', started);
      await failOver(scene, async () => {
        await replica.kill('SIGSTOP');
        await master.until('master', started);
      });
      await replica.kill('SIGCONT');
      await replica.until('replica', started);
      return undefined;
    },
  },
});
