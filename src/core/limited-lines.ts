import type { Clock } from './clock.ts';
import { TokenBucket } from './token-bucket.ts';

/** Lines of one subject per second, and at once after a pause. */
const RATE = { perSecond: 1, burst: 10 };
/** The number of subjects with a limit of their own. All others share one limit until some of these have been quiet. */
const MAX_SUBJECTS = 1000;
const OTHERS = '';

/**
 * Limits log lines that unauthenticated clients can cause: ten at once for each subject, and then one a second. The
 * next line after a gap says how many were left out.
 */
export class LimitedLines {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #subjects = new Map<string, { readonly bucket: TokenBucket; leftOut: number }>();
  #forgotMs = -Infinity;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
  }

  /**
   * Writes a line, or counts it as left out.
   * @param subject what the lines are about, such as a controller. Clients must not choose it.
   * @param line writes it, with `leftOut` if lines before it are missing.
   */
  write(subject: string, line: (more: { readonly leftOut?: number }) => void): void {
    const lines = this.#of(subject);
    if (!lines.bucket.take()) {
      lines.leftOut += 1;
      return;
    }
    const { leftOut } = lines;
    lines.leftOut = 0;
    line(leftOut > 0 ? { leftOut } : {});
  }

  #of(subject: string): { readonly bucket: TokenBucket; leftOut: number } {
    const known = this.#subjects.get(subject);
    if (known) return known;
    if (this.#subjects.size >= MAX_SUBJECTS) this.#forgetQuiet();
    if (this.#subjects.size >= MAX_SUBJECTS && subject !== OTHERS) return this.#of(OTHERS);
    const made = { bucket: new TokenBucket(RATE, () => this.#clock.now()), leftOut: 0 };
    this.#subjects.set(subject, made);
    return made;
  }

  /** Once a second at most, because clients can cause any number of lines. */
  #forgetQuiet(): void {
    const nowMs = this.#clock.now();
    if (nowMs < this.#forgotMs + 1000) return;
    this.#forgotMs = nowMs;
    for (const [subject, { bucket, leftOut }] of this.#subjects) {
      if (leftOut === 0 && bucket.isFull) this.#subjects.delete(subject);
    }
  }
}
