import { expect, it } from 'vitest';
import { backoffMs } from './backoff.ts';

it('a backoff doubles from the first wait to the longest', () => {
  expect([0, 1, 2, 3, 4, 5, 5000].map((failures) => backoffMs([250, 3000], failures))).toEqual([
    250, 250, 500, 1000, 2000, 3000, 3000,
  ]);
});
