import { Queue, Worker } from 'bullmq';
import { type Clock, type Logger, messageOf } from '../../core/index.ts';
import { loadScript, type Redis, type Script } from '../redis/redis.ts';
import type { QueueKeys } from './queue-keys.ts';
import { RUN_MARGIN_MS } from './queue-options.ts';

export interface BullMqJobsOptions {
  readonly redis: Redis;
  readonly keys: QueueKeys;
  readonly name: string;
  readonly concurrency: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

type KeyJob = { key: string };

/**
 * The keys that can run now. Gives each added key to one of the gateways, as many at a time as the queue's concurrency
 * allows. A waiting key is given once; a key that is added while its job is active is given once more.
 *
 * The deduplication option `keepLastIfActive` is client-go's dirty set. Do not use BullMQ's delays, priorities,
 * attempts or custom job ids, because each of them loses wakeups (ADR 0002).
 */
export class BullMqJobs {
  readonly #options: BullMqJobsOptions;
  readonly #queue: Queue<KeyJob>;
  #worker: Worker<KeyJob> | undefined;
  readonly #missing: Script;
  /** When an error was last logged, by its text. */
  readonly #logged = new Map<string, number>();
  #suspended = false;

  constructor(options: BullMqJobsOptions) {
    const { name, keys, redis } = options;
    this.#options = options;
    this.#missing = loadScript(redis, import.meta.url, 'missing');
    this.#queue = new Queue<KeyJob>(name, {
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

  /** Resolves when they cannot be lost any more. */
  async add(keys: readonly string[]): Promise<void> {
    const [first, ...others] = keys;
    if (first === undefined) return;
    if (others.length === 0) await this.#queue.add('reconcile', { key: first }, jobOptions(first));
    else await this.#queue.addBulk(keys.map((key) => ({ name: 'reconcile', data: { key }, opts: jobOptions(key) })));
  }

  /** Which of these keys it neither has nor has given out, so that an add is due. */
  async missing(keys: readonly string[]): Promise<readonly string[]> {
    if (keys.length === 0) return [];
    const { bullmqPrefix, waiting, active } = this.#options.keys;
    return (await this.#missing([bullmqPrefix, waiting, active], keys)) as string[];
  }

  /**
   * Begins to give keys to `work`, which does not throw. A key is out until its promise ends: one that never does is
   * given to another gateway after a `close` by force.
   */
  async start(work: (key: string) => Promise<void>): Promise<void> {
    const { redis, keys, name, concurrency, timeoutMs } = this.#options;
    await this.shareConcurrency();
    this.#worker = new Worker<KeyJob>(name, (job) => work(job.data.key), {
      connection: redis,
      prefix: keys.prefix,
      concurrency,
      lockDuration: lockMs(timeoutMs),
      stalledInterval: stalledMs(timeoutMs),
      // How long one blocking read waits; an add ends it. The longest that BullMQ takes, for the sake of idle queues.
      drainDelay: 10,
      // A job whose gateway died is taken up again however often that happens; our records decide what it may do.
      maxStalledCount: 1_000_000_000,
    });
    this.#worker.on('error', (error) => this.#warn(error, 'worker'));
    if (this.#suspended) await this.#worker.pause(true);
  }

  /** The concurrency over all gateways is kept by Redis, and so lost with the rest. */
  async shareConcurrency(): Promise<void> {
    await this.#queue.setGlobalConcurrency(this.#options.concurrency);
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

  /** Keys that wait to be given. */
  waiting(): Promise<number> {
    return this.#options.redis.llen(this.#options.keys.waiting);
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

function jobOptions(key: string) {
  const deduplication = { id: key, keepLastIfActive: true };
  return { removeOnComplete: true, removeOnFail: true, attempts: 1, deduplication };
}

/**
 * How long BullMQ leaves a job to a gateway that has gone silent: it takes two looks to find it. Over by the time that
 * its runs are, so that a killed gateway's slots are free when its keys may run again. A lock lost too early costs one
 * idle job and nothing else.
 */
function lockMs(timeoutMs: number): number {
  return Math.min(Math.max(timeoutMs + RUN_MARGIN_MS - 2 * stalledMs(timeoutMs), 2000), 10_000);
}

/** How often a gateway looks for such jobs: rarely, since at rest this is most of what a queue costs. */
function stalledMs(timeoutMs: number): number {
  return Math.min(Math.max(timeoutMs / 4, 1000), 4000);
}
