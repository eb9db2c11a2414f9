import { describe, expect } from 'vitest';
import { type LogFields, silentLogger } from '../../../src/core/index.ts';
import { PrometheusMetrics } from '../../../src/gateway/process/metrics.ts';
import { RedisHealth } from '../../../src/gateway/process/redis-health.ts';
import { connectRedis, type Redis } from '../../../src/ground/redis/redis.ts';
import { refuseUnusable } from '../../../src/ground/redis/redis-server.ts';
import { type RedisServer, startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { metric } from '../../harness/gateway-view.ts';
import { openGateway } from '../../harness/opened.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { it } from '../../harness/world.ts';

let server: RedisServer;
let redis: Redis;

it.beforeAll(async ({ world: { started } }) => {
  server = await startRedis({ ignoreEnvironment: true, appendOnly: true });
  started.add(() => server.stop());
  redis = await connectRedis(server.url);
  started.add(async () => redis.disconnect());
});

interface Watched {
  readonly health: RedisHealth;
  /** What it logged: the problem, and whether it began. */
  readonly log: string[];
  /** The problems whose metric is 1; undefined while a problem has no series. */
  readonly problems: () => Promise<string[] | undefined>;
}

function watched(): Watched {
  const log: string[] = [];
  const metrics = new PrometheusMetrics();
  const logger = {
    ...silentLogger,
    warn: ({ problem }: LogFields) => void log.push(`${String(problem)} begins`),
    info: ({ problem }: LogFields) => void log.push(`${String(problem)} ends`),
  };
  return {
    health: new RedisHealth(redis, quietRuntime({ logger, metrics })),
    log,
    problems: async () => {
      const { values = [] } = (await metrics.registry.getSingleMetric('levelhook_redis_problem')?.get()) ?? {};
      if (values.length !== 5) return undefined;
      return values.filter(({ value }) => value === 1).map(({ labels }) => String(labels['problem']));
    },
  };
}

describe('the health of Redis', () => {
  it('is good for one that does not evict and keeps its data', async () => {
    const { health, log, problems } = watched();
    await health.look();
    expect(health.notReady()).toBeUndefined();
    expect(log).toEqual([]);
    expect(await problems()).toEqual([]);
    await refuseUnusable(redis, server.url);
  });

  it('fails under a policy that evicts, and says so once when it begins and once when it ends', async () => {
    const { health, log, problems } = watched();
    await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
    await health.look();
    await health.look();
    expect(health.notReady()).toMatch(/^maxmemory-policy is allkeys-lru, .*: set it to noeviction$/);
    expect(await problems()).toEqual(['eviction']);
    await expect(refuseUnusable(redis, 'redis://me:hidden@here')).rejects.toThrow(
      /^The Redis at redis:\/\/\*\*\*@here:6379 cannot be used: maxmemory-policy is allkeys-lru, .*\.$/,
    );
    await redis.config('SET', 'maxmemory-policy', 'noeviction');
    await health.look();
    expect(health.notReady()).toBeUndefined();
    expect(log).toEqual(['eviction begins', 'eviction ends']);
    expect(await problems()).toEqual([]);
  });

  it('is a warning without persistence, and none with snapshots', async () => {
    const { health, problems } = watched();
    await redis.config('SET', 'appendonly', 'no');
    await health.look();
    expect(health.notReady()).toEqual({ warning: expect.stringContaining('keeps no data on disk') as string });
    expect(await problems()).toEqual(['persistence']);
    await refuseUnusable(redis, server.url);
    await redis.config('SET', 'save', '3600 1');
    await health.look();
    expect(health.notReady()).toBeUndefined();
  });

  it('is a warning at 90 % of its memory', async () => {
    const { health, problems } = watched();
    const used = Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
    await redis.config('SET', 'maxmemory', Math.floor(used * 1.05));
    await health.look();
    expect(health.notReady()).toEqual({ warning: expect.stringMatching(/^Redis uses 9\d % of its memory/) as string });
    expect(await problems()).toEqual(['memory']);
    await redis.config('SET', 'maxmemory', 0);
  });

  it('fails for a replica', async ({ world: { started } }) => {
    const { health, problems } = watched();
    const master = await startRedis({ ignoreEnvironment: true });
    started.add(() => master.stop());
    await redis.replicaof('127.0.0.1', master.port);
    await health.look();
    expect(health.notReady()).toBe(`Redis is a replica of 127.0.0.1:${master.port}: name the master in REDIS_URL`);
    expect(await problems()).toEqual(['role']);
    await expect(refuseUnusable(redis, server.url)).rejects.toThrow(/cannot be used: Redis is a replica of/);
    await redis.replicaof('NO', 'ONE');
    await health.look();
    expect(health.notReady()).toBeUndefined();
  });

  it('stays as it was while Redis is away, and waits for nothing', async () => {
    const { health } = watched();
    await server.kill();
    await eventually(async () => expect(redis.status).not.toBe('ready'));
    await health.look();
    expect(health.notReady()).toBeUndefined();
    await server.start();
    await eventually(async () => expect(redis.status).toBe('ready'));
  });
});

it('a gateway shows a warning at readyz, in its log and as a metric, and is ready', async ({ world }) => {
  // The tests' own Redis keeps nothing on disk.
  const gateway = world.started.keep(await openGateway(world.setting, []));
  await eventually(async () => {
    const answer = await fetch(`${gateway.url}/readyz?verbose`);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('[+]redis-server warning: Redis keeps no data on disk');
  });
  expect(await metric(gateway.url, 'levelhook_redis_problem', { problem: 'persistence' })).toBe(1);
  expect(await metric(gateway.url, 'levelhook_redis_problem')).toBe(1);
  const said = gateway.process.lines.filter(({ msg }) => msg === 'Redis is not as levelhook needs it');
  expect(said).toEqual([expect.objectContaining({ problem: 'persistence' })]);
});
