import { expect } from 'vitest';
import { eventually } from '../harness/eventually.ts';
import { type RedisProcess, SentinelSet } from '../harness/redis-process.ts';
import { failOver, faultTables, type Scene, type Table } from './redis-faults/table.ts';

/**
 * `REDIS_SENTINEL_LAG=1`: the next master lacks the last writes, and runs are longer than the failover that follows.
 */
const lags = process.env['REDIS_SENTINEL_LAG'] === '1';
const loseNoChange = faultTables();

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
