import { encodeEntry, type IndexSpec, indexEntriesOf, KEPT_OUT_INDEX, type ObjectEntry } from '../../contract/index.ts';
import type { View } from './view.ts';

/**
 * Brings what is already cached under the declared indexes, and out of those that are no longer declared. The applier
 * must use the same specs for what it writes meanwhile. An index counts as complete only when every object has been
 * through; one that already was stays so.
 */
export async function backfill(view: View, specs: readonly IndexSpec[], signal: AbortSignal): Promise<void> {
  const complete = await view.indexes();
  const cutOff = await view.filling();
  const known = complete.filter((spec) => specs.includes(spec));
  if (cutOff.length === 0 && known.length === specs.length && known.length === complete.length) return;
  // First withdrawn, then emptied; first filled, then promised. A gateway that takes over in between finds the
  // unfinished indexes.
  const underWay = new Set([...cutOff, ...complete, ...specs]);
  await view.setIndexes(known, [...underWay]);
  for await (const keys of view.keys(50)) {
    signal.throwIfAborted();
    const entries = await view.entries(keys);
    const moves: { key: string; from: ObjectEntry; to: ObjectEntry }[] = [];
    let at = 0;
    for await (const { key, object } of view.each(keys)) {
      const from = entries[at++];
      // Read one after the other: an object of another version than its entry has just been written, with the new
      // specs.
      if (!from || !object || object.metadata.resourceVersion !== from.resourceVersion) continue;
      const kept = from.indexEntries.filter((entry) => entry === KEPT_OUT_INDEX);
      const to = { ...from, indexEntries: [...indexEntriesOf(object, specs), ...kept] };
      if (encodeEntry(to) !== encodeEntry(from)) moves.push({ key, from, to });
    }
    await view.reindex(moves);
  }
  await view.setIndexes(specs);
}
