import { Queue, Worker } from 'bullmq';
import { connectRedis, unlinkAll } from '../../../src/ground/redis/redis.ts';
import { done } from '../../harness/recording-process.ts';
import { BullMqWorkQueue } from '../../../src/gateway/controller/workqueue/bullmq-work-queue.ts';
import { uniqueName } from '../../harness/levelhook.ts';
import { quietRuntime } from '../../harness/quiet-runtime.ts';

/** What is measured of a queue: both sides do the same work for it. */
export interface BenchQueue {
  add(keys: readonly string[]): Promise<void>;
  start(run: (key: string) => void): Promise<void>;
  close(): Promise<void>;
}

export type MakeQueue = (redisUrl: string, options: { concurrency: number }) => Promise<BenchQueue>;

/** BullMQ alone, with the job options that the work queue uses: what it would cost to promise no more than that. */
export const bareBullMq: MakeQueue = async (redisUrl, { concurrency }) => {
  const redis = await connectRedis(redisUrl);
  const prefix = `{${uniqueName('bare')}}`;
  const queue = new Queue('bench', { connection: redis, prefix, streams: { events: { maxLen: 100 } } });
  let worker: Worker | undefined;
  const options = (key: string) => ({
    removeOnComplete: true,
    removeOnFail: true,
    attempts: 1,
    deduplication: { id: key, keepLastIfActive: true },
  });
  return {
    async add(keys) {
      const [first] = keys;
      if (keys.length === 1 && first !== undefined) await queue.add('reconcile', { key: first }, options(first));
      else await queue.addBulk(keys.map((key) => ({ name: 'reconcile', data: { key }, opts: options(key) })));
    },
    async start(run) {
      await queue.setGlobalConcurrency(concurrency);
      worker = new Worker('bench', async (job) => run((job.data as { key: string }).key), {
        connection: redis,
        prefix,
        concurrency,
        lockDuration: 10_000,
        stalledInterval: 2000,
        maxStalledCount: 1e9,
      });
    },
    async close() {
      await worker?.close();
      await queue.close();
      await unlinkAll(redis, prefix);
      redis.disconnect();
    },
  };
};

export const ours: MakeQueue = async (redisUrl, { concurrency }) => {
  const redis = await connectRedis(redisUrl);
  const queue = new BullMqWorkQueue({
    name: 'bench',
    behaviour: { concurrency, timeoutMs: 15_000 },
    location: { redis, keyPrefix: uniqueName('ours'), clusterId: 'c' },
    runtime: quietRuntime(),
  });
  return {
    // As the relay adds them: with a reason.
    add: async (keys) => {
      await queue.add(
        keys.map((key) => ({
          key,
          reasons: [{ type: 'updated', object: `apps/v1/ReplicaSet ${key}`, resourceVersion: '123456' }],
        })),
      );
    },
    start: async (run) => {
      // As in a gateway, BullMQ keeps few events.
      await queue.record.renew('bench');
      await queue.start({
        run: (runs) =>
          runs.map(async ({ key }) => {
            run(key);
            return done;
          }),
        lost: async () => ({ kind: 'ended', failures: 'count' }),
        passed: async () => true,
        late: () => {},
      });
    },
    async close() {
      await queue.stop(10_000);
      await unlinkAll(redis, `${queue.keys.prefix}:`);
      redis.disconnect();
    },
  };
};
