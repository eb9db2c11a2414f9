import type { Clock, Logger, Metrics } from '../../core/index.ts';
import { createExpression, type Expression, type ExpressionOptions, type ExpressionTrouble } from './expression.ts';

export interface ExpressionsOptions {
  readonly controller: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Between two lines in the log about one expression. */
const QUIET_MS = 60_000;

/** The expressions of one controller: those without an answer are counted, and logged from time to time. */
export class Expressions {
  readonly #options: ExpressionsOptions;

  constructor(options: ExpressionsOptions) {
    this.#options = options;
  }

  /**
   * @param field where it stands in the controller's description.
   * @throws ExpressionError when it cannot be used.
   */
  create(text: string, field: string, options: Pick<ExpressionOptions, 'result' | 'hasOld'>): Expression {
    const { clock, controller, logger, metrics } = this.#options;
    let quietUntilMs = -Infinity;
    let untold = 0;
    const report = ({ reason, message }: ExpressionTrouble): void => {
      metrics.count('levelhook_expression_failures_total', { controller, reason });
      const now = clock.now();
      if (now < quietUntilMs) {
        untold += 1;
        return;
      }
      quietUntilMs = now + QUIET_MS;
      const then = options.result === 'bool' ? 'what it would decide passes' : 'it leads to all keys';
      logger.warn({ controller, field, reason, untold }, `an expression ${message}: ${then}`);
      untold = 0;
    };
    return createExpression(text, { ...options, report });
  }
}
