import { loadScript, type Redis, type Script } from '../../../../ground/redis/redis.ts';
import { decodePastRun, isCursor, type PastRun, type RunPage, type RunQuery } from './past-run.ts';
import type { QueueKeys } from '../queue-keys.ts';
import { HISTORY_LENGTH } from '../queue-options.ts';
import type { Sample } from './samples.ts';
import type { QueueHistory } from '../work-queue.ts';

/**
 * How many calls of the script one read makes at most, and how many runs each call returns at most. A call reads up to
 * 128 KiB.
 */
const MOST_CALLS = 128;
const MOST_RUNS = 250;

/** A position in the stream of runs: an entry, and a line of it. */
interface LogPosition {
  readonly id: string;
  readonly line: number;
}

interface Line extends LogPosition {
  readonly text: string;
}

export interface RedisHistoryOptions {
  readonly redis: Redis;
  readonly keys: QueueKeys;
  /** Writes the runs that this gateway has not written yet. */
  readonly flush: () => Promise<void> | undefined;
  readonly samples: () => Promise<readonly Sample[]>;
}

/** Reads the history of runs that `lua/record.lua` and `lua/finish.lua` write. */
export class RedisHistory implements QueueHistory {
  readonly samples: () => Promise<readonly Sample[]>;
  readonly #redis: Redis;
  readonly #keys: QueueKeys;
  readonly #flush: RedisHistoryOptions['flush'];
  readonly #script: Script;

  constructor({ redis, keys, flush, samples }: RedisHistoryOptions) {
    this.samples = samples;
    this.#redis = redis;
    this.#keys = keys;
    this.#flush = flush;
    this.#script = loadScript(redis, import.meta.url, 'runs');
  }

  /** @throws TypeError when a cursor has another form. */
  async runs({ limit, outcome, key, run, reconcileId, before, after }: RunQuery): Promise<RunPage> {
    await this.#flush();
    const newest = await this.#newest();
    if (!newest) return { runs: [] };
    // Runs that are recorded during this call are left out: a caller that follows the runs gets them with its next
    // `after`, and must not get them twice.
    const from = before === undefined ? { ...newest, line: newest.line + 1 } : positionOf(before);
    const last = after === undefined ? OLDEST : positionOf(after);
    // A cursor beyond the newest entry is of an earlier history: a new history counts from 0 again.
    const until = sizeOf(last) > sizeOf(newest) ? OLDEST : last;
    const needles = [
      ...(outcome === undefined ? [] : [`"outcome":"${outcome}"`]),
      ...(key === undefined ? [] : [keyNeedle(key)]),
      ...(run === undefined ? [] : [`"run":${run},`]),
      ...(reconcileId === undefined ? [] : [`"reconcileId":${JSON.stringify(reconcileId)}`]),
    ];
    const { lines, next } = await this.#read({ from, until, limit, needles });
    const runs = lines.flatMap(({ text }) => decodePastRun(text) ?? []);
    return {
      runs: runs.filter(
        (each) =>
          each.outcome === (outcome ?? each.outcome) &&
          each.key === (key ?? each.key) &&
          each.run === (run ?? each.run) &&
          each.reconcileId === (reconcileId ?? each.reconcileId),
      ),
      ...(next ? { next: cursorOf(next) } : {}),
      newest: cursorOf(newest),
    };
  }

  /** The last runs of a key, the newest first: 10 at most. */
  async runsOf(key: string): Promise<readonly PastRun[]> {
    await this.#flush();
    const query = { from: NEWEST, until: OLDEST, limit: HISTORY_LENGTH, needles: [keyNeedle(key)] };
    const [own, { lines }] = await Promise.all([
      this.#redis.lrange(this.#keys.historyPrefix + key, 0, -1),
      this.#read(query),
    ]);
    const texts = [...lines.map(({ text }) => text), ...own];
    const runs = texts.flatMap((text) => decodePastRun(text) ?? []).filter((run) => run.key === key);
    // A failure is in the history of its key and in the history of all keys.
    const once = new Map(runs.map((run) => [`${run.run}/${run.outcome}`, run]));
    return [...once.values()].toSorted(newestFirst).slice(0, HISTORY_LENGTH);
  }

  /**
   * The error of each key's last outcome on record; undefined after a success. Sends one small command for each key, in
   * one round trip.
   */
  lastErrors(keys: readonly string[]): Promise<(string | undefined)[]> {
    return Promise.all(
      keys.map(async (key) => {
        const text = await this.#redis.lindex(this.#keys.historyPrefix + key, 0);
        return text === null ? undefined : decodePastRun(text)?.error;
      }),
    );
  }

  async #newest(): Promise<LogPosition | undefined> {
    const { lines } = await this.#call(NEWEST, { until: OLDEST, limit: 1, needles: [] });
    return lines[0];
  }

  async #read({ from, limit, ...query }: Query & { from: LogPosition }): Promise<Lines> {
    const lines: Line[] = [];
    let next: LogPosition | undefined = from;
    for (let calls = 0; next && lines.length < limit && calls < MOST_CALLS; calls += 1) {
      const found: Lines = await this.#call(next, { ...query, limit: Math.min(MOST_RUNS, limit - lines.length) });
      lines.push(...found.lines);
      next = found.next;
    }
    return { lines, next };
  }

  async #call(from: LogPosition, { until, limit, needles }: Query): Promise<Lines> {
    const args = [from.id, from.line, until.id, until.line, limit, ...needles];
    const [found, id, line] = (await this.#script([this.#keys.recent], args)) as [(string | number)[], string, number];
    const lines: Line[] = [];
    for (let at = 0; at < found.length; at += 3) {
      lines.push({ id: `${found[at]}`, line: Number(found[at + 1]), text: `${found[at + 2]}` });
    }
    return { lines, next: id === '' ? undefined : { id, line } };
  }
}

interface Query {
  readonly until: LogPosition;
  readonly limit: number;
  readonly needles: readonly string[];
}

interface Lines {
  readonly lines: readonly Line[];
  /** Where a further call begins: below this line. */
  readonly next: LogPosition | undefined;
}

/** The end of a run sorts as newer than its earlier entries, even within one millisecond. */
function newestFirst(one: PastRun, other: PastRun): number {
  const isEnd = ({ outcome }: PastRun): number => (outcome === 'accepted' || outcome === 'unknown' ? 0 : 1);
  return other.atMs - one.atMs || other.run - one.run || isEnd(other) - isEnd(one);
}

/** The text that only lines of this key contain, because JSON escapes the quotes within other texts of a line. */
function keyNeedle(key: string): string {
  return `"key":${JSON.stringify(key)}`;
}

const NEWEST: LogPosition = { id: '+', line: 0 };
const OLDEST: LogPosition = { id: '-', line: 0 };

/** Entries have the IDs `<number>-1`. */
function cursorOf({ id, line }: LogPosition): string {
  return `${id.split('-')[0]}.${line}`;
}

/** The size of all entries before this one, which is its ID (`lua/record.lua`). NaN for `OLDEST`. */
function sizeOf({ id }: LogPosition): number {
  return Number.parseInt(id, 10);
}

function positionOf(cursor: string): LogPosition {
  if (!isCursor(cursor)) throw new TypeError('the cursor is not one of a page of runs');
  const [id = '', line = ''] = cursor.split('.');
  return { id: `${id}-1`, line: Number(line) };
}
