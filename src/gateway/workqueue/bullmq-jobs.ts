import { Queue, Worker } from 'bullmq';
import { type Clock, type Logger, messageOf } from '../../core/index.ts';
import type { Redis } from '../redis/redis.ts';
import type { QueueKeys } from './queue-keys.ts';

export interface BullMqJobsOptions {
  readonly redis: Redis;
  readonly keys: QueueKeys;
  readonly name: string;
  readonly concurrency: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

type KeysJob = { keys: readonly string[] };

/** Keys in one job: a job costs as much as ten keys, and a gateway takes few jobs ahead. */
const JOB_KEYS = 25;
/** More jobs than these are not read: `keysOfJobs`. */
const READABLE_JOBS = 10_000;

/**
 * The keys that are ready to run and wait for a slot. Gives each job to one of the gateways. A job only carries its
 * keys: their records decide what may be done with them, so a lost job delays its keys and a repeated one does nothing.
 *
 * Do not use BullMQ's deduplication, delays, priorities, attempts or custom job ids: each of them loses wakeups, or
 * costs more than the job (ADR 0002).
 */
export class BullMqJobs {
  readonly #options: BullMqJobsOptions;
  readonly #queue: Queue<KeysJob>;
  #worker: Worker<KeysJob> | undefined;
  /** When an error was last logged, by its text. */
  readonly #logged = new Map<string, number>();
  #suspended = false;

  constructor(options: BullMqJobsOptions) {
    const { name, keys, redis } = options;
    this.#options = options;
    this.#queue = new Queue<KeysJob>(name, {
      connection: redis,
      prefix: keys.prefix,
      // Each add writes the events stream. The gateway does not read it, and BullMQ has no switch to turn it off.
      streams: { events: { maxLen: 100 } },
    });
    this.#queue.on('error', (error) => this.#warn(error, 'queue'));
  }

  get bullmq(): Queue {
    return this.#queue;
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
   * The keys of all jobs that wait or that a gateway has. Undefined when so many jobs wait that reading them would cost
   * more than it helps: a key without a job would run late in any case.
   */
  async keysOfJobs(): Promise<ReadonlySet<string> | undefined> {
    const { redis, keys } = this.#options;
    if ((await redis.llen(keys.waiting)) > READABLE_JOBS) return undefined;
    // Waiting jobs first: one that a gateway takes meanwhile is found among those that it has.
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
   * Begins to give the keys of jobs to `work`, which does not throw. A job is out until its promise ends: one that
   * never does is given to another gateway after a `close` by force.
   */
  async start(work: (keys: readonly string[]) => Promise<void>): Promise<void> {
    const { redis, keys, name, concurrency } = this.#options;
    this.#worker = new Worker<KeysJob>(name, (job) => work(keysOf(job.data)), {
      connection: redis,
      prefix: keys.prefix,
      // As many keys as there are slots, and one job more.
      concurrency: Math.ceil(concurrency / JOB_KEYS) + 1,
      // A job ends when its keys have started. It is given to another gateway when this one has gone silent.
      lockDuration: 4000,
      stalledInterval: 4000,
      // How long one blocking read waits; an add ends it. The longest that BullMQ takes, for the sake of idle queues.
      drainDelay: 10,
      // A job whose gateway died is taken up again however often that happens; our records decide what it may do.
      maxStalledCount: 1_000_000_000,
    });
    this.#worker.on('error', (error) => this.#warn(error, 'worker'));
    if (this.#suspended) await this.#worker.pause(true);
  }

  /** Gives nothing to this gateway until `unsuspend`; one or two may still come. Does not wait for anything. */
  suspend(): void {
    this.#suspended = true;
    this.#worker?.pause(true).catch((error: unknown) => this.#warn(error, 'worker'));
  }

  unsuspend(): void {
    this.#suspended = false;
    this.#worker?.resume().catch((error: unknown) => this.#warn(error, 'worker'));
  }

  /** @param force do not wait for keys that are out: another gateway gets them later. */
  async close(force: boolean): Promise<void> {
    await this.#worker?.close(force);
    await this.#queue.close();
    this.#worker = undefined;
  }

  #warn(error: unknown, part: string): void {
    const { logger, name, clock } = this.#options;
    const text = messageOf(error);
    // A worker that is refused a job asks for the next one at once.
    if (clock.now() - (this.#logged.get(text) ?? -Infinity) < LOG_AGAIN_MS) return;
    if (this.#logged.size > 100) this.#logged.clear();
    this.#logged.set(text, clock.now());
    logger.warn({ controller: name, part, error: text }, 'a part of the work queue failed');
  }
}

/** The same error is logged again after this. */
const LOG_AGAIN_MS = 10_000;

const JOB_OPTIONS = { removeOnComplete: true, removeOnFail: true, attempts: 1 } as const;

/** The keys of a job: none of one that was not added here. */
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
