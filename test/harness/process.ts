import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const ROOT = new URL('../../', import.meta.url);

/** A JSON log line, or what else a process wrote as `{ text }`. */
export type Line = Readonly<Record<string, unknown>>;

/** A real process of this repository, run from its sources as `npm start` runs them. Its output is kept. */
export class TestProcess {
  readonly lines: Line[] = [];
  readonly #process: ChildProcess;
  readonly #exited: Promise<number | string>;
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
    this.#process = spawn(command, [...options, fileURLToPath(new URL(script, ROOT)), ...args], {
      cwd: fileURLToPath(ROOT),
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    });
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => this.#add(line));
    }
    this.#exited = once(this.#process, 'exit').then(([code, signal]) => {
      this.#notify();
      return (code ?? signal) as number | string;
    });
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  get alive(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null;
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
      if (!this.alive) throw new Error(`the process ended without the line that was waited for:\n${this.output}`);
      await new Promise<void>((resolve) => this.#listeners.push(resolve));
    }
  }

  /** Exit code, or the name of the signal that ended it. */
  get exited(): Promise<number | string> {
    return this.#exited;
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | string> {
    this.send(signal);
    return this.#exited;
  }

  /** A signal that need not end it. */
  send(signal: NodeJS.Signals): void {
    if (this.alive) this.#process.kill(signal);
  }

  #add(text: string): void {
    try {
      this.lines.push(text.startsWith('{') ? (JSON.parse(text) as Line) : { text });
    } catch {
      this.lines.push({ text });
    }
    this.#notify();
  }

  #notify(): void {
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }
}
