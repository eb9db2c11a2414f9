import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A line that a child wrote: a JSON log line, or plain text. */
export type ChildLine = { readonly json: Readonly<Record<string, unknown>> } | { readonly text: string };

/** How a child ended. */
export interface ChildEnd {
  /** Exit code, or the name of the signal that ended it. */
  readonly code: number | string;
  /**
   * Plain text that the child wrote before it was up, and that was not shown; mostly the reason why it could not start.
   */
  readonly held: readonly string[];
}

/**
 * A process of ours that `levelhook start` runs: the gateway or a function. In a process group of its own, so that a
 * Ctrl-C in the terminal reaches it through our ordered stop and not before.
 */
export class Child {
  readonly name: string;
  readonly #process: ChildProcess;
  readonly #ended: Promise<ChildEnd>;
  readonly #onLine: (line: ChildLine) => void;
  #held: string[] | undefined = [];

  constructor(
    name: string,
    script: string,
    options: { args?: readonly string[]; env: NodeJS.ProcessEnv; onLine: (line: ChildLine) => void },
  ) {
    this.name = name;
    this.#onLine = options.onLine;
    this.#process = spawn(process.execPath, [...process.execArgv, script, ...(options.args ?? [])], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: options.env,
    });
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => this.#read(parse(line)));
    }
    const kill = (): void => void this.#process.kill('SIGTERM');
    process.once('exit', kill);
    // `close` and not `exit`: its last words have been read by then.
    this.#ended = once(this.#process, 'close').then(([code, signal]) => {
      process.off('exit', kill);
      return { code: (code ?? signal) as number | string, held: this.#held ?? [] };
    });
  }

  get ended(): Promise<ChildEnd> {
    return this.#ended;
  }

  /** From now on text is passed on as it comes, beginning with what was held back. */
  show(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const text of held) this.#onLine({ text });
  }

  /** SIGTERM, and SIGKILL when that does not help in time. */
  async stop(limitMs = 30_000): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) this.#process.kill('SIGTERM');
    const kill = setTimeout(() => this.#process.kill('SIGKILL'), limitMs);
    await this.#ended;
    clearTimeout(kill);
  }

  #read(line: ChildLine): void {
    if ('text' in line && this.#held) this.#held.push(line.text);
    else this.#onLine(line);
  }
}

function parse(line: string): ChildLine {
  if (!line.startsWith('{')) return { text: line };
  try {
    return { json: JSON.parse(line) as Record<string, unknown> };
  } catch {
    return { text: line };
  }
}
