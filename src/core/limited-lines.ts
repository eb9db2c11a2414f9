import type { Clock } from './clock.ts';
import { TokenBucket, type TokenRate } from './token-bucket.ts';

/** Enough for people who read the log; each line costs the gateway time. */
const RATE = { perSecond: 1, burst: 10 };
/** The number of subjects with a limit of their own. All others share one limit until some of these have been quiet. */
const MAX_SUBJECTS = 1000;
const OTHERS = '';

/** A line that may be written; with the number of lines that were left out before it, if there are any. */
export interface AdmittedLine {
  readonly leftOut?: number;
}

/**
 * Limits log lines that others can cause, such as clients without a login and the functions of a tenant: at a rate for
 * each subject. The next line after a gap says how many were left out.
 */
export class LimitedLines {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #rate: TokenRate;
  readonly #subjects = new Map<string, { readonly bucket: TokenBucket; leftOut: number }>();
  #forgotMs = -Infinity;

  /** @param rate of the lines of each subject. Default: ten at once, and then one a second. */
  constructor(clock: Pick<Clock, 'now'>, rate: TokenRate = RATE) {
    this.#clock = clock;
    this.#rate = rate;
  }

  /**
   * Admits a line, or counts it as left out.
   * @param subject what the lines are about, such as a controller. Clients must not choose it.
   * @returns undefined: it is left out.
   */
  admit(subject: string): AdmittedLine | undefined {
    const lines = this.#of(subject);
    if (!lines.bucket.take()) {
      lines.leftOut += 1;
      return undefined;
    }
    const { leftOut } = lines;
    lines.leftOut = 0;
    return leftOut > 0 ? { leftOut } : {};
  }

  /** Writes a line if it is admitted. */
  write(subject: string, line: (admitted: AdmittedLine) => void): void {
    const admitted = this.admit(subject);
    if (admitted) line(admitted);
  }

  #of(subject: string): { readonly bucket: TokenBucket; leftOut: number } {
    const known = this.#subjects.get(subject);
    if (known) return known;
    if (this.#subjects.size >= MAX_SUBJECTS) this.#forgetQuiet();
    if (this.#subjects.size >= MAX_SUBJECTS && subject !== OTHERS) return this.#of(OTHERS);
    const made = { bucket: new TokenBucket(this.#rate, () => this.#clock.now()), leftOut: 0 };
    this.#subjects.set(subject, made);
    return made;
  }

  /** Once a second at most, because clients can cause any number of lines. */
  #forgetQuiet(): void {
    const nowMs = this.#clock.now();
    if (nowMs < this.#forgotMs + 1000) return;
    this.#forgotMs = nowMs;
    // A subject that has left lines out is forgotten, too: it may never come again, and others need its place.
    for (const [subject, { bucket }] of this.#subjects) {
      if (bucket.isFull && subject !== OTHERS) this.#subjects.delete(subject);
    }
  }
}
