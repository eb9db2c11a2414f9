import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { diffLines } from './line-diff.ts';

test('marks what was removed and what was added, and leaves the rest', () => {
  expect(diffLines('a\nb\nc', 'a\nx\nc\nd')).toEqual([
    { side: 'both', text: 'a' },
    { side: 'left', text: 'b' },
    { side: 'right', text: 'x' },
    { side: 'both', text: 'c' },
    { side: 'right', text: 'd' },
  ]);
});

test('each side can be read from the difference again, and equal texts have none', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', '')).map((lines) => lines.join('\n'));
  fc.assert(
    fc.property(text, text, (left, right) => {
      const lines = diffLines(left, right);
      const of = (side: 'left' | 'right'): string =>
        lines
          .filter((line) => line.side === side || line.side === 'both')
          .map((line) => line.text)
          .join('\n');
      expect(of('left')).toBe(left);
      expect(of('right')).toBe(right);
      if (left === right) expect(lines.every(({ side }) => side === 'both')).toBe(true);
    }),
  );
});

test('texts of many different lines are compared without a table of all pairs', () => {
  const many = (prefix: string): string => Array.from({ length: 5000 }, (_, at) => `${prefix}${at}`).join('\n');
  expect(diffLines(`head\n${many('a')}`, `head\n${many('b')}`)).toHaveLength(10_001);
});
