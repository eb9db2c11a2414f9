import { formatJson, type LogFields, type Logger, messageOf, systemClock, UserError } from '../core/index.ts';
import { MAX_LOG_LINES } from '../contract/outcome.ts';
import { SeenObjects } from './object-changes.ts';

/** The option `logLines` of a function. */
export const DEFAULT_LOG_LINES = 20;

/** @throws UserError unless it is a number of lines that a result may have. */
export function checkLogLines(lines: number): number {
  if (Number.isInteger(lines) && lines >= 0 && lines <= MAX_LOG_LINES) return lines;
  throw new UserError(`logLines is ${lines}: it must be a whole number from 0 to ${MAX_LOG_LINES}`);
}

/** Characters of one line, of all lines together, and of a stack. The gateway keeps fewer. */
const LINE = 500;
const LINES = 4096;
const STACK = 4096;
/** The causes of an error that its stack shows, at most. */
const CAUSES = 3;
const MESSAGE = 200;

/** Runs that end well and report their log, each second at most. The gateway keeps fewer. */
const REPORTED_PER_SECOND = 50;

/** Which logs the results of a function have. */
export class ReportedLogs {
  /** How many of the last lines of a run; with 0 its result has no stack either. */
  readonly lines: number;
  readonly seen = new SeenObjects();
  #sinceMs = -Infinity;
  #reported = 0;

  constructor(lines: number) {
    this.lines = lines;
  }

  /**
   * True while results leave out the logs of runs that end well. Such a log then costs little: lines become text when
   * they are read, and objects are not compared.
   */
  isBusy(nowMs: number): boolean {
    return nowMs - this.#sinceMs < 1000 && this.#reported >= REPORTED_PER_SECOND;
  }

  /** Whether a run that has ended well reports its log. A busy function reports a sample. */
  takesSuccess(): boolean {
    const nowMs = systemClock.now();
    if (nowMs - this.#sinceMs >= 1000) [this.#sinceMs, this.#reported] = [nowMs, 0];
    return (this.#reported += 1) <= REPORTED_PER_SECOND;
  }
}

/** A line of the log; that of a step is made when it is read. */
interface Line {
  readonly atMs: number;
  readonly text: string | (() => string);
}

/**
 * Keeps the last lines of one run's log, and its steps (`RunSteps`). The result of the run carries them to the gateway,
 * where people see them with the outcome: `+12 ms info created the ConfigMap {"name":"a"}`. A line begins with the time
 * since the run began. Lines of the level debug are left out.
 */
export class RunLog {
  readonly #most: number;
  readonly #startedMs: number;
  readonly isBusy: boolean;
  readonly #lines: Line[] = [];

  /**
   * @param most how many lines are kept.
   * @param startedMs when the run began, in the time of `systemClock.now`.
   * @param isBusy see `ReportedLogs`. Default false.
   */
  constructor(most: number, startedMs: number, isBusy = false) {
    this.#most = most;
    this.#startedMs = startedMs;
    this.isBusy = isBusy;
  }

  get isEmpty(): boolean {
    return this.#lines.length === 0;
  }

  /** The lines so far, the oldest first; of many long ones the newest. */
  get lines(): readonly string[] {
    let left = LINES;
    const lines: string[] = [];
    for (const { atMs, text } of this.#lines.toReversed()) {
      const tookMs = Math.round(atMs - this.#startedMs);
      const line = `+${tookMs} ms ${typeof text === 'string' ? text : textOfStep(text)}`.slice(0, LINE);
      left -= line.length;
      if (left < 0) break;
      lines.unshift(line);
    }
    return lines;
  }

  /** Adds a line whose text is made when the lines are read. Returns what `isLast` asks for. */
  step(text: () => string): object {
    return this.#add(text);
  }

  /** Whether nothing has been added since. */
  isLast(line: object | undefined): boolean {
    return this.#lines.at(-1) === line;
  }

  /** A logger that writes to `logger`, and whose lines are kept. */
  around(logger: Logger, bound: LogFields = {}): Logger {
    const kept =
      (level: 'info' | 'warn' | 'error') =>
      (fields: LogFields, message: string): void => {
        logger[level](fields, message);
        const given = { ...bound, ...fields };
        const text = (): string => `${level} ${message}${shownFields(given)}`.slice(0, LINE);
        // Made at once: what the fields hold may change afterwards.
        this.#add(this.isBusy ? text : text());
      };
    return {
      debug: (fields, message) => logger.debug(fields, message),
      info: kept('info'),
      warn: kept('warn'),
      error: kept('error'),
      child: (fields) => this.around(logger.child(fields), { ...bound, ...fields }),
    };
  }

  #add(text: Line['text']): Line {
    const line = { atMs: systemClock.now(), text };
    this.#lines.push(line);
    if (this.#lines.length > this.#most) this.#lines.shift();
    return line;
  }
}

/** A step with an object of thousands of levels throws a RangeError, and a line must not fail the run. */
function textOfStep(text: () => string): string {
  try {
    return text();
  } catch (error) {
    return `a step that cannot be shown: ${messageOf(error)}`;
  }
}

function shownFields(fields: LogFields): string {
  if (Object.keys(fields).length === 0) return '';
  try {
    return ` ${formatJson(fields)}`;
  } catch {
    // The logger has its own way with a value that JSON cannot have.
    return '';
  }
}

/**
 * The stack of an error, followed by the stacks of its causes. A long message is cut, because the result has the whole
 * message elsewhere and the frames need the room. Undefined for a value that is no error.
 */
export function stackOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const stacks: string[] = [];
  let each: unknown = error;
  while (each instanceof Error && stacks.length <= CAUSES) {
    stacks.push(withShortMessage(each));
    each = each.cause;
  }
  return stacks.join('\ncaused by: ').slice(0, STACK);
}

/** The fields of an error of a class of its own may have any value. */
function withShortMessage({ message, stack }: { readonly message: unknown; readonly stack?: unknown }): string {
  if (typeof stack !== 'string') return '';
  if (typeof message !== 'string' || message.length <= MESSAGE) return stack;
  return stack.replace(message, () => `${message.slice(0, MESSAGE)}…`);
}
