import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { GarbageCollector } from '../../../src/gateway/recovery/garbage-collection.ts';
import { Recovery } from '../../../src/gateway/recovery/recovery.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { startRedis } from '../../../src/testing/index.ts';
import { eventually } from '../../harness/eventually.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import { Started } from '../../harness/started.ts';

it('a Redis process that is replaced between two questions of a check is not taken for the next one', async ({
  onTestFinished,
}) => {
  const started = new Started();
  onTestFinished(() => started.stop());
  const server = await startRedis({ ignoreEnvironment: true });
  started.add(() => server.stop());
  const redis = new Redis(server.url, { maxRetriesPerRequest: null });
  redis.on('error', () => {});
  started.add(async () => redis.disconnect());
  await redis.ping();

  /** Restarts Redis, which forgets all, after it has named itself and before it is asked anything else. */
  let isReplaced = false;
  const names: string[] = [];
  const info = redis.info.bind(redis) as (...all: unknown[]) => Promise<string>;
  const asked = async (...all: unknown[]): Promise<string> => {
    const answer = await info(...all);
    // ioredis asks with a callback whether the server is ready.
    if (all.length > 1 || all[0] !== 'server') return answer;
    names.push(/^run_id:(\S+)/m.exec(answer)?.[1] ?? '');
    if (!isReplaced && taken.length > 0) {
      isReplaced = true;
      await server.kill();
      await server.start();
    }
    return answer;
  };
  Object.assign(redis, { info: asked });

  const taken: string[] = [];
  const runtime = quietRuntime();
  const location = redisLocation(redis, 'process-met', 'c');
  const recovery = new Recovery({
    runtime,
    location,
    garbage: new GarbageCollector({ location, runtime, liveOwner: async () => undefined }),
    parts: { informers: { all: () => [], record: async () => {} }, controllers: () => [] },
    writer: { term: undefined, check: async () => {} },
    lease: {
      take: async (runId) => {
        taken.push(runId);
        return { beforeMs: 0, others: [] };
      },
      release: async () => {},
      forget: async () => {},
    },
    thisGateway: { id: 'g', runs: { inFlight: () => [], beginUntil: () => {} } },
    onWaitChanged: () => {},
  });
  const stop = new AbortController();
  const ended = recovery.run(stop.signal);
  started.add(() => (stop.abort(), ended));

  await eventually(async () =>
    expect([new Set(names).size, taken.at(-1), recovery.healthy]).toEqual([2, names.at(-1), true]),
  );
  expect(taken).toEqual([...new Set(names)]);
  expect(await redis.hget(location.registryKey, 'runId')).toBe(taken.at(-1));
});
