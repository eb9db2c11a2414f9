import { randomUUID } from 'node:crypto';
import type { Queue } from 'bullmq';
import type { Incarnated } from '../cache/incarnation.ts';
import { type Redis, unlinkAll } from '../cache/redis.ts';
import { BullMqJobs } from './bullmq-jobs.ts';
import { queueKeys, type QueueKeys } from './queue-keys.ts';
import { RecordedWorkQueue, type RecordedWorkQueueOptions } from './recorded-work-queue.ts';
import { RedisInspector } from './redis-inspector.ts';
import { RedisRecords } from './redis-records.ts';

export interface BullMqWorkQueueOptions extends RecordedWorkQueueOptions {
  /** For commands; the Worker opens a second connection for its blocking read. */
  readonly redis: Redis;
  readonly keyPrefix: string;
  readonly clusterId: string;
}

/** What is kept of a queue as a whole. */
export interface QueueState {
  readonly incarnation: string | undefined;
  readonly runId: string | undefined;
  /** The hash under which all keys were queued once. */
  readonly initial: string | undefined;
  /** When all keys are queued again. */
  readonly resyncAtMs: number | undefined;
}

/** The work queue in Redis: BullMQ holds the jobs, scripts of ours guard the records. */
export class BullMqWorkQueue extends RecordedWorkQueue implements Incarnated {
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #jobs: BullMqJobs;

  constructor(options: BullMqWorkQueueOptions) {
    const { redis } = options;
    const keys = queueKeys(options);
    const jobs = new BullMqJobs({ ...options, keys });
    super(options, {
      records: new RedisRecords(redis, keys, options),
      inspector: new RedisInspector(redis, keys),
      jobs,
    });
    this.#redis = redis;
    this.#keys = keys;
    this.#jobs = jobs;
  }

  /** For the dashboard, which shows BullMQ's own view of the jobs. */
  get bullmq(): Queue {
    return this.#jobs.bullmq;
  }

  override async obliterate(): Promise<void> {
    await unlinkAll(this.#redis, `${this.#keys.prefix}:`);
  }

  async state(): Promise<QueueState> {
    const fields = ['incarnation', 'runId', 'initial', 'resyncAt'] as const;
    const [incarnation, runId, initial, resyncAt] = await this.#redis.hmget(this.#keys.queue, ...fields);
    return {
      incarnation: incarnation ?? undefined,
      runId: runId ?? undefined,
      initial: initial ?? undefined,
      resyncAtMs: resyncAt ? Number(resyncAt) : undefined,
    };
  }

  async renew(runId: string): Promise<void> {
    // Kept by Redis, and so lost with the rest.
    await this.#jobs.shareConcurrency();
    await this.#redis.hset(this.#keys.queue, { incarnation: randomUUID(), runId });
  }

  /** Remembers that all keys of the controller have been queued once, under this hash of what it depends on. */
  async setInitial(initial: string): Promise<void> {
    await this.#redis.hset(this.#keys.queue, 'initial', initial);
  }

  async setResyncAt(atMs: number): Promise<void> {
    await this.#redis.hset(this.#keys.queue, 'resyncAt', atMs);
  }
}
