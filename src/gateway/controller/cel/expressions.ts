import type { Clock, Logger, Metrics } from '../../../core/index.ts';
import type { CpuBudget } from './cpu-budget.ts';
import { createExpression, type Expression, type ExpressionOptions, type EvaluationError } from './expression.ts';
import { ParsedExpressions } from './parsed-expressions.ts';

/** The failures of a controller's expressions. */
export interface ExpressionFailure extends EvaluationError {
  /** Where it stands in the controller's description: `watches.0.map.expression`. */
  readonly field: string;
}

export interface ExpressionsOptions {
  readonly controller: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The controller's. */
  readonly budget: CpuBudget;
  /** Expressions that were parsed earlier. Default: none. */
  readonly parsed?: ParsedExpressions | undefined;
  /** Called for each failure, in addition to metric and log. Must not throw. Default: does nothing. */
  readonly onFailure?: ((failure: ExpressionFailure) => void) | undefined;
}

/** Between two lines in the log about one field. */
const QUIET_MS = 60_000;

/** The consequence of a failure, for the log. */
const CONSEQUENCES = {
  passes: 'the event passes',
  all: 'all keys are queued',
  missed: 'the controller misses a change, and all its keys are queued later',
} as const;

/**
 * The expressions of one controller, and its processor time. Each failed evaluation is counted and reported, and the
 * log gets a line from time to time.
 */
export class Expressions {
  readonly budget: CpuBudget;
  readonly #options: ExpressionsOptions;
  readonly #parsed: ParsedExpressions;

  constructor(options: ExpressionsOptions) {
    this.#options = options;
    this.budget = options.budget;
    this.#parsed = options.parsed ?? new ParsedExpressions();
  }

  /**
   * @param field where it stands in the controller's description.
   * @throws ExpressionError when it cannot be used.
   */
  create(text: string, field: string, options: Pick<ExpressionOptions, 'result' | 'hasOld'>): Expression {
    const reportFailure = this.reporter(field);
    const report = (error: EvaluationError): void =>
      reportFailure(error, options.result === 'bool' ? 'passes' : error.reason === 'time' ? 'missed' : 'all');
    return createExpression(text, { ...options, report, budget: this.budget, parsed: this.#parsed });
  }

  /** For work that is not an expression, and may run out of time, too. */
  reporter(field: string): (error: EvaluationError, consequence: keyof typeof CONSEQUENCES) => void {
    const { clock, controller, logger, metrics, onFailure } = this.#options;
    let quietUntilMs = -Infinity;
    let untold = 0;
    return ({ reason, message }, consequence) => {
      metrics.count('levelhook_expression_failures_total', { controller, reason });
      onFailure?.({ field, reason, message });
      const now = clock.now();
      if (now < quietUntilMs) {
        untold += 1;
        return;
      }
      quietUntilMs = now + QUIET_MS;
      logger.warn({ controller, field, reason, untold }, `${field} ${message}: ${CONSEQUENCES[consequence]}`);
      untold = 0;
    };
  }
}
