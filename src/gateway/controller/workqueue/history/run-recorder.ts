import { hostname } from 'node:os';
import { type Clock, type Logger, messageOf, TokenBucket } from '../../../../core/index.ts';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import { type EndedRun, encodeRun } from './past-run.ts';
import type { QueueKeys } from '../queue-keys.ts';
import type { Finished } from '../records/records.ts';

export interface RunRecorderOptions {
  readonly name: string;
  readonly redis: Redis;
  readonly keys: QueueKeys;
  /** How many runs of all keys the history holds. */
  readonly historyRuns: number;
  /** Whether Redis has no memory for a history now. Each write then keeps the newest entry only. */
  readonly isLeftOut: () => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * The size of one entry, in runs and in bytes. Entries are small, so that old runs leave the history in small steps.
 */
const ENTRY_RUNS = 64;
const ENTRY_LENGTH = 16_384;
/**
 * Runs are written after this time, or as soon as they have this length. Each write breaks up the groups of starts and
 * finishes.
 */
const WRITE_AFTER_MS = 250;
const WRITE_LENGTH = 262_144;
/**
 * Runs that ended well fill the history in this time at least; further runs are counted but not recorded. In a burst
 * the first runs are recorded, up to half of a history.
 */
const FILL_SECONDS = 10;
const BURST_SHARE = 0.5;
/** Bounds the runs that ended well and keep their log, because a run with a log takes the room of up to six. */
const LOGS = { perSecond: 5, burst: 100 };
/** The most bytes of UTF-8 for one code unit of a JavaScript string. */
const MOST_BYTES = 3;
const LINE_FEED = 10;
const NO_BYTES = Buffer.alloc(0);

/**
 * Writes the runs that this gateway has finished to the history, several with one command. It never delays a run: it
 * waits for no answer, and drops runs that Redis refuses. A gateway that is killed loses the runs of the last 250 ms
 * from the history. Of many runs a second it leaves out some that ended well or were not sent at the first attempt, and
 * records how many.
 */
export class RunRecorder {
  readonly #options: RunRecorderOptions;
  readonly #script: Script;
  readonly #gateway = JSON.stringify(hostname());
  /** Entries that are full: number of runs, lines. */
  #full: (number | Buffer)[] = [];
  #length = 0;
  /**
   * The lines of the entry that is being filled, as bytes. Single strings would live until they are written, and cost
   * the garbage collector more than they cost to make.
   */
  #entry = NO_BYTES;
  #end = 0;
  #runs = 0;
  #written: Promise<void> = Promise.resolve();
  #timing = false;
  /** Limits the recorded runs that have nothing else to report. */
  readonly #room: TokenBucket;
  readonly #logs: TokenBucket;
  #leftOut = 0;
  readonly #stopped = new AbortController();

  constructor(options: RunRecorderOptions) {
    this.#options = options;
    this.#script = loadScript(options.redis, import.meta.url, 'record');
    const { historyRuns, clock } = options;
    const rate = { perSecond: historyRuns / FILL_SECONDS, burst: historyRuns * BURST_SHARE };
    this.#room = new TokenBucket(rate, () => clock.now());
    this.#logs = new TokenBucket(LOGS, () => clock.now());
  }

  /** Records a run whose finish Redis has answered. */
  record(ended: EndedRun, { current, dead }: Pick<Finished, 'current' | 'dead'>): void {
    if (!current) return;
    const { finish } = ended;
    const ordinary = isOrdinary(ended);
    if (ordinary && !this.#room.take()) {
      this.#leftOut += 1;
      return;
    }
    const withLog = !ordinary || (finish.kind === 'ended' && finish.log !== undefined && this.#logs.take());
    const line = dead && finish.kind === 'ended' ? { ...ended, finish: { ...finish, dead } } : ended;
    this.#append(encodeRun(line, this.#gateway, this.#leftOut, withLog));
    this.#leftOut = 0;
    if (this.#runs >= ENTRY_RUNS) this.#endEntry();
    if (this.#length >= WRITE_LENGTH || this.#stopped.signal.aborted) void this.write();
    else if (!this.#timing) void this.#writeSoon();
  }

  /** Writes the recorded runs. Resolves when Redis has stored or refused them; never rejects. */
  write(): Promise<void> {
    this.#endEntry();
    if (this.#full.length > 0) {
      const entries = this.#full;
      [this.#full, this.#length] = [[], 0];
      this.#written = this.#write(entries);
    }
    return this.#written;
  }

  /** From now on each run is written at once. */
  stop(): Promise<void> {
    this.#stopped.abort();
    return this.write();
  }

  #append(line: string): void {
    const most = MOST_BYTES * line.length;
    if (this.#end + 1 + most > this.#entry.length) {
      this.#endEntry();
      this.#entry = Buffer.allocUnsafe(Math.max(ENTRY_LENGTH, most));
    }
    if (this.#runs > 0) this.#entry[this.#end++] = LINE_FEED;
    this.#end += this.#entry.write(line, this.#end);
    this.#runs += 1;
  }

  #endEntry(): void {
    if (this.#runs === 0) return;
    this.#full.push(this.#runs, this.#entry.subarray(0, this.#end));
    this.#length += this.#end;
    [this.#runs, this.#end, this.#entry] = [0, 0, NO_BYTES];
  }

  async #write(entries: readonly (number | Buffer)[]): Promise<void> {
    const { name, keys, historyRuns, isLeftOut, logger } = this.#options;
    try {
      await this.#script(keys.script, [isLeftOut() ? 1 : historyRuns, ...entries]);
    } catch (error) {
      logger.debug({ controller: name, error: messageOf(error) }, 'runs could not be added to the history');
    }
  }

  async #writeSoon(): Promise<void> {
    this.#timing = true;
    await this.#options.clock.sleep(WRITE_AFTER_MS, this.#stopped.signal);
    this.#timing = false;
    void this.write();
  }
}

/** The first attempt ended well or was not sent, so there is nothing else to report. */
function isOrdinary({ finish, attempt, lost }: EndedRun): boolean {
  if (finish.kind !== 'ended' || finish.dead || attempt !== 1 || lost) return false;
  return finish.failures === 'forget' || finish.sent === false;
}
