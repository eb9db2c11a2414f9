import { systemClock } from '../../../src/core/index.ts';
import { importExtractableSecret } from '../../../src/contract/signature.ts';
import { redisLocation } from '../../../src/ground/redis/redis-location.ts';
import { connectRedis, unlinkAll } from '../../../src/ground/redis/redis.ts';
import { CacheAccess } from '../../../src/gateway/controller/access/cache-access.ts';
import { Dispatcher } from '../../../src/gateway/controller/dispatch/dispatcher.ts';
import { Endpoint } from '../../../src/gateway/controller/endpoint/endpoint.ts';
import { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { OpenTelemetryTraces } from '../../../src/gateway/process/opentelemetry-traces.ts';
import { TracedChanges } from '../../../src/gateway/process/traced-changes.ts';
import type { Finish, Process, Run } from '../../../src/gateway/controller/workqueue/work-queue.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';
import type { Line, LineOptions } from './line.ts';
import { ownBounds } from '../../harness/own-bounds.ts';

/** The gateway's own half from the queue on, as `Controller` puts it together; without views, so without barriers. */
export async function levelhookLine(options: LineOptions): Promise<Line> {
  const { redisUrl, functionUrl, secret, concurrency, maxBatch = 1, traces: traced, onDone } = options;
  const redis = await connectRedis(redisUrl);
  const traces = traced && new OpenTelemetryTraces({ ...traced, url: undefined, version: '0.0.0' });
  await traces?.start();
  const location = redisLocation(redis, uniqueName('bench'), 'bench');
  traces?.linkThrough(new TracedChanges(location));
  const runtime = { ...quietRuntime(), traces };
  const queue = new BullMqWorkQueue({
    name: 'bench',
    behaviour: { concurrency, maxBatch, timeoutMs: 15_000 },
    location,
    runtime,
  });
  const endpoint = new Endpoint(functionUrl, [await importExtractableSecret(secret)], { connections: concurrency });
  const cacheAccess = new CacheAccess({
    views: [],
    api: undefined,
    clock: systemClock,
  });
  const dispatcher = new Dispatcher({
    bounds: ownBounds(),
    controller: 'bench',
    target: { endpoint, cacheAccess },
    runtime,
    views: [],
    starts: { keys: { allow() {} }, ending: new AbortController().signal },
    settings: { logTriggers: false, startWindowMs: 60_000 },
  });
  let triggers = 0;
  const run = (runs: readonly Run[]): readonly Promise<Finish>[] => {
    triggers += 1;
    return dispatcher.run(runs).map(async (ending, at) => {
      const finish = await ending;
      if (finish.kind !== 'ended' || finish.failures !== 'forget') throw new Error(`a run ended as ${finish.kind}`);
      onDone(runs[at]?.key ?? '');
      return finish;
    });
  };
  const process: Process = {
    run,
    lost: (lost) => dispatcher.lost(lost),
    passed: (barrier) => dispatcher.passed(barrier),
    late: (barrier) => dispatcher.late(barrier),
  };
  return {
    name: traced
      ? `levelhook with ${100 * traced.ratio} % traced`
      : maxBatch === 1
        ? 'levelhook'
        : `levelhook in batches of ${maxBatch}`,
    triggers: () => triggers,
    add: async (keys) => {
      const reason = { type: 'updated', resourceVersion: '1' } as const;
      await queue.add(keys.map((key) => ({ key, reasons: [{ ...reason, object: `v1/ConfigMap ${key}` }] })));
    },
    start: async () => {
      // As in a gateway, BullMQ keeps few events.
      await queue.record.renew('bench');
      await queue.start(process);
    },
    stop: async () => {
      await queue.stop(5000);
      await unlinkAll(redis, `${queue.keys.prefix}:`);
      await endpoint.close();
      redis.disconnect();
      await traces?.stop();
    },
  };
}
