import { type Clock, type Logger, messageOf } from '../../../../core/index.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import { countDuration, type Histogram, type Percentiles, percentilesOf } from './histogram.ts';
import type { QueueKeys } from '../queue-keys.ts';

/** The length of an interval, and how many of them a reader gets: an hour. */
export const SAMPLE_MS = 30_000;
export const SAMPLES = 120;
/** The ring has more places than are read, so that no interval shares its place with an interval that is read. */
const KEPT = 128;

/** The activity of a queue in one interval, over all gateways. */
export interface Sample {
  /** When the interval began. Milliseconds since the epoch. */
  readonly atMs: number;
  /** Runs that ended, whatever the outcome. */
  readonly runs: number;
  /** Of these, runs that failed or whose outcome is unknown. */
  readonly failed: number;
  /** From the first add of a key to the start of its run. Absent when no run began after an add. */
  readonly waitedMs?: Percentiles;
  /** Duration of a run as the queue sees it. Absent when no run ended. */
  readonly tookMs?: Percentiles;
  /** Keys that waited to run, low-priority keys included, at the end. Absent when no gateway had a reason to look. */
  readonly waiting?: number;
  /** Runs in flight at the end. Absent as `waiting` is. */
  readonly running?: number;
}

/** The counts of one gateway in an interval. */
interface Counts {
  runs: number;
  failed: number;
  readonly waited: Histogram;
  readonly took: Histogram;
}

/** The samples of the last hour in Redis: each gateway adds its counts to those of the others. */
export class RedisSamples {
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #script: Script;

  constructor(redis: Redis, keys: QueueKeys) {
    this.#redis = redis;
    this.#keys = keys;
    this.#script = loadScript(redis, import.meta.url, 'sample');
  }

  /**
   * Adds counts to those of the other gateways; the intervals are in order.
   * @returns how many keys wait or run.
   */
  async add(counts: readonly (readonly [interval: number, counts: Counts])[]): Promise<number> {
    const args = counts.flatMap(([interval, each]) => [interval, JSON.stringify(each)]);
    return (await this.#script(this.#keys.script, [KEPT, ...args])) as number;
  }

  /** The intervals of the last hour that have ended, the oldest first; always `SAMPLES`. */
  async read(nowMs: number): Promise<readonly Sample[]> {
    const found = new Map<number, Partial<Counts & { waiting: number; running: number }>>();
    for (const text of await this.#redis.hvals(this.#keys.samples)) {
      const sample = JSON.parse(text) as Counts & { interval: number };
      found.set(sample.interval, sample);
    }
    const now = intervalOf(nowMs);
    return Array.from({ length: SAMPLES }, (_, at): Sample => {
      const interval = now - SAMPLES + at;
      const { runs = 0, failed = 0, waited = {}, took = {}, waiting, running } = found.get(interval) ?? {};
      const [waitedMs, tookMs] = [percentilesOf(waited), percentilesOf(took)];
      return {
        atMs: interval * SAMPLE_MS,
        runs,
        failed,
        ...(waitedMs ? { waitedMs } : {}),
        ...(tookMs ? { tookMs } : {}),
        ...(waiting === undefined ? {} : { waiting }),
        ...(running === undefined ? {} : { running }),
      };
    });
  }
}

export interface SamplerOptions {
  readonly name: string;
  readonly samples: Pick<RedisSamples, 'add'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Counts the runs of this gateway, and writes the counts at the end of each interval. While keys wait or run it writes
 * even without new counts. For an idle queue it does nothing and sets no timer.
 */
export class Sampler {
  readonly #options: SamplerOptions;
  readonly #counts = new Map<number, Counts>();
  readonly #end = new AbortController();
  #looping = false;
  /** Whether keys may wait or run, so that this interval must be written. */
  #touched = false;

  constructor(options: SamplerOptions) {
    this.#options = options;
  }

  /** Must be called when keys may wait: this interval is then written at its end. */
  touch(): void {
    this.#touched = true;
    if (!this.#looping && !this.#end.signal.aborted) void this.#loop();
  }

  started(waitedMs: number): void {
    countDuration(this.#current().waited, waitedMs);
  }

  ended(tookMs: number, hasFailed: boolean): void {
    const counts = this.#current();
    counts.runs += 1;
    if (hasFailed) counts.failed += 1;
    countDuration(counts.took, tookMs);
  }

  /** Writes the counts that are not written yet, without waiting for Redis, which may be away. */
  stop(): void {
    if (this.#end.signal.aborted) return;
    this.#end.abort();
    if (this.#counts.size > 0) void this.#write(Infinity);
  }

  #current(): Counts {
    const interval = intervalOf(this.#options.clock.now());
    let counts = this.#counts.get(interval);
    if (!counts) {
      counts = { runs: 0, failed: 0, waited: {}, took: {} };
      this.#counts.set(interval, counts);
      this.touch();
    }
    return counts;
  }

  async #loop(): Promise<void> {
    this.#looping = true;
    const { clock } = this.#options;
    const { signal } = this.#end;
    while (this.#touched && !signal.aborted) {
      const endMs = (intervalOf(clock.now()) + 1) * SAMPLE_MS;
      await clock.sleep(endMs - clock.now(), signal);
      if (signal.aborted) break;
      this.#touched = false;
      const ended = intervalOf(clock.now());
      if (!this.#counts.has(ended - 1)) this.#counts.set(ended - 1, { runs: 0, failed: 0, waited: {}, took: {} });
      const waiting = await this.#write(ended);
      if (waiting > 0 || this.#counts.size > 0) this.#touched = true;
    }
    this.#looping = false;
  }

  /** Writes the counts of the intervals before this one. Never rejects. @returns how many keys wait or run. */
  async #write(before: number): Promise<number> {
    const { samples, name, logger } = this.#options;
    const counts = [...this.#counts].filter(([interval]) => interval < before);
    for (const [interval] of counts) this.#counts.delete(interval);
    // More intervals have passed only while Redis was away.
    const last = counts.toSorted(([one], [other]) => one - other).slice(-SAMPLES);
    try {
      return await samples.add(last);
    } catch (error) {
      logger.debug({ controller: name, error: messageOf(error) }, 'the samples of a queue could not be written');
      return 0;
    }
  }
}

function intervalOf(ms: number): number {
  return Math.floor(ms / SAMPLE_MS);
}
