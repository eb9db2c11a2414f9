import { inspect } from 'node:util';
import { printable } from '../core/index.ts';
import type { OutputLine } from '../testing/process/owned-process.ts';
import { errorLine, formatTrigger, type LinePart, wroteLine } from './trigger-line.ts';

/** How long the log lines of a run wait for the line of its trigger, which the gateway writes at the end of the run. */
const HELD_MS = 60_000;
const MOST_STACKS = 1000;
/** A field is one line, and may be of any depth. */
const INSPECTED = { depth: 4, breakLength: Infinity, compact: true } as const;
/** The message of the SDK's log line for a run that has thrown. */
const FAILED = 'reconcile failed';
/** A frame of Node or of the SDK. */
const OTHERS_FRAME = /\bnode:internal\/|\/function\/runtime\.[jt]s:/;
/** Fields of a log line that the line of the trigger has, or that say nothing to a person who is looking. */
const KNOWN = new Set(['level', 'time', 'msg', 'controller', 'key', 'run', 'reconcileID', 'stack']);

export interface RunLinesOptions {
  readonly print: (line: readonly LinePart[]) => void;
  /** How many columns the terminal has. Default: any number. */
  readonly columns?: () => number | undefined;
  /** For lines that belong to no run. */
  readonly say: (line: string) => void;
  readonly nowMs: () => number;
}

/**
 * Shows each trigger with the log lines that the function has written during the run below it. The function's lines
 * come first, so they are held back until the gateway's line of the same run.
 */
export class RunLines {
  readonly #options: RunLinesOptions;
  /** The lines of a run by its trigger and key, and when the first came. The oldest run is first. */
  readonly #held = new Map<string, { readonly atMs: number; readonly lines: string[] }>();
  /** Stacks that were shown: a failing key shows the same one with each attempt. */
  readonly #stacks = new Set<string>();

  constructor(options: RunLinesOptions) {
    this.#options = options;
  }

  /** A line of the gateway. */
  gateway(line: OutputLine): void {
    if (!('json' in line) || line.json['msg'] !== 'trigger') return this.#other('gateway', line);
    const { print, columns } = this.#options;
    const run = runOf(line.json);
    const { lines = [] } = this.#held.get(run) ?? {};
    this.#held.delete(run);
    print(formatTrigger(line.json, columns?.()));
    for (const part of errorLine(line.json)) print([{ text: '    ' }, part]);
    for (const each of [...wroteLine(line.json), ...lines]) print([{ text: `    ${each}` }]);
    this.#showLate();
  }

  /** A line of a function. */
  fn(name: string, line: OutputLine): void {
    if (!('json' in line) || line.json['reconcileID'] === undefined) return this.#other(`function ${name}`, line);
    const run = runOf(line.json);
    const held = this.#held.get(run) ?? { atMs: this.#options.nowMs(), lines: [] };
    held.lines.push(...this.#format(line.json));
    this.#held.set(run, held);
    this.#showLate();
  }

  /** Lines of runs whose trigger is not shown, such as those of a run that goes on after its answer. */
  #showLate(): void {
    const beforeMs = this.#options.nowMs() - HELD_MS;
    for (const [run, { atMs, lines }] of this.#held) {
      if (atMs > beforeMs) return;
      this.#held.delete(run);
      for (const line of lines) this.#options.print([{ text: `    ${line}` }]);
    }
  }

  #format(json: Readonly<Record<string, unknown>>): string[] {
    const fields = Object.entries(json).filter(([name]) => !KNOWN.has(name));
    const texts = fields.map(
      ([name, value]) => `${name}=${typeof value === 'string' ? value : inspect(value, INSPECTED)}`,
    );
    const line = [typeof json['level'] === 'string' ? json['level'] : 'info', String(json['msg']), ...texts].join(' ');
    const { stack } = json;
    // The line of the trigger has the message of a failed run.
    const told = json['msg'] === FAILED ? [] : [line];
    if (typeof stack !== 'string' || this.#stacks.has(stack)) return told;
    if (this.#stacks.size === MOST_STACKS) this.#stacks.clear();
    this.#stacks.add(stack);
    return [
      ...told,
      ...stack
        .split('\n')
        .slice(1)
        .filter((frame) => !OTHERS_FRAME.test(frame)),
    ];
  }

  /** Of lines that belong to no run: warnings, errors, and text that is no log line. */
  #other(name: string, line: OutputLine): void {
    const { say } = this.#options;
    if ('text' in line) return say(`${name}: ${line.text}`);
    const { level, msg, error, reason } = line.json;
    const serious = typeof level === 'number' ? level >= 40 : level === 'warn' || level === 'error';
    if (serious) say(`${name}: ${String(msg)}${error || reason ? ` (${String(error ?? reason)})` : ''}`);
  }
}

/** A trigger may be for several keys. */
function runOf({ reconcileID, key }: Readonly<Record<string, unknown>>): string {
  return printable(`${String(reconcileID)} ${String(key)}`);
}
