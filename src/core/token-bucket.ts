export interface TokenRate {
  /** Tokens that are added per second. */
  readonly perSecond: number;
  /** The size of the bucket: this many tokens may be taken at once after a pause. */
  readonly burst: number;
}

/** A token bucket, full at first. A clock that is set back gives no tokens and takes none. */
export class TokenBucket {
  readonly #rate: TokenRate;
  readonly #now: () => number;
  #tokens: number;
  #atMs: number;

  /** @param now in milliseconds. */
  constructor(rate: TokenRate, now: () => number) {
    this.#rate = rate;
    this.#now = now;
    this.#tokens = rate.burst;
    this.#atMs = now();
  }

  /** The tokens now, with fractions. A negative number is a debt. */
  get tokens(): number {
    const { burst, perSecond } = this.#rate;
    const nowMs = this.#now();
    this.#tokens = Math.min(burst, this.#tokens + (Math.max(0, nowMs - this.#atMs) / 1000) * perSecond);
    this.#atMs = nowMs;
    return this.#tokens;
  }

  get isFull(): boolean {
    return this.tokens >= this.#rate.burst;
  }

  /** How long until there is a token; 0 when there is one. */
  get waitMs(): number {
    const { tokens } = this;
    // A rounding error must not cause waits of length 0, again and again.
    return tokens >= 1 - 1e-9 ? 0 : ((1 - tokens) * 1000) / this.#rate.perSecond;
  }

  /** Takes a token. @returns whether there was one. */
  take(): boolean {
    if (this.waitMs > 0) return false;
    this.#tokens -= 1;
    return true;
  }

  /**
   * Takes tokens, even if the bucket falls into debt.
   * @param maxDebt a debt above this is forgiven. Default: no limit.
   */
  spend(count: number, maxDebt = Infinity): void {
    const { tokens } = this;
    this.#tokens = Math.min(tokens, Math.max(-maxDebt, tokens - count));
  }

  /** Gives back tokens that were spent and not used. */
  giveBack(count: number): void {
    this.#tokens = Math.min(this.#rate.burst, this.tokens + count);
  }
}
