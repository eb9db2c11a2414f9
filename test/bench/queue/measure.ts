import { setTimeout as sleep } from 'node:timers/promises';
import { connectRedis } from '../../../src/ground/redis/redis.ts';
import { machineMs } from '../../harness/machine-clock.ts';
import { percentile } from '../median.ts';
import type { BenchQueue } from './queues.ts';

export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
}

const keyAt = (at: number): string => `default/object-${at}`;

/** Keys added in a second, to a queue that runs nothing. */
export async function addRate(
  queue: BenchQueue,
  count: number,
  { bulk, inFlight }: { bulk: number; inFlight: number },
): Promise<number> {
  let next = 0;
  const addAll = async (): Promise<void> => {
    while (next < count) {
      const from = next;
      next += bulk;
      await queue.add(Array.from({ length: bulk }, (_, at) => keyAt(from + at)));
    }
  };
  const startMs = machineMs();
  await Promise.all(Array.from({ length: inFlight }, addAll));
  return (next / (machineMs() - startMs)) * 1000;
}

/** Runs in a second that do nothing, of keys that wait already. */
export async function runRate(queue: BenchQueue, count: number): Promise<number> {
  await addRate(queue, count, { bulk: 500, inFlight: 1 });
  const wanted = Math.ceil(count / 500) * 500;
  const { promise, resolve } = Promise.withResolvers<void>();
  let runs = 0;
  const startMs = machineMs();
  await queue.start(() => {
    runs += 1;
    if (runs === wanted) resolve();
  });
  await promise;
  return (wanted / (machineMs() - startMs)) * 1000;
}

/** Milliseconds from the call of `add` to the start of the run, at a steady rate of adds, each of another key. */
export async function latencyAt(queue: BenchQueue, perSecond: number, seconds: number): Promise<Percentiles> {
  const addedAt = new Map<string, number>();
  const waits: number[] = [];
  const total = perSecond * seconds;
  const { promise, resolve } = Promise.withResolvers<void>();
  await queue.start((key) => {
    waits.push(machineMs() - (addedAt.get(key) ?? NaN));
    if (waits.length === total) resolve();
  });
  await sleep(500);
  const startMs = machineMs();
  const adding: Promise<void>[] = [];
  for (let at = 0; at < total;) {
    // As many as are due by now: a timer of one millisecond is no pacemaker for three a millisecond.
    const due = Math.min(total, Math.floor(((machineMs() - startMs) / 1000) * perSecond));
    for (; at < due; at += 1) {
      addedAt.set(keyAt(at), machineMs());
      adding.push(queue.add([keyAt(at)]));
    }
    await sleep(1);
  }
  await Promise.all(adding);
  await promise;
  return { p50: percentile(waits, 0.5), p99: percentile(waits, 0.99) };
}

export async function bytesPerWaitingKey(queue: BenchQueue, redisUrl: string, count: number): Promise<number> {
  const redis = await connectRedis(redisUrl);
  const used = async (): Promise<number> => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
  const before = await used();
  await addRate(queue, count, { bulk: 500, inFlight: 1 });
  const after = await used();
  redis.disconnect();
  return (after - before) / count;
}
