import type { LowRequest } from '../records/records.ts';

/**
 * Decides when keys of the backlog may start. They start in slots that ready keys leave free. If the backlog has got no
 * slot for `patienceMs`, one of its keys goes before the ready keys, so that a busy queue does not starve it.
 */
export class BacklogTurn {
  readonly #gateway: string;
  readonly #newNonce: () => string;
  /** How long the backlog waits for a free slot before one of its keys goes first. */
  readonly #patienceMs: number;
  #mayHaveKeys = false;
  #isFull = false;
  /** The nonce of the request under way: a repeated call has the same nonce and gets the same keys. */
  #nonce: string | undefined;
  /** Since when the backlog has got no slot; undefined: the last call took some of its keys. */
  #passedOverSinceMs: number | undefined;

  constructor({ gateway, newNonce, patienceMs }: { gateway: string; newNonce: () => string; patienceMs: number }) {
    this.#gateway = gateway;
    this.#newNonce = newNonce;
    this.#patienceMs = patienceMs;
  }

  /** Whether the backlog may have keys that can start. */
  get mayHaveKeys(): boolean {
    return this.#mayHaveKeys;
  }

  mayHave(): void {
    this.#mayHaveKeys = true;
  }

  /** Must be called when a slot may be free. */
  resume(): void {
    this.#isFull = false;
  }

  /** @param spare how many slots are left. */
  request(spare: number, nowMs: number): LowRequest | undefined {
    if (!this.#mayHaveKeys || this.#isFull) return undefined;
    this.#passedOverSinceMs ??= nowMs;
    const first = nowMs - this.#passedOverSinceMs >= this.#patienceMs ? 1 : 0;
    const count = Math.max(spare, first);
    if (count === 0) return undefined;
    this.#nonce ??= this.#newNonce();
    return { count, first, nonce: this.#nonce, gateway: this.#gateway };
  }

  /** @returns whether keys are left that found no slot. */
  answered(taken: number, isLeft: boolean): boolean {
    this.#nonce = undefined;
    this.#mayHaveKeys = isLeft;
    if (taken > 0) this.#passedOverSinceMs = undefined;
    else this.#isFull = isLeft;
    return this.#isFull;
  }
}
