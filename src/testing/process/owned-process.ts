import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** A line of a process's output: a JSON log line, or other text. */
export type OutputLine = { readonly json: Readonly<Record<string, unknown>> } | { readonly text: string };

export interface OwnedProcessOptions {
  /** The event that counts as its end: `close` comes after its last output has been read as well. */
  readonly end: 'exit' | 'close';
  /** Reads its output from the pipes of stdout and stderr. Default: the output is not read here. */
  readonly onLine?: (line: OutputLine) => void;
}

/**
 * A child process that gets signals only while it is the process that was started, and that ends with this process: it
 * gets SIGTERM when this process exits without having stopped it, on an uncaught error for instance.
 */
export class OwnedProcess {
  readonly #child: ChildProcess;
  /** Resolves when it has ended, with its exit code or the name of the signal. */
  readonly ended: Promise<number | string>;

  /** @param child just started, so that none of its events has been missed. */
  constructor(child: ChildProcess, { end, onLine }: OwnedProcessOptions) {
    this.#child = child;
    for (const stream of onLine ? [child.stdout, child.stderr] : []) {
      if (stream) createInterface({ input: stream }).on('line', (line) => onLine?.(parse(line)));
    }
    killAtExit.add(child);
    this.ended = once(child, end).then(([code, signal]) => {
      killAtExit.delete(child);
      return (code ?? signal) as number | string;
    });
  }

  /** 0 when it could not be started. */
  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Sends a signal, unless the process has ended. */
  send(signal: NodeJS.Signals): void {
    // Node reaps the child, so until 'exit' its pid cannot belong to another process.
    if (this.alive) this.#child.kill(signal);
  }

  /** SIGTERM, after `graceMs` SIGKILL; resolves when it has ended. */
  async stop(graceMs: number): Promise<void> {
    this.send('SIGTERM');
    // A process that was stopped with SIGSTOP would not handle it.
    this.send('SIGCONT');
    const timer = setTimeout(() => this.send('SIGKILL'), graceMs);
    await this.ended;
    clearTimeout(timer);
  }
}

function parse(line: string): OutputLine {
  if (!line.startsWith('{')) return { text: line };
  try {
    return { json: JSON.parse(line) as Record<string, unknown> };
  } catch {
    return { text: line };
  }
}

/** The children of this process. They share one listener, since Node warns of more than ten. */
const killAtExit = new (class {
  readonly #children = new Set<ChildProcess>();
  readonly #kill = (): void => {
    for (const child of this.#children) child.kill('SIGTERM');
  };

  add(child: ChildProcess): void {
    if (this.#children.size === 0) process.once('exit', this.#kill);
    this.#children.add(child);
  }

  delete(child: ChildProcess): void {
    this.#children.delete(child);
    if (this.#children.size === 0) process.off('exit', this.#kill);
  }
})();
