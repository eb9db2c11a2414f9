import { Queue, Worker } from 'bullmq';
import type { Redis } from '../../../../ground/redis/redis.ts';
import type { QueueKeys } from '../queue-keys.ts';

export interface BullMqJobsOptions {
  readonly redis: Redis;
  readonly keys: QueueKeys;
  readonly name: string;
  readonly concurrency: number;
  /** A worker whose read fails tries again at once, so the same error may come many times. */
  readonly onError: (error: unknown, part: 'queue' | 'worker') => void;
}

/** The jobs of a queue in BullMQ, as tools for BullMQ show them. */
export interface BullMqLists {
  /** A tool for BullMQ finds the queue by this name and this prefix. */
  readonly queue: string;
  readonly prefix: string;
  /** Jobs by the name of their list, such as `waiting` or `active`. */
  readonly jobs: Readonly<Record<string, number>>;
}

type KeysJob = { keys: readonly string[] };

/** Keys in one job. A job costs as much as ten keys, and a gateway must not take many keys before it has slots. */
const JOB_KEYS = 25;
/**
 * With more waiting jobs, `keysOfJobs` reads none of them: the keys of all are in this process for a moment, and a
 * tenant decides how long they are.
 */
const MAX_JOBS_TO_READ = 1000;

/**
 * Jobs of BullMQ with the keys that are ready to run and wait for a slot. BullMQ gives each job to one of the gateways.
 * A job carries nothing but keys. The records decide whether a key may start, so a lost job only delays its keys, and a
 * repeated job has no effect.
 *
 * Do not use BullMQ's deduplication, delays, priorities, attempts or custom job ids: each of them loses wakeups, or
 * costs more than the job (ADR 0002).
 */
export class BullMqJobs {
  readonly #options: BullMqJobsOptions;
  readonly #queue: Queue<KeysJob>;
  #worker: Worker<KeysJob> | undefined;
  #takes: JobsTaken = 'all';
  #paceFactor = 1;

  constructor(options: BullMqJobsOptions) {
    const { name, keys, redis, onError } = options;
    this.#options = options;
    this.#queue = new Queue<KeysJob>(name, {
      connection: redis,
      prefix: keys.prefix,
      // `recordSettings` writes them.
      skipMetasUpdate: true,
      // Each add writes the events stream. The gateway does not read it, and BullMQ has no switch to turn it off.
      streams: { events: { maxLen: 100 } },
    });
    this.#queue.on('error', (error) => onError(error, 'queue'));
  }

  /** Counts the jobs in each of BullMQ's lists, as BullMQ counts them. */
  async lists(): Promise<BullMqLists> {
    const { name, keys } = this.#options;
    return { queue: name, prefix: keys.prefix, jobs: await this.#queue.getJobCounts() };
  }

  /**
   * Writes the metadata of the queue, without which BullMQ keeps 10,000 events. `QueueRecord.renew` calls it for each
   * incarnation of the queue. BullMQ itself writes it in the constructor of `Queue`, which is not enough, because Redis
   * may lose it later, and a controller that is removed at once would leave it behind.
   */
  async recordSettings(): Promise<void> {
    await this.#queue.backend.setQueueMeta(this.#queue.metaValues);
  }

  async add(keys: readonly string[]): Promise<void> {
    const jobs: { name: string; data: KeysJob; opts: typeof JOB_OPTIONS }[] = [];
    for (let at = 0; at < keys.length; at += JOB_KEYS) {
      jobs.push({ name: 'keys', data: { keys: keys.slice(at, at + JOB_KEYS) }, opts: JOB_OPTIONS });
    }
    const [first, ...others] = jobs;
    if (others.length > 0) await this.#queue.addBulk(jobs);
    else if (first) await this.#queue.add(first.name, first.data, first.opts);
  }

  /**
   * The keys of all waiting and active jobs. Undefined when too many jobs wait to read them all. A key that has lost
   * its job loses little then, because the keys in these jobs wait as long.
   */
  async keysOfJobs(): Promise<ReadonlySet<string> | undefined> {
    const { redis, keys } = this.#options;
    if ((await redis.llen(keys.waiting)) > MAX_JOBS_TO_READ) return undefined;
    // Waiting jobs first: a job that becomes active between the reads is then in the second list.
    const waiting = await redis.lrange(keys.waiting, 0, -1);
    const ids = [...waiting, ...(await redis.lrange(keys.active, 0, -1))];
    const found = new Set<string>();
    for (let at = 0; at < ids.length; at += 500) {
      const part = ids.slice(at, at + 500);
      const data = await Promise.all(part.map((id) => redis.hget(keys.bullmqPrefix + id, 'data')));
      for (const text of data) for (const key of keysIn(text)) found.add(key);
    }
    return found;
  }

  /**
   * Starts the worker, which calls `work` with the keys of each job. `work` must not throw. The job is active until the
   * promise of `work` resolves. Until then no other gateway gets it, unless this one ends.
   */
  async start(work: (keys: readonly string[]) => Promise<void>): Promise<void> {
    const { redis, keys, name, concurrency } = this.#options;
    this.#worker = new Worker<KeysJob>(name, (job) => work(keysOf(job.data)), {
      connection: redis,
      prefix: keys.prefix,
      concurrency: jobsAtOnce(concurrency),
      // The worker renews its locks. When this gateway has stopped, another gateway gets its jobs after 4 to 8 s, and
      // later if the other gateway has many queues.
      lockDuration: 4000,
      ...this.#intervals(),
      // A job may stall any number of times: the records decide whether its keys may start.
      maxStalledCount: 1_000_000_000,
    });
    this.#worker.on('error', (error) => {
      if (!LOST_LOCK.test(error.message)) this.#options.onError(error, 'worker');
    });
    this.#worker.concurrency = this.#takes === 'one' ? 1 : jobsAtOnce(concurrency);
    if (this.#takes === 'none') await this.#worker.pause(true);
  }

  /** Makes the intervals of an idle queue longer by this factor. Default 1. */
  pace(factor: number): void {
    this.#paceFactor = factor;
    // BullMQ reads these options before each wait.
    if (this.#worker) Object.assign(this.#worker.opts, this.#intervals());
  }

  #intervals(): { stalledInterval: number; drainDelay: number } {
    return {
      stalledInterval: 4000 * this.#paceFactor,
      // Seconds that one blocking read waits. An add ends the read, so a long wait delays no key and saves commands of
      // queues at rest. BullMQ allows no more, because it notices a silently broken connection only after the read.
      drainDelay: 10,
    };
  }

  /** Sets how many jobs this gateway takes at a time. After `none` one or two jobs may still come. Returns at once. */
  take(jobs: JobsTaken): void {
    if (jobs === this.#takes) return;
    this.#takes = jobs;
    if (this.#worker) this.#worker.concurrency = jobs === 'one' ? 1 : jobsAtOnce(this.#options.concurrency);
    if (jobs === 'none') this.#worker?.pause(true).catch((error: unknown) => this.#options.onError(error, 'worker'));
    else setImmediate(() => this.#resume());
  }

  /**
   * Trap: BullMQ's worker does not start again when it is resumed in the turn of the event loop in which its paused
   * loop ends.
   */
  #resume(): void {
    if (this.#takes === 'none') return;
    this.#worker?.resume().catch((error: unknown) => this.#options.onError(error, 'worker'));
  }

  /** @param force whether to leave active jobs to other gateways, which get them when the jobs have stalled. */
  async close(force: boolean): Promise<void> {
    await this.#worker?.close(force);
    await this.#queue.close();
    this.#worker = undefined;
  }
}

/** How many jobs a gateway takes at a time. */
export type JobsTaken = 'all' | 'one' | 'none';

/** Enough jobs for as many keys as there are slots, and one more. */
function jobsAtOnce(concurrency: number): number {
  return Math.ceil(concurrency / JOB_KEYS) + 1;
}

/**
 * BullMQ's errors about a job whose lock this gateway has lost, because its process or Redis stood still for seconds
 * (BullMQ's classes/lock-manager.ts and finished-errors.ts). Another gateway gets the job, and the records decide
 * whether its keys may start: nothing is wrong.
 */
const LOST_LOCK = /^(could not renew lock|Missing lock|Lock mismatch) for job /;

const JOB_OPTIONS = { removeOnComplete: true, removeOnFail: true, attempts: 1 } as const;

/** The keys of a job; empty if another program has added it. */
function keysOf(data: unknown): readonly string[] {
  const { keys } = (data ?? {}) as { keys?: unknown };
  return Array.isArray(keys) ? keys.filter((key) => typeof key === 'string') : [];
}

function keysIn(text: string | null): readonly string[] {
  try {
    return text === null ? [] : keysOf(JSON.parse(text));
  } catch {
    return [];
  }
}
