import { TOLERANCE_SECONDS } from '../contract/signature.ts';

/** Some 10 MB at most. */
const MAX_SEEN = 100_000;
/** When the memory is full, expired entries are searched for at most this often. */
const SWEEP_MS = 1000;

/**
 * Remembers the id of a trigger as long as it could run again: its signature is valid, and its deadline has not passed.
 * So a copy of a trigger, from a proxy that repeats requests or from an eavesdropper, does not run its keys a second
 * time. The memory belongs to this process: another replica does not know the ids.
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
   * @param validMs the time until the trigger's deadline.
   * @returns `full`: the memory is full of triggers that could all run again, so no more are accepted.
   */
  add(id: string, validMs: number, nowMs: number): 'new' | 'seen' | 'full' {
    const known = this.#untilMs.get(id);
    if (known !== undefined && known > nowMs) return 'seen';
    this.#untilMs.delete(id);
    this.#forget(nowMs);
    if (this.#untilMs.size >= this.#max) return 'full';
    // Twice the tolerance: the sender's clock may be ahead by as much as it may be behind.
    this.#untilMs.set(id, nowMs + Math.min(validMs, 2 * TOLERANCE_SECONDS * 1000));
    return 'new';
  }

  /** Removes expired entries from the oldest on. Entries are in order of arrival, which is nearly that of expiry. */
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
