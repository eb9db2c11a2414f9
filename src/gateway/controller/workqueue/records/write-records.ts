import { randomUUID } from 'node:crypto';
import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import type { QueueKeys } from '../queue-keys.ts';

/** A run of a queue. A queue that has lost its data begins its run numbers anew, with another incarnation. */
export interface FencedRun {
  readonly key: string;
  readonly run: number;
  readonly incarnation: string;
}

/** A write that may be sent now. */
export interface BegunWrite {
  readonly id: string;
  /** The deadline of its run. */
  readonly deadlineMs: number;
}

/** The record of a run's writes. */
export interface WriteRecord {
  /** The outcome of each write, or its note while there is no outcome. In no order. */
  readonly writes: readonly string[];
  /** How many further writes there were. */
  readonly more: number;
}

/** Bytes of the outcomes of one run's writes on record: some 400 writes of one object each. */
const MOST_BYTES = 65_536;
/**
 * Fields of one run's record, which the run's end reads at once. Its outcomes take fewer than 1,500 of them, by their
 * bytes, so at least 1,000 writes may be without an outcome.
 */
const MOST_FIELDS = 2500;
/** The record outlives the deadline, so that the run can be settled as lost. */
const KEEP_MS = 60_000;

/**
 * The writes of runs that write through the gateway. A run may begin a write only while it is the run in flight of its
 * key and its writes have not ended. Each method is one script, so any gateway can take any write.
 */
export class WriteRecords {
  readonly #keys: QueueKeys;
  readonly #begin: Script;
  readonly #end: Script;
  readonly #endAll: Script;

  constructor(redis: Redis, keys: QueueKeys) {
    this.#keys = keys;
    this.#begin = loadScript(redis, import.meta.url, 'begin-write');
    this.#end = loadScript(redis, import.meta.url, 'end-write');
    this.#endAll = loadScript(redis, import.meta.url, 'end-writes');
  }

  /**
   * Records that the run is about to write.
   * @param note describes the write until `end` records its outcome.
   * @returns undefined when it may not: it is not in flight, its deadline has passed, or its writes have ended; 'full'
   *   when too many of its writes have no outcome.
   */
  async begin(
    { key, run, incarnation }: FencedRun,
    note: string,
    nowMs: number,
  ): Promise<BegunWrite | 'full' | undefined> {
    const id = randomUUID();
    const args = [run, incarnation, nowMs, id, note, KEEP_MS, MOST_FIELDS, key];
    const deadline = await this.#begin(this.#keys.script, args);
    if (deadline === 'full') return 'full';
    return deadline === '' ? undefined : { id, deadlineMs: Number(deadline) };
  }

  /** @param written replaces the note; undefined: nothing was written. */
  async end({ key, run }: FencedRun, id: string, written: string | undefined): Promise<void> {
    await this.#end([this.#writesOf(key)], [run, id, written ?? '', MOST_BYTES]);
  }

  /**
   * Ends the writes of a run. May be repeated.
   * @param leftMs milliseconds until its deadline, or until its finish must have been recorded.
   */
  async endAll({ key, run }: Pick<FencedRun, 'key' | 'run'>, leftMs: number): Promise<WriteRecord> {
    const keepMs = Math.max(0, Math.ceil(leftMs)) + KEEP_MS;
    const fields = (await this.#endAll([this.#writesOf(key)], [run, keepMs])) as string[];
    const writes: string[] = [];
    let more = 0;
    for (let at = 0; at < fields.length; at += 2) {
      const [name = '', value = ''] = fields.slice(at, at + 2);
      if (name.startsWith('w')) writes.push(value);
      if (name === 'more') more = Number(value);
    }
    return { writes, more };
  }

  #writesOf(key: string): string {
    return this.#keys.writesPrefix + key;
  }
}
