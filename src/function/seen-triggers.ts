import { TOLERANCE_SECONDS } from '../contract/signature.ts';

/** Some 10 MB at most. */
const MAX_SEEN = 100_000;
/** When all places are taken, how often they are looked through for those whose time is over. */
const SWEEP_MS = 1000;

/**
 * The ids of triggers for as long as each could run again: its signature is in time, and its deadline has not passed.
 * So a copy of a trigger, made by a proxy that repeats requests or by an eavesdropper, does not run its keys a second
 * time beside the first. In this process only: another replica does not know them.
 */
export class SeenTriggers {
  readonly #max: number;
  /** Id -> when it may be forgotten, on the steady clock. */
  readonly #untilMs = new Map<string, number>();
  #sweptAtMs = -Infinity;

  constructor(max = MAX_SEEN) {
    this.#max = max;
  }

  /**
   * @param validMs how long the trigger's deadline is ahead.
   * @returns `full`: as many as may be remembered could all come again, and no other is taken.
   */
  add(id: string, validMs: number, nowMs: number): 'new' | 'seen' | 'full' {
    const known = this.#untilMs.get(id);
    if (known !== undefined && known > nowMs) return 'seen';
    this.#untilMs.delete(id);
    this.#forget(nowMs);
    if (this.#untilMs.size >= this.#max) return 'full';
    // Twice: the sender's clock may be as far ahead as it may be behind.
    this.#untilMs.set(id, nowMs + Math.min(validMs, 2 * TOLERANCE_SECONDS * 1000));
    return 'new';
  }

  /** The oldest, as far as they are over; in order of arrival, which is nearly that of their ends. */
  #forget(nowMs: number): void {
    for (const [id, untilMs] of this.#untilMs) {
      if (untilMs > nowMs) break;
      this.#untilMs.delete(id);
    }
    if (this.#untilMs.size < this.#max || nowMs - this.#sweptAtMs < SWEEP_MS) return;
    this.#sweptAtMs = nowMs;
    for (const [id, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(id);
  }
}
