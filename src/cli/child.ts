import { spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { messageOf } from '../core/index.ts';
import { type OutputLine, OwnedProcess } from '../testing/process/owned-process.ts';

/**
 * Variables that keep the memory of our processes small. Values of the environment take precedence.
 *
 * - `NODE_COMPILE_CACHE`: Node's folder for compiled modules. It must be set from outside, because a function's program
 *   imports its modules before it could set it. From sources, a function takes 29 MB less, because the types of cached
 *   modules are already removed.
 * - `MALLOC_ARENA_MAX`: by itself glibc gives each thread of V8 its own heap, which keeps freed memory: 13 MB of a
 *   gateway.
 */
export const MEMORY_VARIABLES = {
  NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache'),
  MALLOC_ARENA_MAX: '1',
} as const;

/** The end of a child. */
export interface ChildEnd {
  /** Exit code, or the name of the signal that ended it. */
  readonly code: number | string;
  /** Plain text that the child wrote before it was up, not yet shown; mostly the reason why it could not start. */
  readonly buffered: readonly string[];
}

/**
 * A process of ours that `levelhook start` and `levelhook dev` run: the gateway or a function. It has its own process
 * group, so that a Ctrl-C in the terminal reaches it only through our ordered stop.
 */
export class Child {
  readonly name: string;
  readonly ended: Promise<ChildEnd>;
  readonly #process: OwnedProcess;
  readonly #onLine: (line: OutputLine) => void;
  #buffered: string[] | undefined = [];
  #isStopping = false;

  /** @param command the program and its arguments. */
  constructor(
    name: string,
    [program = '', ...args]: readonly string[],
    options: { readonly cwd?: string; readonly env: NodeJS.ProcessEnv; readonly onLine: (line: OutputLine) => void },
  ) {
    this.name = name;
    this.#onLine = options.onLine;
    const child = spawn(program, args, {
      cwd: options.cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: { ...MEMORY_VARIABLES, ...options.env },
    });
    this.#process = new OwnedProcess(child, { end: 'close', onLine: (line) => this.#read(line) });
    this.ended = this.#process.ended
      // The program could not be executed.
      .catch((error: unknown) => messageOf(error))
      .then((code) => ({ code, buffered: this.#buffered ?? [] }));
  }

  /** Whether its end was asked for. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Passes text on as it comes from now on, beginning with the buffered text. */
  show(): void {
    const buffered = this.#buffered ?? [];
    this.#buffered = undefined;
    for (const text of buffered) this.#onLine({ text });
  }

  /** Sends SIGTERM, and SIGKILL when that does not help in time. */
  stop(limitMs = 30_000): Promise<void> {
    this.#isStopping = true;
    return this.#process.stop(limitMs);
  }

  #read(line: OutputLine): void {
    if ('text' in line && this.#buffered) this.#buffered.push(line.text);
    else this.#onLine(line);
  }
}
