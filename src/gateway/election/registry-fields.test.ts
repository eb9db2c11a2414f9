import { expect, it } from 'vitest';
import { removalOf, removedValue } from './registry-fields.ts';

it.each([
  [removedValue({ atMs: 1_763_000_000_000 }), { atMs: 1_763_000_000_000 }],
  [removedValue({ atMs: 1, endMs: 2 }), { atMs: 1, endMs: 2 }],
  ['1', undefined],
  ['removed', undefined],
  ['removed:', undefined],
  ['removed:soon', undefined],
  ['removed:-1', undefined],
  ['removed:1:', undefined],
])('%j tells of a removal: %j', (value, removal) => {
  expect(removalOf(value)).toEqual(removal);
});
