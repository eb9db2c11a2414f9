import { expect, it } from 'vitest';
import { batchesOf } from './batches.ts';

const startsOf = (...keys: string[]) => keys.map((key) => ({ run: { key } }));
const sizes = (keys: readonly string[], maxBatch: number): number[] =>
  batchesOf(startsOf(...keys), maxBatch).map(({ length }) => length);

it.each<[string, readonly string[], number, number[]]>([
  ['no keys', [], 10, []],
  ['more keys than one batch may have', ['a', 'b', 'c', 'd', 'e'], 2, [2, 2, 1]],
  ['keys that run alone', ['a', 'b'], 1, [1, 1]],
  ['long keys, which its token must be able to name', Array.from({ length: 40 }, () => 'n'.repeat(317)), 100, [25, 15]],
  ['a key that is longer than any batch', ['a', 'n'.repeat(10_000), 'b'], 10, [1, 1, 1]],
])('batches divide %s', (_, keys, maxBatch, expected) => {
  expect(sizes(keys, maxBatch)).toEqual(expected);
  expect(batchesOf(startsOf(...keys), maxBatch).flat()).toEqual(startsOf(...keys));
});
