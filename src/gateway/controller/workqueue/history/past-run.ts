import { textWithin } from '../../../../core/index.ts';
import type { Reason } from '../../../../contract/index.ts';
import { ERROR_BYTES } from '../queue-options.ts';
import type { Ended, Finish, WriteSummary } from '../run.ts';

/**
 * The outcome of a run, or its latest known state:
 *
 * - `done`: the run is finished. `requeue`: done, and the function asked for another run later.
 * - `deferred`: the function asked for a later run (429 or 503) before it did anything.
 * - `not-sent`: the gateway sent no trigger: the function is starting or its circuit is open, the gateway could not
 *   read the positions of its views or lacks a related kind, or the controller has lost the key's namespace.
 * - `failed`: an error; the key backs off. `dead`: the key became a dead letter.
 * - `accepted`: the run goes on after a 202. A second entry of the same run has its end.
 * - `unknown`: no answer shows the outcome. An entry `lost` of the same run follows at its deadline.
 * - `lost`: the deadline passed without an outcome; counts as a failure.
 */
export type PastOutcome = (typeof RUN_OUTCOMES)[number];
export const RUN_OUTCOMES = [
  'done',
  'requeue',
  'deferred',
  'not-sent',
  'failed',
  'dead',
  'accepted',
  'unknown',
  'lost',
] as const;

/** One entry of the history of runs. All texts are bounded; error and messages come from functions and are hostile. */
export interface PastRun {
  readonly outcome: PastOutcome;
  readonly key: string;
  /** The fencing number. */
  readonly run: number;
  /** When the outcome was known. Milliseconds since the epoch, as all times here. */
  readonly atMs: number;
  /** How long the run took until then. Absent when the gateway that started the run did not settle it. */
  readonly tookMs?: number;
  /** From the first add of the key to the start. Absent when a timer alone started the run. */
  readonly waitedMs?: number;
  /**
   * The part of `waitedMs` since the key began to wait until the cache shows the writes of its run before. Absent when
   * it did not wait for that.
   */
  readonly heldMs?: number;
  /**
   * For how long the cache may have lacked a change when the trigger was sent, at most: the apiserver says once in a
   * minute or so that nothing of a kind at rest has changed. Absent when the gateway does not know.
   */
  readonly cacheAgeMs?: number;
  /** 1 for the first run since the key last succeeded. Absent for the end of an accepted run. */
  readonly attempt?: number;
  /** The host name of the gateway that recorded this: in a cluster the name of its pod. */
  readonly gateway?: string;
  /** Identifies its trigger in the logs of gateway and function (`reconcileID`). A batch has one. */
  readonly reconcileId?: string;
  /** Why it ran: the oldest reasons, as far as the bound of an entry allows. Absent as `tookMs` is. */
  readonly reasons?: readonly Reason[];
  /** At most 1 KiB. */
  readonly error?: string;
  /** The writes of the run, as its outcome lists them, 512 bytes at most; absent when it lists none. */
  readonly wrote?: WriteSummary;
  /** The last lines of its log, the oldest first, as its function reported them. Of runs that ended well a sample. */
  readonly log?: readonly string[];
  /** The stack of the error, in several lines. `log` and `stack` have some 1.5 KiB together. */
  readonly stack?: string;
  /** The key's next run waits until the cache shows the writes of this one. */
  readonly barrier?: true;
  /** When the key runs again at the latest; of an accepted run, until when its outcome must come. */
  readonly nextMs?: number;
  /**
   * How many runs of all keys that ended well or were not sent this gateway has left out of the record since its last
   * entry, because they would have pushed out the history within seconds.
   */
  readonly leftOut?: number;
}

export interface RunQuery {
  /** How many at most: 1 to 1000. */
  readonly limit: number;
  /** Only runs with this outcome. Default: all. */
  readonly outcome?: PastOutcome;
  /** Only runs of this key. Default: all. */
  readonly key?: string;
  /** Only the run of this number. Default: all. */
  readonly run?: number;
  /** Only the runs of this trigger. Default: all. */
  readonly reconcileId?: string;
  /** Only runs that were recorded before those of this cursor: `next` of the page before. Default: from the newest. */
  readonly before?: string;
  /** Only runs that were recorded after this cursor: `newest` of an earlier page, to follow the runs. Default: all. */
  readonly after?: string;
}

export interface RunPage {
  /** In the order in which they were recorded, the newest first. */
  readonly runs: readonly PastRun[];
  /**
   * Present when there may be older runs that fit. A page may have fewer runs than its limit, even none, and still have
   * a `next`: a call looks at a bounded part of the history.
   */
  readonly next?: string;
  /** The cursor of the newest run of the history. Absent when the history is empty. */
  readonly newest?: string;
}

export function isCursor(text: string): boolean {
  return /^[0-9]{1,15}\.[0-9]{1,5}$/.test(text);
}

/** The outcome of a run, or its latest state, as the queue passes it to the history. */
export interface EndedRun {
  readonly key: string;
  readonly run: number;
  readonly finish: Finish;
  readonly atMs: number;
  /** The deadline of the run passed without an outcome. */
  readonly lost?: true;
  readonly attempt?: number | undefined;
  /** See `Start`. */
  readonly hasFailed?: boolean;
  readonly tookMs?: number;
  readonly waitedMs?: number | undefined;
  readonly heldMs?: number | undefined;
  /** The reasons as `Start.recorded` has them: JSON, one in each line. */
  readonly recorded?: string;
  readonly reasons?: readonly Reason[];
}

/**
 * An entry has this many bytes of text. The error, the writes and the stack have their own bounds; the stack leaves
 * some for the log, and both leave some for the reasons, which get the rest.
 */
const TEXTS_BYTES = 3072;
const WROTE_BYTES = 512;
const STACK_BYTES = 1024;
const LOG_BYTES = 384;
const REASONS_BYTES = 512;
/** A line with its quotes and its comma. */
const MIN_LINE_BYTES = 16;
const LINE_FEED = 10;

/**
 * Encodes one line of the history: some 3 KiB at most, without its key. It is called for each run, so it
 * joins text instead of building an object.
 * `lua/finish.lua` relies on `outcome` being first.
 * @param gateway the host name of this gateway as JSON, quotes included.
 * @param leftOut see `PastRun`.
 * @param withLog Default true.
 */
export function encodeRun(ended: EndedRun, gateway: string, leftOut = 0, withLog = true): string {
  const { key, run, finish, atMs, lost, attempt, tookMs, waitedMs, heldMs, recorded } = ended;
  let text = `{"outcome":"${lost && outcomeOf(finish) === 'failed' ? 'lost' : outcomeOf(finish)}","key":`;
  text += `${JSON.stringify(key)},"run":${run},"atMs":${atMs},"gateway":${gateway}`;
  if (finish.reconcileId !== undefined) text += `,"reconcileId":"${finish.reconcileId}"`;
  if (finish.cacheAgeMs !== undefined) text += `,"cacheAgeMs":${finish.cacheAgeMs}`;
  if (leftOut > 0) text += `,"leftOut":${leftOut}`;
  if (attempt !== undefined) text += `,"attempt":${attempt}`;
  if (tookMs !== undefined) text += `,"tookMs":${tookMs}`;
  if (waitedMs !== undefined) text += `,"waitedMs":${waitedMs}`;
  if (heldMs !== undefined) text += `,"heldMs":${heldMs}`;
  const error =
    finish.kind === 'accepted' || finish.error === undefined
      ? ''
      : `,"error":${JSON.stringify(textWithin(finish.error, ERROR_BYTES))}`;
  const wrote = finish.kind === 'ended' && finish.wrote ? `,"wrote":${encodeWrote(finish.wrote)}` : '';
  let left = TEXTS_BYTES - Buffer.byteLength(error) - Buffer.byteLength(wrote);
  const notes = finish.kind === 'ended' ? encodeNotes(finish, left - REASONS_BYTES, withLog) : '';
  if (notes !== '') left -= Buffer.byteLength(notes);
  const reasons = recorded || ended.reasons?.map((reason) => JSON.stringify(reason)).join('\n');
  if (reasons !== undefined) text += `,"reasons":[${linesWithin(reasons, left).replaceAll('\n', ',')}]`;
  text += error + wrote + notes;
  if (finish.kind === 'accepted') return `${text},"nextMs":${Math.ceil(finish.untilMs)}}`;
  if (finish.kind === 'unknown') return `${text}}`;
  if (finish.againAfterMs !== undefined && !finish.dead) text += `,"nextMs":${Math.ceil(atMs + finish.againAfterMs)}`;
  if (finish.barrier !== undefined) text += ',"barrier":true';
  return `${text}}`;
}

function linesWithin(lines: string, most: number): string {
  if (lines.length <= most / 3 || Buffer.byteLength(lines) <= most) return lines;
  const bytes = Buffer.from(lines);
  return bytes.toString('utf8', 0, Math.max(0, bytes.lastIndexOf(LINE_FEED, most)));
}

/** The beginning of the stack and the last lines of the log. */
function encodeNotes({ log, stack }: Pick<Ended, 'log' | 'stack'>, most: number, withLog: boolean): string {
  const hasLog = log !== undefined && withLog;
  let text = '';
  if (stack !== undefined) {
    const shown = textWithin(stack, Math.min(STACK_BYTES, hasLog ? most - LOG_BYTES : most));
    text += `,"stack":${JSON.stringify(shown)}`;
  }
  if (!hasLog) return text;
  let left = most - Buffer.byteLength(text);
  const lines: string[] = [];
  for (const line of log.toReversed()) {
    if (left < MIN_LINE_BYTES) break;
    // Of the newest line as much as fits, and of the others whole ones.
    const encoded = JSON.stringify(lines.length === 0 ? textWithin(line, left - 4) : line);
    left -= Buffer.byteLength(encoded) + 1;
    if (left < 0) break;
    lines.unshift(encoded);
  }
  return lines.length === 0 ? text : `${text},"log":[${lines.join(',')}]`;
}

/** Names of objects have any length: those beyond the bound are only counted. */
function encodeWrote({ count, first }: WriteSummary): string {
  let text = '';
  for (const write of first) {
    const next = `${text}${text && ','}${JSON.stringify(write)}`;
    if (Buffer.byteLength(next) > WROTE_BYTES) break;
    text = next;
  }
  return `{"count":${count},"first":[${text}]}`;
}

function outcomeOf(finish: Finish): PastOutcome {
  if (finish.kind === 'accepted') return 'accepted';
  if (finish.kind === 'unknown') return 'unknown';
  if (finish.dead) return 'dead';
  if (finish.sent === false) return 'not-sent';
  if (finish.failures === 'count') return 'failed';
  if (finish.failures === 'keep') return 'deferred';
  return finish.againAfterMs === undefined ? 'done' : 'requeue';
}

/** @returns undefined for text that is no entry: the history is for people, and one bad entry must not hide it. */
export function decodePastRun(text: string): PastRun | undefined {
  try {
    const value = JSON.parse(text) as Partial<PastRun>;
    const { outcome, key, run, atMs } = value;
    if (outcome === undefined || key === undefined || typeof run !== 'number' || typeof atMs !== 'number') {
      return undefined;
    }
    const { nextMs: _, ...others } = value;
    return { ...(outcome === 'dead' ? others : value), outcome, key, run, atMs };
  } catch {
    return undefined;
  }
}
