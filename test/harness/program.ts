/** A JSON log line, or what else a process wrote as `{ text }`. */
export type Line = Readonly<Record<string, unknown>>;

/** A program of this repository that runs: a process of its own, or one in the test's process. */
export interface Program {
  readonly lines: readonly Line[];
  /** Everything it wrote, as text: for the message of a failed assertion. */
  readonly output: string;
  /** The first line that `matches`, past or to come. Rejects when the program ends without one. */
  line(matches: (line: Line) => boolean): Promise<Line>;
  /** Exit code, or the name of the signal that ended it; resolves once all that it wrote is in `lines`. */
  readonly exited: Promise<number | string>;
  /** Stops it in order. Resolves as `exited`. */
  kill(signal: 'SIGTERM'): Promise<number | string>;
  /** Ends it at once where that can be: what a fault has left hanging must not delay the rest. */
  end(): Promise<unknown>;
}

/** The lines of a program, as they come. */
export class ProgramLines {
  readonly lines: Line[] = [];
  #hasEnded = false;
  #listeners: (() => void)[] = [];

  add(line: Line): void {
    this.lines.push(line);
    this.#notify();
  }

  /** No line will follow. */
  close(): void {
    this.#hasEnded = true;
    this.#notify();
  }

  get text(): string {
    return this.lines.map((line) => ('text' in line ? String(line['text']) : JSON.stringify(line))).join('\n');
  }

  async first(matches: (line: Line) => boolean): Promise<Line> {
    for (let seen = 0; ;) {
      for (; seen < this.lines.length; seen += 1) {
        const line = this.lines[seen];
        if (line && matches(line)) return line;
      }
      if (this.#hasEnded) throw new Error(`the program ended without the line that was waited for:\n${this.text}`);
      await new Promise<void>((resolve) => this.#listeners.push(resolve));
    }
  }

  #notify(): void {
    const listeners = this.#listeners;
    this.#listeners = [];
    for (const listener of listeners) listener();
  }
}
