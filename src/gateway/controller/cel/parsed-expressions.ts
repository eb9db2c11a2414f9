import { celLibrary } from './library.ts';
import { ExpressionError, type ParsedExpression, parseExpression } from './parse-expression.ts';
import { threadMs } from './time-limit.ts';

/** Of processor time, for all expressions of one declaration. */
const LIMIT_MS = 500;

/**
 * The expressions of one declaration, each parsed once. The cost is bounded for all of them together, and is not paid
 * again when the declaration is checked again, or run.
 */
export class ParsedExpressions {
  readonly #parsed = new Map<string, ParsedExpression | ExpressionError>();
  #leftMs = LIMIT_MS;

  /** @throws ExpressionError when it cannot be used, or the declaration's expressions take too long together. */
  parse(text: string, variables: readonly string[]): ParsedExpression {
    const key = `${variables.join(' ')}\n${text}`;
    let found = this.#parsed.get(key);
    if (!found) {
      found = this.#parseNow(text, variables);
      this.#parsed.set(key, found);
    }
    if (found instanceof ExpressionError) throw found;
    return found;
  }

  #parseNow(text: string, variables: readonly string[]): ParsedExpression | ExpressionError {
    if (this.#leftMs <= 0)
      return new ExpressionError(`cannot be read within the ${LIMIT_MS} ms that all have together`);
    // Loaded before the time of the expression is measured.
    celLibrary();
    const from = threadMs();
    try {
      return parseExpression(text, variables);
    } catch (error) {
      if (error instanceof ExpressionError) return error;
      throw error;
    } finally {
      this.#leftMs -= threadMs() - from;
    }
  }
}
