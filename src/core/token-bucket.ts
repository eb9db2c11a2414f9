export interface TokenRate {
  /** Tokens that come back in a second. */
  readonly perSecond: number;
  /** The most that the bucket has: so many may be taken at once after a pause. */
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

  /** The tokens at this moment, with fractions; below zero: a debt. */
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
    // A rounding error must not become a wait of no length, again and again.
    return tokens >= 1 - 1e-9 ? 0 : ((1 - tokens) * 1000) / this.#rate.perSecond;
  }

  /** Takes a token. @returns whether there was one. */
  take(): boolean {
    if (this.waitMs > 0) return false;
    this.#tokens -= 1;
    return true;
  }

  /**
   * Takes tokens whether they are there or not.
   * @param maxDebt the rest of a larger debt is forgiven. Default: none is.
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
