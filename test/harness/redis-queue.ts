import { type Clock, type Logger, silentLogger, silentMetrics } from '../../src/core/index.ts';
import { connectRedis, type Redis } from '../../src/gateway/cache/redis.ts';
import { BullMqWorkQueue } from '../../src/gateway/workqueue/bullmq-work-queue.ts';
import { queueKeys, type QueueKeys } from '../../src/gateway/workqueue/queue-keys.ts';
import { uniqueName } from './levelhook.ts';

export interface OpenQueue {
  readonly concurrency?: number;
  readonly timeoutMs?: number;
}

/** One queue in Redis that nobody else has, and any number of gateways on it. */
export class RedisQueueFixture {
  readonly redis: Redis;
  readonly clock: Clock;
  readonly scope = { keyPrefix: uniqueName('test'), clusterId: 'c', name: 'controller' };
  readonly keys: QueueKeys = queueKeys(this.scope);
  /** Lines of level warn and error: the queue is never in trouble unless a test makes it so. */
  readonly troubles: string[] = [];
  readonly #opened: { queue: BullMqWorkQueue; redis: Redis }[] = [];
  readonly #url: string;

  private constructor(url: string, redis: Redis, clock: Clock) {
    this.#url = url;
    this.redis = redis;
    this.clock = clock;
  }

  static async create(url: string, clock: Clock): Promise<RedisQueueFixture> {
    return new RedisQueueFixture(url, await connectRedis(url), clock);
  }

  /** One more gateway: with a connection of its own, as in a process of its own. */
  async open({ concurrency = 4, timeoutMs = 15_000 }: OpenQueue = {}): Promise<BullMqWorkQueue> {
    const redis = await connectRedis(this.#url);
    const { clock, scope } = this;
    const logger = noting(this.troubles);
    const queue = new BullMqWorkQueue({
      redis,
      ...scope,
      concurrency,
      timeoutMs,
      clock,
      logger,
      metrics: silentMetrics,
    });
    this.#opened.push({ queue, redis });
    return queue;
  }

  /** What is to run, now or ever. */
  async pending(): Promise<number> {
    const { waiting, timers, flights, backlog, prefix } = this.keys;
    const bullmq = `${prefix}:${this.scope.name}`;
    const counts = await Promise.all([
      this.redis.llen(waiting),
      this.redis.llen(`${bullmq}:active`),
      this.redis.zcard(`${bullmq}:delayed`),
      this.redis.zcard(`${bullmq}:prioritized`),
      this.redis.zcard(timers),
      this.redis.zcard(flights),
      this.redis.zcard(backlog),
    ]);
    return counts.reduce((sum, count) => sum + count);
  }

  /** The names of this queue's keys in Redis, without the common prefix, in order. */
  async names(): Promise<string[]> {
    const { prefix } = this.keys;
    const found: string[] = [];
    for await (const keys of this.redis.scanStream({ match: `${prefix}:*`, count: 1000 }) as AsyncIterable<string[]>) {
      found.push(...keys);
    }
    return [...new Set(found)].map((name) => name.slice(prefix.length + 1)).toSorted();
  }

  async close(): Promise<void> {
    const [first] = this.#opened;
    for (const { queue } of this.#opened) await queue.stop(0);
    await first?.queue.obliterate();
    for (const { redis } of this.#opened) redis.disconnect();
    this.redis.disconnect();
  }
}

function noting(lines: string[]): Logger {
  const note = (fields: object, message: string): number => lines.push(`${message} ${JSON.stringify(fields)}`);
  return { ...silentLogger, warn: note, error: note, child: () => noting(lines) };
}
