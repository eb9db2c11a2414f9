import { declaredIndex, type ObjectEntry } from '../../../contract/cache-layout.ts';
import type { IndexSpec } from '../../../contract/index.ts';

/**
 * An object with this annotation is not reconciled, whatever the value, except for `false`. A change of it passes
 * all predicates: it must reach the queue, where the key waits.
 */
export const PAUSED_ANNOTATION = 'levelhook.dev/paused';

/** Every view of reconciled objects has this index, so that the annotation is known without decoding the object. */
export const PAUSED_INDEX: IndexSpec = `annotation:${PAUSED_ANNOTATION}`;

/** Each entry of that index begins with this. */
export const PAUSED = declaredIndex(PAUSED_INDEX, '');
const NOT_PAUSED = declaredIndex(PAUSED_INDEX, 'false');

/** Whether an index entry holds the annotation's value. */
export function isPausedEntry(entry: string): boolean {
  return entry.startsWith(PAUSED);
}

/** Whether an object is paused; false for an object that does not exist. */
export function isPaused(entry: ObjectEntry | undefined): boolean {
  return entry?.indexEntries.some((each) => isPausedEntry(each) && each !== NOT_PAUSED) ?? false;
}
