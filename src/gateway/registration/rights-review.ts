import { type Clock, messageOf } from '../../core/index.ts';
import { InvalidFunctionError } from './invalid-function-error.ts';

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

/** The result of the last review of one ReconcileFunction's rights. Every review goes through `during`. */
export class RightsReviews {
  readonly #clock: Pick<Clock, 'now'>;
  #last: RightsReview | undefined;

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock;
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
