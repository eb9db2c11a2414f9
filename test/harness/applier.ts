import { type KubernetesObject, noCheckpoint, silentLogger, silentMetrics } from '../../src/core/index.ts';
import { Applier, type ApplierOptions } from '../../src/gateway/informer/cache/applier.ts';
import type { ChangeHandler } from '../../src/gateway/informer/cache/change.ts';
import { ChangeHandlers } from '../../src/gateway/informer/cache/change-handlers.ts';
import type { View } from '../../src/gateway/informer/cache/view.ts';
import type { WatchEvent } from '../../src/gateway/informer/reflector/watch-event.ts';

/**
 * An applier that calls the given handlers, by default none.
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

/** The events of a whole list of these objects, at this version. */
export function listOf(version: string, objects: readonly KubernetesObject[]): WatchEvent[] {
  return [
    { kind: 'init', rewound: false },
    ...objects.map((object) => ({ kind: 'listed' as const, object })),
    { kind: 'init-done', version, list: 0 },
  ];
}
