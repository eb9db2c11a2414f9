import { hostname } from 'node:os';
import { type Clock, type Logger, messageOf } from '../../core/index.ts';
import { loadScript, type Redis, type Script } from '../redis/redis.ts';
import { type EndedRun, encodeRun } from './past-run.ts';
import type { QueueKeys } from './queue-keys.ts';
import type { Finished } from './records.ts';

export interface RunRecorderOptions {
  readonly name: string;
  readonly redis: Redis;
  readonly keys: QueueKeys;
  /** How many runs of all keys the history holds. */
  readonly historyRuns: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Of one entry: small enough that old runs leave the history in small steps. */
const ENTRY_RUNS = 64;
const ENTRY_LENGTH = 16_384;
/** Runs are written after this, or when they are so long. Each write breaks up the groups of starts and finishes. */
const WRITE_AFTER_MS = 250;
const WRITE_LENGTH = 262_144;

/**
 * Writes the runs that this gateway has finished to the history, several with one command, and never in the way of a
 * run: it waits for no answer, and drops what Redis refuses. A gateway that is killed loses the runs of the last 250 ms
 * from the history.
 */
export class RunRecorder {
  readonly #options: RunRecorderOptions;
  readonly #script: Script;
  readonly #gateway = hostname();
  /** Entries that are full: number of runs, text. */
  #full: (string | number)[] = [];
  #length = 0;
  #text = '';
  #runs = 0;
  #written: Promise<void> = Promise.resolve();
  #timing = false;
  readonly #end = new AbortController();

  constructor(options: RunRecorderOptions) {
    this.#options = options;
    this.#script = loadScript(options.redis, import.meta.url, 'record');
  }

  /** A finish has been answered. */
  record(ended: EndedRun, { current, dead }: Pick<Finished, 'current' | 'dead'>): void {
    if (!current) return;
    const { finish } = ended;
    const line = dead && finish.kind === 'known' ? { ...ended, finish: { ...finish, dead } } : ended;
    this.#text += `${this.#runs > 0 ? '\n' : ''}${encodeRun(line, this.#gateway)}`;
    this.#runs += 1;
    if (this.#runs >= ENTRY_RUNS || this.#text.length >= ENTRY_LENGTH) this.#endEntry();
    if (this.#length >= WRITE_LENGTH || this.#end.signal.aborted) void this.write();
    else if (!this.#timing) void this.#writeSoon();
  }

  /** Writes what has been recorded. Resolves when Redis has it or has refused it; never rejects. */
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
    this.#end.abort();
    return this.write();
  }

  #endEntry(): void {
    if (this.#runs === 0) return;
    this.#full.push(this.#runs, this.#text);
    this.#length += this.#text.length;
    [this.#runs, this.#text] = [0, ''];
  }

  async #write(entries: readonly (string | number)[]): Promise<void> {
    const { name, keys, historyRuns, logger } = this.#options;
    try {
      await this.#script([keys.recent, keys.queue], [historyRuns, ...entries]);
    } catch (error) {
      logger.debug({ controller: name, error: messageOf(error) }, 'runs could not be added to the history');
    }
  }

  async #writeSoon(): Promise<void> {
    this.#timing = true;
    await this.#options.clock.sleep(WRITE_AFTER_MS, this.#end.signal);
    this.#timing = false;
    void this.write();
  }
}
