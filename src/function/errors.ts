import { acrossCopies } from '../core/index.ts';

/*
 * Each error of the SDK has a `code`, as Node's own errors have, which stays the same when a message changes.
 */

/** Thrown by a reconcile function: retrying will not help. The key becomes a dead letter until its object changes. */
export class TerminalError extends Error {
  static {
    acrossCopies(this, 'TerminalError');
  }

  override readonly name = 'TerminalError';
  readonly code = 'ERR_LEVELHOOK_TERMINAL';
}

/**
 * Thrown by a reconcile function: a failure, retried after this time instead of the backoff's. 0 means the backoff's
 * time.
 */
export class RetryAfterError extends Error {
  static {
    acrossCopies(this, 'RetryAfterError');
  }

  override readonly name: string = 'RetryAfterError';
  readonly code: string = 'ERR_LEVELHOOK_RETRY_AFTER';
  readonly retryAfterSeconds: number;

  constructor(message: string, retryAfterSeconds: number, options?: ErrorOptions) {
    super(message, options);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** A PodDisruptionBudget does not allow an eviction now. The apiserver's own error is its cause. */
export class DisruptionBudgetError extends RetryAfterError {
  static {
    acrossCopies(this, 'DisruptionBudgetError');
  }

  override readonly name = 'DisruptionBudgetError';
  override readonly code = 'ERR_LEVELHOOK_DISRUPTION_BUDGET';
}

/** The run's deadline has passed, or the gateway has hung up: nothing more may be written in this run. */
export class DeadlineError extends Error {
  static {
    acrossCopies(this, 'DeadlineError');
  }

  override readonly name = 'DeadlineError';
  readonly code = 'ERR_LEVELHOOK_DEADLINE';
}
