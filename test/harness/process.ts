import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type OutputLine, OwnedProcess } from '../../src/testing/process/owned-process.ts';

const ROOT = new URL('../../', import.meta.url);

/** A JSON log line, or what else a process wrote as `{ text }`. */
export type Line = Readonly<Record<string, unknown>>;

/** A real process of this repository, run from its sources as `npm start` runs them. Its output is kept. */
export class TestProcess {
  readonly lines: Line[] = [];
  /** Exit code, or the name of the signal that ended it; resolves once all that it wrote is in `lines`. */
  readonly exited: Promise<number | string>;
  readonly #process: OwnedProcess;
  #ended = false;
  #listeners: (() => void)[] = [];

  /**
   * @param script relative to the repository's root
   * @param program what runs it. Default: this Node, on our sources.
   */
  constructor(
    script: string,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    program: readonly [string, ...string[]] = [process.execPath, '--conditions=levelhook-source'],
  ) {
    const [command, ...options] = program;
    const child = spawn(command, [...options, fileURLToPath(new URL(script, ROOT)), ...args], {
      cwd: fileURLToPath(ROOT),
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    });
    const onLine = (line: OutputLine): void => {
      this.lines.push('json' in line ? line.json : line);
      this.#notify();
    };
    this.#process = new OwnedProcess(child, { end: 'close', onLine });
    this.exited = this.#process.ended.finally(() => {
      this.#ended = true;
      this.#notify();
    });
  }

  get pid(): number {
    return this.#process.pid;
  }

  get alive(): boolean {
    return this.#process.alive;
  }

  /** Everything it wrote, as text: for the message of a failed assertion. */
  get output(): string {
    return this.lines.map((line) => ('text' in line ? String(line['text']) : JSON.stringify(line))).join('\n');
  }

  /** The first line that `matches`, past or to come. Rejects when the process ends without one. */
  async line(matches: (line: Line) => boolean): Promise<Line> {
    for (let seen = 0; ;) {
      for (; seen < this.lines.length; seen += 1) {
        const line = this.lines[seen];
        if (line && matches(line)) return line;
      }
      if (this.#ended) throw new Error(`the process ended without the line that was waited for:\n${this.output}`);
      await new Promise<void>((resolve) => this.#listeners.push(resolve));
    }
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | string> {
    this.send(signal);
    return this.exited;
  }

  /** A signal that need not end it. */
  send(signal: NodeJS.Signals): void {
    this.#process.send(signal);
  }

  #notify(): void {
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }
}
