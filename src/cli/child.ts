import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A line that a child wrote: a JSON log line, or whatever else it said. */
export type ChildLine = { readonly json: Readonly<Record<string, unknown>> } | { readonly text: string };

/**
 * A process of ours that `levelhook start` runs: the gateway or a function. In a process group of its own, so that a
 * Ctrl-C in the terminal reaches it through our ordered stop and not before.
 */
export class Child {
  readonly name: string;
  readonly #process: ChildProcess;
  readonly #exited: Promise<number | string>;

  constructor(
    name: string,
    script: string,
    options: { args?: readonly string[]; env: NodeJS.ProcessEnv; onLine: (line: ChildLine) => void },
  ) {
    this.name = name;
    this.#process = spawn(process.execPath, [...process.execArgv, script, ...(options.args ?? [])], {
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      env: options.env,
    });
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      if (stream) createInterface({ input: stream }).on('line', (line) => options.onLine(parse(line)));
    }
    this.#exited = once(this.#process, 'exit').then(([code, signal]) => (code ?? signal) as number | string);
  }

  /** Resolves with the exit code or the signal's name. */
  get exited(): Promise<number | string> {
    return this.#exited;
  }

  /** SIGTERM, and SIGKILL when that does not help in time. */
  async stop(limitMs = 30_000): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.kill('SIGTERM');
    const kill = setTimeout(() => this.#process.kill('SIGKILL'), limitMs);
    await this.#exited;
    clearTimeout(kill);
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
