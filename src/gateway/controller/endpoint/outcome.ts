import { boundedText, messageOf, parseRetryAfter, printable, redacted } from '../../../core/index.ts';
import {
  type CallbackLocation,
  LEVELHOOK_HEADER,
  type RelatedRule,
  type RequestResult,
  type Write,
} from '../../../contract/index.ts';
import { decodeResultLine, resultDecoders } from '../../../contract/outcome-schema.ts';
import type { Answer } from './endpoint.ts';

/** The decoded end of a trigger. An answer that fits no other kind is `unknown`: the run may still go on. */
export type Outcome =
  /** A `requeueAfterMs` that is 0 or absent asks for no other run. */
  | (Reported & { readonly kind: 'done'; readonly requeueAfterMs?: number })
  | (Reported & {
      readonly kind: 'error';
      readonly message: string;
      /** 0 or absent: the time of the backoff. */
      readonly retryAfterMs?: number;
    })
  | (Reported & { readonly kind: 'terminal'; readonly message: string })
  /** The run goes on; its outcome comes by callback within this time. */
  | { readonly kind: 'accepted'; readonly withinMs: number }
  /** There was no connection: nothing ran. */
  | { readonly kind: 'refused'; readonly message: string }
  /** No trigger was sent: the function is starting, or its start took the time of the run (`isThere`). */
  | { readonly kind: 'not-sent'; readonly message: string; readonly isThere: boolean }
  /** The function itself asked for later, before it did anything. */
  | { readonly kind: 'deferred'; readonly message: string; readonly retryAfterMs: number }
  | { readonly kind: 'unknown'; readonly reason: UnknownReason; readonly message: string };

/** The report of a run that has ended. */
interface Reported {
  readonly writes: readonly Write[];
  /** Undefined: the rules of an earlier run stay. */
  readonly related?: readonly RelatedRule[];
  readonly notes?: Notes;
}

/** The function's notes about a run, fit to be shown: printable, and without what looks like a credential. */
export interface Notes {
  /** The last lines of its log, the oldest first. */
  readonly log?: readonly string[];
  /** The stack of its error, in several lines. */
  readonly stack?: string;
}

/** Why an outcome is unknown: the label of `levelhook_unknown_outcomes_total`. */
export type UnknownReason =
  | 'timeout'
  /** The connection broke. */
  | 'connection'
  /** More than 1 MiB. */
  | 'too-large'
  /** A status that means no other outcome. */
  | 'status'
  /** A 410 with our header: the function says that it is gone for good. */
  | 'gone'
  /** A 200 whose body is not an outcome. */
  | 'body'
  /** The function says so itself: it got no answer to a write, or the run did not end. */
  | 'write';

/** Characters of a function's message that go into the log and the key's history. */
const MAX_MESSAGE = 1024;
/**
 * Bounds of the notes: lines of the log, characters of a line, of all lines and of the stack. The history keeps less.
 */
const MOST_LINES = 40;
const LINE_CHARACTERS = 512;
const LOG_CHARACTERS = 3072;
const STACK_CHARACTERS = 1024;
/** How many more are redacted, so that a credential is known by its form although its end is not shown. */
const REDACTED_MORE = 300;
const DEFAULT_DEFER_MS = 1000;
const MIN_DEFER_MS = 100;
/** A longer time is cut to this. An operator who wants a longer wait pauses the controller. */
const MAX_DEFER_MS = 3_600_000;

/** The number of results that a trigger asked for, and whether it named a callback. */
export interface SentTrigger {
  readonly requests: number;
  readonly callback?: CallbackLocation | undefined;
}

/**
 * Reads the answer to a trigger, and returns a function for each request, in their order, that decodes its outcome. One
 * result may be long, so the caller decodes each in a turn. An answer without exactly one result for each request gives
 * all of them the same outcome.
 * @param wallMs the time by the function's clock, for a date in Retry-After.
 */
export function outcomeDecoders(answer: Answer, asked: SentTrigger, wallMs: number): readonly (() => Outcome)[] {
  const decoded = answer.kind === 'answered' ? decodeAnswer(answer, asked, wallMs) : withoutAnswer(answer);
  return 'kind' in decoded ? Array.from({ length: asked.requests }, () => () => decoded) : decoded;
}

function withoutAnswer(answer: Exclude<Answer, { kind: 'answered' }>): Outcome {
  if (answer.kind === 'refused') return { kind: 'refused', message: answer.message };
  return { kind: 'unknown', reason: answer.reason, message: answer.message };
}

function decodeAnswer(
  { status, headers, body, isStream }: Answer & { kind: 'answered' },
  { requests, callback }: SentTrigger,
  wallMs: number,
): Outcome | readonly (() => Outcome)[] {
  // The lines had the outcomes, so a run without one has no line.
  if (isStream) return unreadable('the answer has no result for this request');
  // Without the header a 429 or 503 is a proxy's, which may have passed the trigger on.
  if ((status === 429 || status === 503) && headers[LEVELHOOK_HEADER] !== undefined) {
    const named = parseRetryAfter(headers['retry-after'], wallMs) ?? DEFAULT_DEFER_MS;
    const retryAfterMs = Math.min(Math.max(named, MIN_DEFER_MS), MAX_DEFER_MS);
    return { kind: 'deferred', message: `the function answered ${status}`, retryAfterMs };
  }
  const ours = headers[LEVELHOOK_HEADER] !== undefined;
  // A 202 without the header is from a queue in between that has accepted the trigger.
  const accepting = status === 202 && ours;
  if (status !== 200 && !accepting) {
    const message = `the function answered ${status}${ours ? reasonIn(body) : ''}`;
    return { kind: 'unknown', reason: status === 410 && ours ? 'gone' : 'status', message };
  }
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return unreadable('the answer is not JSON');
  }
  try {
    return resultDecoders(value, requests).map((decode) => () => {
      const result = decode();
      if (result instanceof TypeError) return unreadable(`the answer is not an outcome: ${result.message}`);
      return fromResult(result, accepting ? callback : undefined);
    });
  } catch (error) {
    return unreadable(`the answer is not an outcome: ${messageOf(error)}`);
  }
}

/**
 * Decodes one line of a stream of results.
 * @returns undefined for a line that names no run.
 */
export function decodeLine(
  text: string,
  callback: CallbackLocation | undefined,
): { run: number; outcome: Outcome } | undefined {
  const line = decodeResultLine(text);
  if (!line) return undefined;
  const { run, result } = line;
  if (!(result instanceof TypeError)) return { run, outcome: fromResult(result, callback) };
  return { run, outcome: unreadable(`the line is not an outcome: ${result.message}`) };
}

function unreadable(message: string): Outcome {
  return { kind: 'unknown', reason: 'body', message: boundedText(message, MAX_MESSAGE) };
}

/** @param callback the callback of the trigger; undefined: the run must have ended, so `accepted` is no outcome. */
export function fromResult(result: RequestResult, callback: Pick<CallbackLocation, 'maxSeconds'> | undefined): Outcome {
  if (result.status === 'unknown') return { kind: 'unknown', reason: 'write', message: messageIn(result) };
  if (result.status === 'accepted') {
    if (!callback) return unreadable('the function goes on, without an answer of 202 or without a callback');
    return { kind: 'accepted', withinMs: Math.min(result.withinSeconds, callback.maxSeconds) * 1000 };
  }
  const { writes = [], related } = result;
  const notes = notesOf(result);
  const reported: Reported = { writes, ...(related && { related }), ...(notes && { notes }) };
  switch (result.status) {
    case 'done': {
      const { requeueAfterSeconds: seconds } = result;
      return { kind: 'done', ...reported, ...(seconds === undefined ? {} : { requeueAfterMs: seconds * 1000 }) };
    }
    case 'error': {
      const { retryAfterSeconds: seconds } = result;
      return {
        kind: 'error',
        message: messageIn(result),
        ...reported,
        ...(seconds === undefined ? {} : { retryAfterMs: seconds * 1000 }),
      };
    }
    case 'terminal':
      return { kind: 'terminal', message: messageIn(result), ...reported };
  }
}

function messageIn({ message }: { readonly message: string }): string {
  return shownText(message, MAX_MESSAGE);
}

/** Foreign text in one line, without what looks like a credential. */
function shownText(text: string, max: number): string {
  // Cut twice: a text may have a credential of many characters, and costs time in proportion to its length.
  return boundedText(redactedStart(text, 4 * max), max);
}

/**
 * The first `max` characters of a text or fewer, redacted. The last ones before the cut may belong to a credential that
 * its end would have shown, so they are left out.
 */
function redactedStart(text: string, max: number): string {
  const cut = text.slice(0, max + REDACTED_MORE);
  const shown = redacted(cut);
  if (cut.length === text.length) return shown;
  let left = 0;
  while (left < Math.min(REDACTED_MORE, shown.length) && shown.at(-1 - left) === cut.at(-1 - left)) left += 1;
  return `${shown.slice(0, shown.length - left)}…`;
}

/**
 * Redacts here, where the controller pays for its answers: the patterns cost more than the rest of an answer.
 * @returns undefined when the function reported neither lines nor a stack.
 */
function notesOf(result: RequestResult & { status: 'done' | 'error' | 'terminal' }): Notes | undefined {
  const { log = [] } = result;
  const stack = 'stack' in result ? (result.stack ?? '') : '';
  const lines: string[] = [];
  let left = LOG_CHARACTERS;
  for (const line of log.slice(-MOST_LINES).toReversed()) {
    if (left <= 0) break;
    // What counts is how much of it is redacted: redaction may shorten it, and each further line would cost time, too.
    left -= Math.min(line.length, LINE_CHARACTERS + REDACTED_MORE);
    lines.unshift(boundedText(redactedStart(line, LINE_CHARACTERS), LINE_CHARACTERS));
  }
  if (lines.length === 0 && stack === '') return undefined;
  return {
    ...(lines.length > 0 && { log: lines }),
    ...(stack !== '' && { stack: stackIn(stack) }),
  };
}

function stackIn(stack: string): string {
  return printable(redactedStart(stack, STACK_CHARACTERS).slice(0, STACK_CHARACTERS));
}

/** The reason in a refusal by the SDK, such as `: the message is too old`. Other bodies stay out of the log. */
export function reasonIn(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: unknown };
    return typeof error === 'string' ? `: ${shownText(error, 200)}` : '';
  } catch {
    return '';
  }
}
