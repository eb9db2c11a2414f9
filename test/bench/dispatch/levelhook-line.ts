import { silentLogger, silentMetrics, systemClock } from '../../../src/core/index.ts';
import { importSecret } from '../../../src/contract/index.ts';
import { connectRedis } from '../../../src/gateway/cache/redis.ts';
import { CacheAccess } from '../../../src/gateway/dispatch/cache-access.ts';
import { Dispatcher } from '../../../src/gateway/dispatch/dispatcher.ts';
import { Endpoint } from '../../../src/gateway/dispatch/endpoint.ts';
import { BullMqWorkQueue } from '../../../src/gateway/workqueue/bullmq-work-queue.ts';
import type { Process } from '../../../src/gateway/workqueue/work-queue.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import type { Line, LineOptions } from './line.ts';

/** The gateway's own half from the queue on, as `Controller` puts it together; without views, so without barriers. */
export async function levelhookLine(options: LineOptions): Promise<Line> {
  const { redisUrl, functionUrl, secret, concurrency, onDone } = options;
  const redis = await connectRedis(redisUrl);
  const shared = { clock: systemClock, logger: silentLogger, metrics: silentMetrics };
  const queue = new BullMqWorkQueue({
    ...shared,
    redis,
    keyPrefix: uniqueName('bench'),
    clusterId: 'bench',
    name: 'bench',
    concurrency,
    timeoutMs: 15_000,
  });
  const endpoint = new Endpoint(functionUrl, [await importSecret(secret)], { connections: concurrency });
  const cacheAccess = new CacheAccess({
    controller: 'bench',
    views: [],
    api: undefined,
    clock: systemClock,
    lifetimeMs: 60_000,
    timeoutMs: 15_000,
  });
  const dispatcher = new Dispatcher({
    ...shared,
    controller: 'bench',
    endpoint,
    cacheAccess,
    views: [],
    timeoutMs: 15_000,
    logTriggers: false,
  });
  const process: Process = {
    run: async (run) => {
      const finish = await dispatcher.run(run);
      if (finish.kind !== 'known' || finish.failures !== 'forget') throw new Error(`a run ended as ${finish.kind}`);
      onDone(run.key);
      return finish;
    },
    lost: (run) => dispatcher.lost(run),
    passed: (barrier) => dispatcher.passed(barrier),
    late: (barrier) => dispatcher.late(barrier),
  };
  return {
    name: 'levelhook',
    add: (keys) =>
      queue.add(keys.map((key) => ({ key, reasons: [{ type: 'updated', object: `v1/ConfigMap ${key}` }] }))),
    start: () => queue.start(process),
    stop: async () => {
      await queue.stop(5000);
      await queue.obliterate();
      await endpoint.close();
      redis.disconnect();
    },
  };
}
