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

/** Of programs that run, or have ended during the test that runs: in the order of their start. */
const shown = new Set<ProgramLines>();
const LAST_LINES = 40;

/** The last lines of each program that runs or has ended since `forgetEnded`. */
export function writtenLately(): string {
  const texts = [...shown].map(({ name, text }) => `--- ${name}\n${text.split('\n').slice(-LAST_LINES).join('\n')}`);
  return texts.join('\n');
}

/** From now on `writtenLately` leaves out the programs that have ended. */
export function forgetEnded(): void {
  for (const each of shown) if (each.hasEnded) shown.delete(each);
}

/** The lines of a program, as they come. */
export class ProgramLines {
  /** Of the program, for people. */
  readonly name: string;
  readonly lines: Line[] = [];
  #hasEnded = false;
  #listeners: (() => void)[] = [];

  constructor(name: string) {
    this.name = name;
    shown.add(this);
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

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
