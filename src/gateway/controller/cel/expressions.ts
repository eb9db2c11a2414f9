import { type AdmittedLine, type Clock, LimitedLines, type Logger, type Metrics } from '../../../core/index.ts';
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
  /** The tenant's limit of lines, in addition to the field's own. Default: none. */
  readonly admitLine?: (() => AdmittedLine | undefined) | undefined;
}

/** Log lines about one field of a controller: one a minute. The tenant's lines have a limit as well (`admitLine`). */
const LINES = { perSecond: 1 / 60, burst: 1 };

/** The consequence of a failure, for the log. */
const CONSEQUENCES = {
  passes: 'the event passes',
  all: 'all keys are queued',
  missed: 'the controller misses a change, and all its keys are queued later',
} as const;

/**
 * Creates the expressions of one controller, which its budget pays for. Each failed evaluation is counted and reported,
 * and logged at most once a minute for each field, within the limit of its tenant.
 */
export class Expressions {
  readonly budget: CpuBudget;
  readonly #options: ExpressionsOptions;
  readonly #parsed: ParsedExpressions;
  readonly #lines: LimitedLines;

  constructor(options: ExpressionsOptions) {
    this.#options = options;
    this.budget = options.budget;
    this.#parsed = options.parsed ?? new ParsedExpressions();
    this.#lines = new LimitedLines(options.clock, LINES);
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
    const { admitLine = () => ({}), controller, logger, metrics, onFailure } = this.#options;
    return ({ reason, message }, consequence) => {
      metrics.count('levelhook_expression_failures_total', { controller, reason });
      onFailure?.({ field, reason, message });
      this.#lines.write(field, (ofField) => {
        const ofTenant: AdmittedLine | undefined = admitLine();
        if (!ofTenant) return;
        const leftOut = (ofField.leftOut ?? 0) + (ofTenant.leftOut ?? 0);
        const admitted = leftOut > 0 ? { leftOut } : {};
        logger.warn({ controller, field, reason, ...admitted }, `${field} ${message}: ${CONSEQUENCES[consequence]}`);
      });
    };
  }
}
