import type { Clock, Logger, Metrics } from '../../../core/index.ts';
import type { CpuBudget } from './cpu-budget.ts';
import { createExpression, type Expression, type ExpressionOptions, type EvaluationError } from './expression.ts';
import { ParsedExpressions } from './parsed-expressions.ts';

/** A failed evaluation of one of a controller's expressions. */
export interface ExpressionFailure extends EvaluationError {
  /** Where it stands in the controller's description: `watches.0.map.expression`. */
  readonly field: string;
}

export interface ExpressionsOptions {
  readonly controller: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** The budget of the controller. */
  readonly budget: CpuBudget;
  /** Expressions that were parsed earlier. Default: none. */
  readonly parsed?: ParsedExpressions | undefined;
  /** Called for each failure, in addition to metric and log. Must not throw. Default: does nothing. */
  readonly onFailure?: ((failure: ExpressionFailure) => void) | undefined;
}

/** The least time between two log lines about one field. */
const QUIET_MS = 60_000;

/** The consequence of a failure, for the log. */
const CONSEQUENCES = {
  passes: 'the event passes',
  all: 'all keys are queued',
  missed: 'the controller misses a change, and all its keys are queued later',
} as const;

/**
 * Creates the expressions of one controller, which its budget pays for. Each failed evaluation is counted and reported,
 * and logged at most once a minute for each field.
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

  /**
   * Returns the function that reports failures of one field. Other work that may run out of time, such as a mapper,
   * uses it as well.
   */
  reporter(field: string): (error: EvaluationError, consequence: keyof typeof CONSEQUENCES) => void {
    const { clock, controller, logger, metrics, onFailure } = this.#options;
    let quietUntilMs = -Infinity;
    let leftOut = 0;
    return ({ reason, message }, consequence) => {
      metrics.count('levelhook_expression_failures_total', { controller, reason });
      onFailure?.({ field, reason, message });
      const now = clock.now();
      if (now < quietUntilMs) {
        leftOut += 1;
        return;
      }
      quietUntilMs = now + QUIET_MS;
      logger.warn({ controller, field, reason, leftOut }, `${field} ${message}: ${CONSEQUENCES[consequence]}`);
      leftOut = 0;
    };
  }
}
