import { randomUUID } from 'node:crypto';
import { Queue, Worker } from 'bullmq';
import { type Clock, type Logger, messageOf, type Metrics } from '../../core/index.ts';
import type { Incarnated } from '../cache/incarnation.ts';
import { type Redis, unlinkAll } from '../cache/redis.ts';
import { Inspector } from './inspector.ts';
import { KeyRecords } from './key-record.ts';
import { Poller } from './poller.ts';
import { queueKeys, type QueueKeys } from './queue-keys.ts';
import { FLIGHT_MARGIN_MS, type QueueOptions } from './queue-options.ts';
import { Runner } from './runner.ts';
import type {
  Hold,
  HoldScope,
  KeyList,
  KeyPage,
  KeyStatus,
  Known,
  LowReason,
  Process,
  QueuedKey,
  WorkQueue,
} from './work-queue.ts';

export interface BullMqWorkQueueOptions extends QueueOptions {
  /** For commands; the Worker opens a second connection for its blocking read. */
  readonly redis: Redis;
  readonly keyPrefix: string;
  readonly clusterId: string;
  /** The controller's name. */
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

type KeyJob = { key: string };

/** What is kept of a queue as a whole. */
export interface QueueState {
  readonly incarnation: string | undefined;
  readonly runId: string | undefined;
  /** The hash under which all keys were queued once. */
  readonly initial: string | undefined;
  /** When all keys are queued again. */
  readonly resyncAtMs: number | undefined;
}

/**
 * The work queue on BullMQ. BullMQ holds what is to run now and gives it to one of the gateways; `keepLastIfActive` is
 * client-go's dirty set. Everything that has a time (requeue, backoff, deadline) and everything that must hold for a
 * key (one run at a time, failures, barrier) lives in our records beside it: no option of BullMQ keeps those promises.
 */
export class BullMqWorkQueue implements WorkQueue, Incarnated {
  readonly name: string;
  readonly #options: BullMqWorkQueueOptions;
  readonly #keys: QueueKeys;
  readonly #records: KeyRecords;
  readonly #inspector: Inspector;
  readonly #queue: Queue<KeyJob>;
  #worker: Worker<KeyJob> | undefined;
  #poller: Poller | undefined;
  #runner: Runner | undefined;
  readonly #flying = new Set<Promise<void>>();
  #waitingAtGate = 0;
  /** Present while paused: runs wait here before their start. */
  #gate: { readonly opened: Promise<void>; readonly open: () => void } | undefined;

  constructor(options: BullMqWorkQueueOptions) {
    this.name = options.name;
    this.#options = options;
    this.#keys = queueKeys(options);
    this.#records = new KeyRecords(options.redis, this.#keys, options);
    this.#inspector = new Inspector(options.redis, this.#keys, this.name);
    this.#queue = new Queue<KeyJob>(this.name, {
      connection: options.redis,
      prefix: this.#keys.prefix,
      // Each add writes the events stream, which nobody reads, and there is no switch to turn it off.
      streams: { events: { maxLen: 100 } },
    });
    this.#queue.on('error', (error) => this.#warn(error, 'queue'));
  }

  /** For the dashboard, which shows BullMQ's own view of the jobs. */
  get bullmq(): Queue {
    return this.#queue;
  }

  async add(keys: readonly QueuedKey[]): Promise<void> {
    if (keys.length === 0) return;
    const { clock, debounce, metrics } = this.#options;
    // Both on one connection, the note first and so before the job: the job is nothing without it.
    const noted = this.#records.note(keys, clock.now());
    const added = debounce ? Promise.resolve() : this.#addJobs(keys.map(({ key }) => key));
    await Promise.all([noted, added]);
    if (debounce) this.#poller?.wake(clock.now() + debounce.windowMs);
    metrics.count('workqueue_adds_total', { name: this.name }, keys.length);
  }

  async addLow(keys: readonly string[], reason: LowReason): Promise<void> {
    await this.#records.addToBacklog(keys, this.#options.clock.now(), reason);
    this.#poller?.wake();
    this.#options.metrics.count('workqueue_adds_total', { name: this.name }, keys.length);
  }

  async addAfter(key: string, ms: number): Promise<void> {
    const atMs = this.#options.clock.now() + Math.max(0, ms);
    await this.#records.addTimer(key, atMs);
    this.#poller?.wake(atMs);
  }

  async settle(key: string, run: number, finish: Known): Promise<boolean> {
    const { clock } = this.#options;
    if (this.#runner) return this.#runner.finish({ key, run, finish });
    return this.#records.finish(key, run, finish, clock.now());
  }

  async hold(scope: HoldScope, untilMs?: number): Promise<void> {
    await this.#records.hold(scope, this.#options.clock.now(), untilMs);
    if (untilMs !== undefined) this.#poller?.wake(untilMs);
  }

  async release(scope: HoldScope): Promise<void> {
    await this.#records.release(scope);
    this.#poller?.wake();
  }

  holds(): Promise<readonly Hold[]> {
    return this.#inspector.holds();
  }

  status(key: string): Promise<KeyStatus> {
    return this.#inspector.status(key);
  }

  list(list: KeyList, page: { readonly offset: number; readonly limit: number }): Promise<KeyPage> {
    return this.#inspector.list(list, page);
  }

  drop(keys: readonly string[]): Promise<number> {
    return this.#records.drop(keys);
  }

  async start(process: Process): Promise<void> {
    if (this.#worker) return;
    const { redis, concurrency, timeoutMs, maxBatch = 1, clock, logger, metrics } = this.#options;
    const addJobs = (keys: readonly string[]): Promise<void> => this.#addJobs(keys);
    const poller = new Poller({ records: this.#records, process, addJobs, concurrency, clock, logger });
    this.#runner = new Runner({
      ...{ name: this.name, records: this.#records, process, timeoutMs, maxBatch, clock, metrics },
      closed: () => this.#gate !== undefined,
      wake: (atMs) => poller.wake(atMs),
    });
    await this.#queue.setGlobalConcurrency(concurrency);
    this.#worker = new Worker<KeyJob>(this.name, (job) => this.#work(job.data.key), {
      connection: redis,
      prefix: this.#keys.prefix,
      concurrency,
      lockDuration: lockMs(timeoutMs),
      stalledInterval: STALLED_INTERVAL_MS,
      // A job whose gateway died is taken up again however often that happens; our records decide what it may do.
      maxStalledCount: 1_000_000_000,
    });
    this.#worker.on('error', (error) => this.#warn(error, 'worker'));
    this.#poller = poller;
    if (this.#gate) await this.#worker.pause(true);
    else this.#poller.start();
  }

  pause(): void {
    if (this.#gate) return;
    let open = (): void => {};
    const opened = new Promise<void>((resolve) => (open = resolve));
    this.#gate = { opened, open };
    // Redis may be away, so nothing here waits for it. The gate holds whatever BullMQ still hands out.
    this.#poller?.stop().catch((error: unknown) => this.#warn(error, 'poller'));
    this.#worker?.pause(true).catch((error: unknown) => this.#warn(error, 'worker'));
  }

  resume(): void {
    if (!this.#gate) return;
    this.#gate.open();
    this.#gate = undefined;
    this.#worker?.resume().catch((error: unknown) => this.#warn(error, 'worker'));
    this.#poller?.start();
  }

  async stop(drainMs: number): Promise<void> {
    const { clock } = this.#options;
    const wasPaused = this.#gate !== undefined;
    // From here on no run starts, whatever BullMQ still hands out.
    this.pause();
    const limit = new AbortController();
    const end = clock.sleep(drainMs, limit.signal);
    await Promise.race([Promise.all(this.#flying), end]);
    limit.abort();
    // What is still running is cut off: its flight stays on record and is settled by whoever takes over. A job that waits
    // at the gate is left to BullMQ, which hands it out again.
    await this.#worker?.close(wasPaused || this.#flying.size > 0 || this.#waitingAtGate > 0);
    await this.#queue.close();
    this.#worker = undefined;
    this.#poller = undefined;
  }

  async counts(): Promise<{ waiting: number; running: number }> {
    const [waiting, running] = await Promise.all([
      this.#options.redis.llen(this.#keys.waiting),
      this.#records.running(),
    ]);
    return { waiting, running };
  }

  async obliterate(): Promise<void> {
    await unlinkAll(this.#options.redis, `${this.#keys.prefix}:`);
  }

  async state(): Promise<QueueState> {
    const fields = ['incarnation', 'runId', 'initial', 'resyncAt'] as const;
    const [incarnation, runId, initial, resyncAt] = await this.#options.redis.hmget(this.#keys.queue, ...fields);
    return {
      incarnation: incarnation ?? undefined,
      runId: runId ?? undefined,
      initial: initial ?? undefined,
      resyncAtMs: resyncAt ? Number(resyncAt) : undefined,
    };
  }

  async renew(runId: string): Promise<void> {
    // Kept by Redis, and so lost with the rest.
    await this.#queue.setGlobalConcurrency(this.#options.concurrency);
    await this.#options.redis.hset(this.#keys.queue, { incarnation: randomUUID(), runId });
  }

  /** Remembers that all keys of the controller have been queued once, under this hash of what it depends on. */
  async setInitial(initial: string): Promise<void> {
    await this.#options.redis.hset(this.#keys.queue, 'initial', initial);
  }

  async setResyncAt(atMs: number): Promise<void> {
    await this.#options.redis.hset(this.#keys.queue, 'resyncAt', atMs);
  }

  async #addJobs(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return;
    const jobs = keys.map((key) => ({
      name: 'reconcile',
      data: { key },
      opts: {
        removeOnComplete: true,
        removeOnFail: true,
        attempts: 1,
        deduplication: { id: key, keepLastIfActive: true },
      },
    }));
    await this.#queue.addBulk(jobs);
  }

  /** BullMQ's processor: never throws for what a run may do wrong, so that the job always ends as completed. */
  async #work(key: string): Promise<void> {
    // Not in flight while it waits here: a stop need not wait for it, and another gateway takes the job up.
    this.#waitingAtGate += 1;
    while (this.#gate) await this.#gate.opened;
    this.#waitingAtGate -= 1;
    if (!this.#runner) return;
    const work = this.#runner.take(key);
    this.#flying.add(work);
    try {
      await work;
    } catch (error) {
      // Redis or the apiserver failed in the middle. A run in flight is on record and is settled at its deadline.
      this.#warn(error, 'run');
    } finally {
      this.#flying.delete(work);
    }
  }

  #warn(error: unknown, part: string): void {
    this.#options.logger.warn({ controller: this.name, part, error: messageOf(error) }, 'work queue trouble');
  }
}

const STALLED_INTERVAL_MS = 2000;

/**
 * How long BullMQ leaves a job to a gateway that has gone silent. Over by the time that its runs are, so that a killed
 * gateway's slots are free when its keys may run again. A lock lost too early costs one idle job and nothing else.
 */
function lockMs(timeoutMs: number): number {
  return Math.min(Math.max(timeoutMs + FLIGHT_MARGIN_MS - STALLED_INTERVAL_MS, 2000), 10_000);
}
