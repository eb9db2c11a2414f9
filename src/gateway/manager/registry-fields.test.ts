import { expect, it } from 'vitest';
import { isRemoved, removedAtMs, removedValue } from './registry-fields.ts';

it.each<[string, boolean, number | undefined]>([
  ['1', false, undefined],
  [removedValue(1_763_000_000_000), true, 1_763_000_000_000],
  // By a gateway of a version that wrote no time.
  ['removed', true, undefined],
  ['removed:soon', true, undefined],
])('%s: removed %s, at %s', (value, removed, atMs) => {
  expect(isRemoved(value)).toBe(removed);
  expect(removedAtMs(value)).toBe(atMs);
});
