import * as fc from 'fast-check';
import { type Bulk, type BulkObject, textOf } from '../bulk.ts';

/** An object of a few fields, no name twice. */
export function objectOf(name: fc.Arbitrary<string>, value: fc.Arbitrary<Bulk>): fc.Arbitrary<BulkObject> {
  return fc
    .uniqueArray(fc.tuple(name, value), {
      maxLength: 3,
      selector: ([each]) => each,
    })
    .map((entries) => ({ fields: entries }));
}

/** The same element as often as a request may hold it, and no more often than this. */
export function many(items: Bulk, most: number): Bulk {
  return {
    items,
    times: Math.min(most, Math.floor(1_200_000 / (textOf(items).length + 1))),
  };
}

export function mostly<T>(usual: fc.Arbitrary<T>, other: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return fc.oneof({ weight: 20, arbitrary: usual }, { weight: 1, arbitrary: other });
}
