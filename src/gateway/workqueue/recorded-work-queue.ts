import { type Clock, type Logger, messageOf, type Metrics } from '../../core/index.ts';
import { GroupCommit } from './group-commit.ts';
import type { Jobs } from './jobs.ts';
import { Poller } from './poller.ts';
import type { QueueOptions } from './queue-options.ts';
import type { Inspector, Records } from './records.ts';
import { Runner } from './runner.ts';
import { Upkeep } from './upkeep.ts';
import type {
  Finish,
  Hold,
  HoldScope,
  KeyList,
  KeyPage,
  KeyStatus,
  LowReason,
  Process,
  QueuedKey,
  WorkQueue,
} from './work-queue.ts';

export interface RecordedWorkQueueOptions extends QueueOptions {
  /** The controller's name. */
  readonly name: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

export interface WorkQueueParts {
  readonly records: Records;
  readonly inspector: Inspector;
  readonly jobs: Jobs;
}

/**
 * A work queue made of two halves: `jobs` hold what is to run now and give it to one of the gateways; `records` hold
 * everything that has a time (requeue, backoff, deadline) and everything that must be true of a key (one run at a time,
 * failures, barrier, holds). Where the halves live is the implementations' business.
 */
export abstract class RecordedWorkQueue implements WorkQueue {
  readonly name: string;
  readonly #options: RecordedWorkQueueOptions;
  readonly #records: Records;
  readonly #inspector: Inspector;
  readonly #jobs: Jobs;
  #poller: Poller | undefined;
  /** How many runs had started when that was last seen to change. */
  #lastStart: { readonly count: number; readonly atMs: number } | undefined;
  #runner: Runner | undefined;
  #ended = false;
  readonly #ending = new AbortController();
  /** Keys whose jobs must not end here, since it is not on record what becomes of them. */
  readonly #unended = new Set<string>();
  readonly #adds: GroupCommit<readonly QueuedKey[], undefined>;
  readonly #inFlight = new Set<Promise<void>>();
  /** Present while paused: runs wait here before their start. */
  #gate: { readonly opened: Promise<void>; readonly open: () => void } | undefined;

  constructor(options: RecordedWorkQueueOptions, { records, inspector, jobs }: WorkQueueParts) {
    this.name = options.name;
    this.#options = options;
    this.#records = records;
    this.#inspector = inspector;
    this.#jobs = jobs;
    this.#adds = new GroupCommit(async (adds) => {
      const keys = adds.flat();
      // Both on one connection, the note first and so before the jobs: a job is nothing without it.
      const noted = records.note(keys, options.clock.now());
      const added = options.debounce ? undefined : jobs.add([...new Set(keys.map(({ key }) => key))]);
      await Promise.all([noted, added]);
      return adds.map(() => undefined);
    });
  }

  abstract obliterate(): Promise<void>;

  async add(keys: readonly QueuedKey[]): Promise<void> {
    if (keys.length === 0) return;
    const { clock, debounce, metrics } = this.#options;
    await this.#adds.submit(keys);
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

  async settle(key: string, run: number, finish: Exclude<Finish, { kind: 'unknown' }>): Promise<boolean> {
    const { clock } = this.#options;
    if (this.#runner) return this.#runner.finish({ key, run, finish });
    const [finished] = await this.#records.finishAll([{ key, run, finish }], clock.now());
    return finished?.current ?? false;
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
    return this.#records.drop(keys, this.#options.clock.now());
  }

  async counts(): Promise<{ waiting: number; running: number }> {
    const [waiting, running] = await Promise.all([this.#jobs.waiting(), this.#records.running()]);
    return { waiting, running };
  }

  async oldestDueMs(): Promise<number | undefined> {
    const now = this.#options.clock.now();
    const sinceMs = await this.#inspector.oldestDue(now);
    return sinceMs === undefined ? undefined : now - sinceMs;
  }

  async standstillMs(): Promise<number> {
    const { clock, concurrency } = this.#options;
    const [oldestMs = 0, running, started] = await Promise.all([
      this.oldestDueMs(),
      this.#records.running(),
      this.#records.started(),
    ]);
    const nowMs = clock.now();
    if (started !== this.#lastStart?.count) this.#lastStart = { count: started, atMs: nowMs };
    return running < concurrency ? Math.min(oldestMs, nowMs - this.#lastStart.atMs) : 0;
  }

  async start(process: Process): Promise<void> {
    if (this.#runner || this.#ended) return;
    const { name, concurrency, timeoutMs, maxBatch = 1, clock, logger, metrics } = this.#options;
    const records = this.#records;
    const addJobs = (keys: readonly string[]): Promise<void> => this.#jobs.add(keys);
    const missing = (keys: readonly string[]): Promise<readonly string[]> => this.#jobs.missing(keys);
    const upkeep = new Upkeep({ name, records, process, addJobs, missing, clock, logger, metrics });
    const poller = new Poller({ records, process, addJobs, concurrency, upkeep, clock, logger });
    const gate = {
      ending: this.#ending.signal,
      opened: (): Promise<boolean> => this.#opened(),
      closed: (): boolean => this.#gate !== undefined,
    };
    const track = (work: Promise<unknown>): void => void this.#track(work);
    const wake = (atMs: number): void => poller.wake(atMs);
    const ports = { clock, logger, metrics };
    this.#runner = new Runner({ name, records, process, timeoutMs, maxBatch, ...ports, ...gate, track, wake });
    this.#poller = poller;
    if (this.#gate) this.#jobs.pause();
    await this.#jobs.start((key) => this.#work(key));
    if (!this.#gate) this.#poller.start();
  }

  pause(): void {
    if (this.#gate) return;
    let open = (): void => {};
    const opened = new Promise<void>((resolve) => (open = resolve));
    this.#gate = { opened, open };
    // Redis may be away, so nothing here waits for it. The gate holds whatever is still handed out.
    this.#poller?.stop().catch((error: unknown) => this.#warn(error, 'poller'));
    this.#jobs.pause();
  }

  resume(): void {
    // One that has stopped stays so: another queue may go on under its name.
    if (!this.#gate || this.#ended) return;
    this.#gate.open();
    this.#gate = undefined;
    this.#jobs.resume();
    this.#poller?.start();
  }

  async stop(drainMs: number): Promise<void> {
    const { clock } = this.#options;
    const wasPaused = this.#gate !== undefined;
    this.#ended = true;
    // From here on no run starts, whatever is still handed out.
    this.pause();
    this.#gate?.open();
    this.#ending.abort();
    const limit = new AbortController();
    const end = clock.sleep(drainMs, limit.signal);
    await Promise.race([this.#drained(), end]);
    limit.abort();
    // What is still running is cut off: its run stays on record and is settled by whoever takes over.
    await this.#jobs.close(wasPaused || this.#inFlight.size > 0 || this.#unended.size > 0);
  }

  /** Waits while this gateway is paused. @returns false when it has ended. */
  async #opened(): Promise<boolean> {
    while (this.#gate && !this.#ended) await this.#gate.opened;
    return !this.#ended;
  }

  /**
   * Never throws for what a run may do wrong. Ends with the job only if what becomes of the key is on record: a job
   * that has not ended is given to another gateway.
   */
  async #work(key: string): Promise<void> {
    // Not in flight while it waits here: a stop need not wait for it.
    const open = await this.#opened();
    await this.#track(open ? this.#take(key) : this.#handOver(key));
    if (this.#unended.has(key)) await new Promise(() => {});
  }

  async #take(key: string): Promise<void> {
    // Told of while this is in flight still, so that a stop knows.
    if (this.#runner && !(await this.#runner.take(key))) this.#unended.add(key);
  }

  /**
   * Handed out when this gateway was about to end. As a timer it is due for the gateways that are left, and the job may
   * end.
   */
  async #handOver(key: string): Promise<void> {
    try {
      await this.#records.addTimer(key, this.#options.clock.now());
    } catch (error) {
      this.#unended.add(key);
      throw error;
    }
  }

  /** Redis or the apiserver may fail in the middle: a run in flight is on record and is settled at its deadline. */
  async #track(work: Promise<unknown>): Promise<void> {
    const run = work.then(
      () => undefined,
      (error: unknown) => this.#warn(error, 'run'),
    );
    this.#inFlight.add(run);
    await run;
    this.#inFlight.delete(run);
  }

  /** A run that ends leaves its finish behind. */
  async #drained(): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.all(this.#inFlight);
  }

  #warn(error: unknown, part: string): void {
    this.#options.logger.warn({ controller: this.name, part, error: messageOf(error) }, 'work queue trouble');
  }
}
