import { celLibrary } from './library.ts';
import { ExpressionError, type ParsedExpression, parseExpression } from './parse-expression.ts';
import { threadMs } from '../../../ground/time-slice.ts';

/** Milliseconds of processor time for parsing all expressions of one declaration. */
const LIMIT_MS = 500;

/**
 * Parses the expressions of one declaration, each once. All of them share one time limit. A later check of the
 * declaration, and its controller, reuse the parsed expressions.
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
    // The library is loaded first, so that the time for loading it is not counted.
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
