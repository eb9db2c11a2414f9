import { BATCH_CHARACTERS } from '../queue-options.ts';

/**
 * Divides what begins together into batches, in the same order: each of `maxBatch` keys and `BATCH_CHARACTERS` at most.
 */
export function batchesOf<T extends { readonly run: { readonly key: string } }>(
  together: readonly T[],
  maxBatch: number,
): readonly (readonly T[])[] {
  const batches: T[][] = [];
  let characters = 0;
  for (const each of together) {
    const { length } = each.run.key;
    const last = batches.at(-1);
    if (last && last.length < maxBatch && characters + length <= BATCH_CHARACTERS) {
      last.push(each);
      characters += length;
    } else {
      batches.push([each]);
      characters = length;
    }
  }
  return batches;
}
