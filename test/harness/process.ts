import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type OutputLine, OwnedProcess } from '../../src/testing/process/owned-process.ts';
import { type Line, type Program, ProgramLines } from './program.ts';

export type { Line };

const ROOT = new URL('../../', import.meta.url);

/** A real process of this repository, run from its sources as `npm start` runs them. Its output is kept. */
export class TestProcess implements Program {
  readonly exited: Promise<number | string>;
  readonly #process: OwnedProcess;
  readonly #lines: ProgramLines;

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
    this.#lines = new ProgramLines([script, ...args].join(' '));
    const [command, ...options] = program;
    const child = spawn(command, [...options, fileURLToPath(new URL(script, ROOT)), ...args], {
      cwd: fileURLToPath(ROOT),
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
    });
    const onLine = (line: OutputLine): void => this.#lines.add('json' in line ? line.json : line);
    this.#process = new OwnedProcess(child, { end: 'close', onLine });
    this.exited = this.#process.ended.finally(() => this.#lines.close());
  }

  get lines(): Line[] {
    return this.#lines.lines;
  }

  get pid(): number {
    return this.#process.pid;
  }

  get alive(): boolean {
    return this.#process.alive;
  }

  get output(): string {
    return this.#lines.text;
  }

  line(matches: (line: Line) => boolean): Promise<Line> {
    return this.#lines.first(matches);
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<number | string> {
    this.send(signal);
    return this.exited;
  }

  /** A signal that need not end it. */
  send(signal: NodeJS.Signals): void {
    this.#process.send(signal);
  }

  end(): Promise<number | string> {
    return this.kill('SIGKILL');
  }
}
