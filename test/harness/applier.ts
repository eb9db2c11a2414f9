import { noCheckpoint, silentMetrics } from '../../src/core/index.ts';
import { Applier } from '../../src/gateway/cache/applier.ts';
import type { ChangeHandler } from '../../src/gateway/cache/change.ts';
import type { View } from '../../src/gateway/cache/view.ts';

/** Wakes nobody: for tests of what is written, not of who hears of it. */
export const deaf: ChangeHandler = { needsOld: () => false, handle: () => [] };

/** An applier of which nobody hears. The view must be taken. */
export function deafApplier(view: View): Applier {
  return new Applier({ view, handler: deaf, users: () => [], metrics: silentMetrics, checkpoint: noCheckpoint });
}
