import { noCheckpoint, silentLogger, silentMetrics } from '../../src/core/index.ts';
import { Applier, type ApplierOptions } from '../../src/gateway/cache/applier.ts';
import type { ChangeHandler } from '../../src/gateway/cache/change.ts';
import { ChangeHandlers } from '../../src/gateway/cache/change-handlers.ts';
import type { View } from '../../src/gateway/cache/view.ts';

/**
 * An applier of which the given handlers hear, and by default none: then a test is about what is written alone.
 * @param onWakeups see `ApplierOptions`.
 */
export function applierOf(
  view: View,
  handlers: Readonly<Record<string, ChangeHandler>> = {},
  onWakeups: ApplierOptions['onWakeups'] = () => {},
): Applier {
  const all = new ChangeHandlers((_, error) => {
    throw error;
  });
  for (const [user, handler] of Object.entries(handlers)) all.set(user, [handler]);
  const quiet = { logger: silentLogger, metrics: silentMetrics, checkpoint: noCheckpoint };
  return new Applier({ view, handlers: all, onWakeups, ...quiet });
}
