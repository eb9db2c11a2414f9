import { type Clock, messageOf, TokenBucket } from '../../core/index.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';
import type { AskedRights, RightsChanges } from './rights-changes.ts';

/** The apiserver's last answer about the rights of a ReconcileFunction's ServiceAccount, asked by this gateway. */
export interface RightsReview {
  readonly result: 'allowed' | 'refused';
  /** When it said so. Milliseconds of the gateway's clock. */
  readonly atMs: number;
  /** Why it was refused. */
  readonly message?: string;
  /** A later question had no answer: the earlier result counts. */
  readonly failed?: { readonly atMs: number; readonly error: string };
}

/**
 * How often a change of rights causes a review. A tenant that changes the Roles of its namespace causes reviews of all
 * functions that name the namespace, and these functions pay for them.
 */
const CHANGES_RATE = { burst: 10, perSecond: 1 / 30 };

/** The reviews of one ReconcileFunction's rights. Every review goes through `during`. */
export class RightsReviews {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #changesRate: TokenBucket;
  #last: RightsReview | undefined;
  #asked: AskedRights | undefined;
  #askedMs = -Infinity;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
    this.#changesRate = new TokenBucket(CHANGES_RATE, () => clock.now());
  }

  /** When the last review began to ask. Milliseconds of the gateway's clock. */
  get askedMs(): number {
    return this.#askedMs;
  }

  /** A review begins to ask about these rights. */
  asking(asked: AskedRights): void {
    this.#asked = asked;
    this.#askedMs = this.#clock.now();
  }

  /** How long the review that these changes cause has to wait; undefined: they cannot concern the last review. */
  waitMs(changes: RightsChanges): number | undefined {
    if (!this.#asked || !changes.concern(this.#asked)) return undefined;
    return this.#changesRate.take() ? 0 : this.#changesRate.waitMs;
  }

  /** Undefined before the first answer. */
  get last(): RightsReview | undefined {
    return this.#last;
  }

  /**
   * @param ask reviews the rights, last of all: it resolves if they are there, and throws an `InvalidFunctionError`
   *   with the condition `Authorized` if they are not. Its other errors say nothing about rights.
   * @returns the result of `ask`. @throws the errors of `ask`.
   */
  async during<Result>(signal: AbortSignal, ask: () => Promise<Result>): Promise<Result> {
    try {
      const result = await ask();
      this.#last = { result: 'allowed', atMs: this.#clock.now() };
      return result;
    } catch (error) {
      if (!signal.aborted) this.#recordFailure(error);
      throw error;
    }
  }

  #recordFailure(error: unknown): void {
    const atMs = this.#clock.now();
    if (!(error instanceof InvalidFunctionError)) {
      if (this.#last) this.#last = { ...this.#last, failed: { atMs, error: messageOf(error) } };
      return;
    }
    if (error.condition === 'Authorized') this.#last = { result: 'refused', atMs, message: messageOf(error) };
  }
}
