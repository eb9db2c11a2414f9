import type { LowRequest } from '../records/records.ts';

/**
 * Decides when keys of the backlog may start: in slots that are left, and one of them before the other keys once all
 * have been passed over for `patienceMs`, so that a busy queue does not starve them.
 */
export class BacklogTurn {
  readonly #gateway: string;
  readonly #newNonce: () => string;
  /** How long all may be passed over. */
  readonly #patienceMs: number;
  #mayHaveKeys = false;
  #isFull = false;
  /** Of the request that has not been answered. */
  #nonce: string | undefined;
  /** Since when they have been passed over; undefined: the last call took some. */
  #passedOverSinceMs: number | undefined;

  constructor({ gateway, newNonce, patienceMs }: { gateway: string; newNonce: () => string; patienceMs: number }) {
    this.#gateway = gateway;
    this.#newNonce = newNonce;
    this.#patienceMs = patienceMs;
  }

  /** Whether it may have keys that can start. */
  get mayHaveKeys(): boolean {
    return this.#mayHaveKeys;
  }

  mayHave(): void {
    this.#mayHaveKeys = true;
  }

  /** No key of it can be started. */
  giveUp(): void {
    this.#mayHaveKeys = false;
  }

  /** A slot may be free. */
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
