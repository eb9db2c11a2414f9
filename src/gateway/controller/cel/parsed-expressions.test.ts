import { expect, it } from 'vitest';
import { ExpressionError } from './parse-expression.ts';
import { ParsedExpressions } from './parsed-expressions.ts';

it('an expression is parsed once for a declaration, and so is one that cannot be used', () => {
  const parsed = new ParsedExpressions();
  const first = parsed.parse('object.a == 1', ['object']);
  expect(parsed.parse('object.a == 1', ['object'])).toBe(first);
  expect(parsed.parse('object.a == 1', ['object', 'oldObject'])).not.toBe(first);
  const failure = (): unknown => {
    try {
      return parsed.parse('object.', ['object']);
    } catch (error) {
      return error;
    }
  };
  expect(failure()).toBeInstanceOf(ExpressionError);
  expect(failure()).toBe(failure());
});

it('the expressions of a declaration have half a second together', () => {
  const parsed = new ParsedExpressions();
  let count = 0;
  const together = 'cannot be read within the 500 ms that all have together';
  const parseAll = (): void => {
    for (; count < 100_000; count += 1) {
      try {
        parsed.parse(`object.a${count}${'+1'.repeat(200)} == 1`, ['object']);
      } catch (error) {
        // On a busy machine, a single expression may also take too long.
        if (String(error).includes(together)) throw error;
      }
    }
  };
  expect(parseAll).toThrow(together);
  expect(count).toBeGreaterThan(4);
});
