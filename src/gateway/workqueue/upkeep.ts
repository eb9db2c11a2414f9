import { type Clock, type Logger, messageOf, type Metrics } from '../../core/index.ts';
import type { Resting } from './records.ts';
import type { RedisRecords } from './redis-records.ts';
import type { Process } from './run.ts';

export interface UpkeepOptions {
  readonly name: string;
  readonly records: RedisRecords;
  readonly process: Process;
  readonly hand: (keys: readonly string[]) => Promise<void>;
  /** The keys of all jobs; undefined when there are too many jobs to read. */
  readonly keysOfJobs: () => Promise<ReadonlySet<string> | undefined>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** A key that is ready and has not been started for this long is looked for: most are started at once. */
export const MISSED_AFTER_MS = 30_000;
/** The same after this gateway was suspended: an answer that told it of ready keys may have been lost. */
const MISSED_SOON_MS = 1000;
/** From one look at all such keys to the next, and at keys at rest: a little less than a number of idle looks. */
const LOOK_AGAIN_MS = 9000;
const REST_AGAIN_MS = 29_000;
/**
 * Between the parts of one look: many keys may wait for good reason, and asking about them must not delay the rest.
 */
const NEXT_PART_MS = 50;
const PART = 500;
/** A barrier is asked about when its key has rested for this long. */
export const REST_MS = 60_000;

/**
 * Repairs a queue in the background, in pieces: keys that are recorded as queued but have lost their job,
 * are given a new one; and of keys at rest whose barrier has passed nothing is kept.
 */
export class Upkeep {
  readonly #options: UpkeepOptions;
  /** Where the look at queued keys has got to. */
  #cursor = '0';
  #nextLookMs = 0;
  #nextRestMs = 0;
  #missedAfterMs = MISSED_SOON_MS;
  /** Counts the looks that began anew: one that is under way must not end a later one. */
  #looks = 0;
  /** As read for the look that has begun. */
  #jobs: ReadonlySet<string> | undefined;

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  /** The next look begins in a second, and looks at all keys. */
  lookSoon(nowMs: number): void {
    this.#looks += 1;
    this.#cursor = '0';
    this.#missedAfterMs = MISSED_SOON_MS;
    this.#nextLookMs = nowMs + MISSED_SOON_MS;
  }

  /**
   * One piece of each, if it is time. Never throws.
   * @returns when to go on; undefined: at the next look there is anyway.
   */
  async look(nowMs: number): Promise<number | undefined> {
    let more = false;
    if (nowMs >= this.#nextLookMs) {
      this.#nextLookMs = nowMs + LOOK_AGAIN_MS;
      await this.#attempt('jobs', async () => {
        if (!(await this.#addMissing(nowMs))) return;
        this.#nextLookMs = nowMs + NEXT_PART_MS;
        more = true;
      });
    }
    if (nowMs >= this.#nextRestMs) {
      this.#nextRestMs = nowMs + REST_AGAIN_MS;
      await this.#attempt('barriers', async () => {
        if (!(await this.#forgetPassed(nowMs))) return;
        this.#nextRestMs = nowMs + NEXT_PART_MS;
        more = true;
      });
    }
    if (more) return nowMs + NEXT_PART_MS;
    return this.#missedAfterMs === MISSED_SOON_MS ? this.#nextLookMs : undefined;
  }

  /** @returns whether there is more to look at. */
  async #addMissing(nowMs: number): Promise<boolean> {
    const { name, records, hand, keysOfJobs, logger, metrics } = this.#options;
    const from = this.#cursor;
    const look = this.#looks;
    const read = (): ReturnType<RedisRecords['queuedBefore']> =>
      records.queuedBefore(nowMs - this.#missedAfterMs, from, PART);
    if (from === '0') this.#jobs = undefined;
    let { keys, cursor } = await read();
    if (keys.length > 0 && !this.#jobs) {
      this.#jobs = await keysOfJobs();
      // Jobs before keys: a key whose job has ended meanwhile has started.
      ({ keys, cursor } = await read());
    }
    const jobs = this.#jobs;
    const lost = jobs ? keys.filter((key) => !jobs.has(key)) : [];
    if (lost.length > 0) {
      logger.warn({ controller: name, keys: lost.length }, 'queued keys had lost their jobs, adding them again');
      metrics.count('levelhook_lost_jobs_total', { controller: name }, lost.length);
      await hand(lost);
    }
    if (look !== this.#looks) return false;
    this.#cursor = cursor;
    if (cursor !== '0') return true;
    this.#missedAfterMs = MISSED_AFTER_MS;
    this.#jobs = undefined;
    return false;
  }

  async #forgetPassed(nowMs: number): Promise<boolean> {
    const { records } = this.#options;
    const resting = await records.restingBefore(nowMs - REST_MS, PART);
    const passed = await Promise.all(resting.map(({ barrier }) => this.#passed(barrier)));
    await records.forgetBarriers(resting.filter((_, at) => passed[at]));
    // The others are asked about later, and do not stand in the way of those behind them.
    await records.postpone(
      'resting',
      nowMs,
      resting.filter((_, at) => !passed[at]),
    );
    return resting.length === PART;
  }

  async #passed(barrier: Resting['barrier']): Promise<boolean> {
    const { name, process, logger } = this.#options;
    try {
      return barrier === undefined || (await process.passed(barrier));
    } catch (error) {
      // The other keys at rest must not stay because one barrier could not be checked.
      const fields = { controller: name, error: messageOf(error) };
      logger.warn(fields, 'the barrier of a key at rest could not be checked, trying again');
      return false;
    }
  }

  async #attempt(part: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { logger, name } = this.#options;
      logger.warn({ controller: name, part, error: messageOf(error) }, 'upkeep of the queue failed, trying again');
    }
  }
}
