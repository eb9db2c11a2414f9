import { messageOf, type Runtime } from '../../../../core/index.ts';
import type { BarrierChecks } from './barrier-checks.ts';
import type { OwnRuns } from '../records/own-runs.ts';
import type { RedisRecords } from '../records/redis-records.ts';
import type { RunGate } from './run-gate.ts';

export interface UpkeepOptions {
  readonly name: string;
  readonly records: RedisRecords;
  readonly barriers: Pick<BarrierChecks, 'passed'>;
  readonly ownRuns: Pick<OwnRuns, 'goingOn' | 'oldestGoingOn' | 'compare'>;
  /** While it is closed Redis may lack records. */
  readonly gate: Pick<RunGate, 'closed'>;
  /** Called with keys that are ready to run and have no job. */
  readonly onReady: (keys: readonly string[]) => Promise<void>;
  /** See `BullMqJobs`. */
  readonly keysOfJobs: () => Promise<ReadonlySet<string> | undefined>;
  readonly runtime: Pick<Runtime, 'logger' | 'metrics'>;
}

/** A key that has been ready for this long may have lost its job. */
const LOST_AFTER_MS = 30_000;
/** The same after this gateway was suspended: the answer that named ready keys may have been lost. */
const LOST_SOON_AFTER_MS = 1000;
/**
 * The least time between two checks of all ready keys, or of all runs that go on, and of all keys at rest. A little
 * less than two and six idle ticks of the poller, which calls the checks.
 */
const JOBS_INTERVAL_MS = 9000;
const RUNS_INTERVAL_MS = 9000;
const IDLE_INTERVAL_MS = 29_000;
/** Between two pages of one check: many keys may wait for a slot, and the check must not delay other work. */
const PAGE_INTERVAL_MS = 50;
const PAGE_SIZE = 500;
/** A barrier is checked when its key has rested for this long. */
const REST_MS = 60_000;

/**
 * Repairs a queue in the background, one page of keys at a time. A ready key that has lost its job starts or gets a new
 * job. The record of a key at rest whose barrier has passed is deleted. A run of this gateway whose end another gateway
 * has recorded is forgotten.
 */
export class Upkeep {
  readonly #options: UpkeepOptions;
  /** The cursor of the check of ready keys that is under way. */
  #cursor = '0';
  #nextJobsMs = 0;
  #nextIdleMs = 0;
  #nextRunsMs = 0;
  /** How many runs the check of runs that go on has not looked at. */
  #runsLeft = 0;
  #lostAfterMs = LOST_SOON_AFTER_MS;
  /** Counts the calls of `checkSoon`: a page that was read before the call must not continue the new check. */
  #restarts = 0;
  /** The keys of all jobs, read at the start of the check. */
  #jobs: ReadonlySet<string> | undefined;

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** Starts a new check of all ready keys in a second. */
  checkSoon(nowMs: number): void {
    this.#restarts += 1;
    this.#cursor = '0';
    this.#lostAfterMs = LOST_SOON_AFTER_MS;
    this.#nextJobsMs = nowMs + LOST_SOON_AFTER_MS;
  }

  /**
   * Handles one page of each check that is due. Never throws.
   * @returns when to call it next; undefined: with the poller's next tick.
   */
  async run(nowMs: number): Promise<number | undefined> {
    let more = false;
    if (nowMs >= this.#nextJobsMs) {
      this.#nextJobsMs = nowMs + JOBS_INTERVAL_MS;
      await this.#attempt('jobs', async () => {
        if (!(await this.#addLost(nowMs))) return;
        this.#nextJobsMs = nowMs + PAGE_INTERVAL_MS;
        more = true;
      });
    }
    if (nowMs >= this.#nextIdleMs) {
      this.#nextIdleMs = nowMs + IDLE_INTERVAL_MS;
      await this.#attempt('barriers', async () => {
        if (!(await this.#forgetPassed(nowMs))) return;
        this.#nextIdleMs = nowMs + PAGE_INTERVAL_MS;
        more = true;
      });
    }
    if (nowMs >= this.#nextRunsMs) {
      this.#nextRunsMs = nowMs + RUNS_INTERVAL_MS;
      await this.#attempt('runs', async () => {
        if (!(await this.#forgetEnded())) return;
        this.#nextRunsMs = nowMs + PAGE_INTERVAL_MS;
        more = true;
      });
    }
    if (more) return nowMs + PAGE_INTERVAL_MS;
    return this.#lostAfterMs === LOST_SOON_AFTER_MS ? this.#nextJobsMs : undefined;
  }

  /** @returns whether the check has further pages. */
  async #addLost(nowMs: number): Promise<boolean> {
    const { name, records, onReady, keysOfJobs, runtime } = this.#options;
    const { logger, metrics } = runtime;
    const from = this.#cursor;
    const restarts = this.#restarts;
    const read = (): ReturnType<RedisRecords['queuedBefore']> =>
      records.queuedBefore(nowMs - this.#lostAfterMs, from, PAGE_SIZE);
    if (from === '0') this.#jobs = undefined;
    let { keys, cursor } = await read();
    if (keys.length > 0 && !this.#jobs) {
      this.#jobs = await keysOfJobs();
      // Read the keys after the jobs: a key whose job has ended in between has started, and is not in this page.
      ({ keys, cursor } = await read());
    }
    const jobs = this.#jobs;
    const lost = jobs ? keys.filter((key) => !jobs.has(key)) : [];
    if (lost.length > 0) {
      logger.warn({ controller: name, keys: lost.length }, 'queued keys had lost their jobs, adding them again');
      metrics.count('levelhook_lost_jobs_total', { controller: name }, lost.length);
      await onReady(lost);
    }
    if (restarts !== this.#restarts) return false;
    this.#cursor = cursor;
    if (cursor !== '0') return true;
    this.#lostAfterMs = LOST_AFTER_MS;
    this.#jobs = undefined;
    return false;
  }

  async #forgetPassed(nowMs: number): Promise<boolean> {
    const { records, barriers } = this.#options;
    const idle = await records.idleBefore(nowMs - REST_MS, PAGE_SIZE);
    const passed = await Promise.all(idle.map(({ barrier }) => barriers.passed(barrier)));
    await records.forgetBarriers(idle.filter((_, at) => passed[at]));
    // The other keys move to the end of the set, so that the next page has different keys.
    await records.postpone(
      'idle',
      nowMs,
      idle.filter((_, at) => !passed[at]),
    );
    return idle.length > 0;
  }

  /** @returns whether the check has further pages. */
  async #forgetEnded(): Promise<boolean> {
    const { records, ownRuns, gate } = this.#options;
    if (this.#runsLeft <= 0) this.#runsLeft = ownRuns.goingOn;
    const runs = ownRuns.oldestGoingOn(PAGE_SIZE);
    if (runs.length === 0) return false;
    const recorded = await records.runsOf(runs.map(({ key }) => key));
    // The connection broke during the question: another process may have answered, which lacks records.
    if (gate.closed) return false;
    ownRuns.compare(runs, recorded);
    this.#runsLeft -= runs.length;
    return runs.length === PAGE_SIZE && this.#runsLeft > 0;
  }

  async #attempt(part: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { name, runtime } = this.#options;
      runtime.logger.warn(
        { controller: name, part, error: messageOf(error) },
        'upkeep of the queue failed, trying again',
      );
    }
  }
}
