import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type OutputLine, OwnedProcess } from '../testing/process/owned-process.ts';

/**
 * Variables that keep the memory of a process of ours small. What its environment has goes first.
 *
 * - `NODE_COMPILE_CACHE`: the folder in which Node keeps compiled modules by itself, when a program asks it to. A
 *   function's program imports its modules before it could ask. From sources, a function takes 29 MB less, because
 *   nothing need remove their types.
 * - `MALLOC_ARENA_MAX`: by itself glibc gives each thread of V8 a heap of its own, and what a thread has freed stays in
 *   it: 13 MB of a gateway.
 */
export const MEMORY_VARIABLES = {
  NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache'),
  MALLOC_ARENA_MAX: '1',
} as const;

/** How a child ended. */
export interface ChildEnd {
  /** Exit code, or the name of the signal that ended it. */
  readonly code: number | string;
  /**
   * Plain text that the child wrote before it was up, and that was not shown; mostly the reason why it could not start.
   */
  readonly buffered: readonly string[];
}

/**
 * A process of ours that `levelhook start` runs: the gateway or a function. In a process group of its own, so that a
 * Ctrl-C in the terminal reaches it through our ordered stop and not before.
 */
export class Child {
  readonly name: string;
  readonly ended: Promise<ChildEnd>;
  readonly #process: OwnedProcess;
  readonly #onLine: (line: OutputLine) => void;
  #buffered: string[] | undefined = [];

  constructor(
    name: string,
    script: string,
    options: { args?: readonly string[]; env: NodeJS.ProcessEnv; onLine: (line: OutputLine) => void },
  ) {
    this.name = name;
    this.#onLine = options.onLine;
    const child = spawn(process.execPath, [...process.execArgv, script, ...(options.args ?? [])], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: { ...MEMORY_VARIABLES, ...options.env },
    });
    this.#process = new OwnedProcess(child, { end: 'close', onLine: (line) => this.#read(line) });
    this.ended = this.#process.ended.then((code) => ({ code, buffered: this.#buffered ?? [] }));
  }

  /** From now on text is passed on as it comes, beginning with what was buffered. */
  show(): void {
    const buffered = this.#buffered ?? [];
    this.#buffered = undefined;
    for (const text of buffered) this.#onLine({ text });
  }

  /** SIGTERM, and SIGKILL when that does not help in time. */
  stop(limitMs = 30_000): Promise<void> {
    return this.#process.stop(limitMs);
  }

  #read(line: OutputLine): void {
    if ('text' in line && this.#buffered) this.#buffered.push(line.text);
    else this.#onLine(line);
  }
}
