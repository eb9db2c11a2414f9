import { controller, type Controller, controllerReference, type RunToken } from 'levelhook/function';
import { configMaps } from './cluster.ts';

export const LONG_RUNNER = 'long-runner';
/** How long a run may go on without a word, at most. */
export const CALLBACK_SECONDS = 60;

/** What a run of the long runner saw, and how to go on with it. */
export interface LongRun {
  readonly runToken: RunToken | undefined;
  readonly attempt: number;
  /** Children in the cache, when it began. */
  readonly children: number;
}

/**
 * A controller whose runs go on for as many seconds as the ConfigMap's `data.seconds` says: the test goes on with them.
 * Without it they are done at once.
 */
export function longRunner(namespace: string, onRun: (name: string, run: LongRun) => void): Controller {
  return controller({
    name: LONG_RUNNER,
    for: configMaps,
    owns: [configMaps],
    concurrency: 4,
    // Longer than a busy machine needs until a run has said how long it takes.
    timeoutSeconds: 5,
    callbackSeconds: CALLBACK_SECONDS,
  }).reconcile(async (request, { cache, runToken }) => {
    if (request.namespace !== namespace) return;
    const parent = await cache.get(configMaps, request);
    const seconds = parent?.data?.['seconds'];
    if (!parent || seconds === undefined) return;
    const { items } = await cache.list(configMaps, { controlledBy: parent });
    onRun(request.name, { runToken, attempt: request.attempt, children: items.length });
    return { completesWithinSeconds: Number(seconds) };
  });
}

/** A child of the object of a run's key. */
export function childOf(parent: Parameters<typeof controllerReference>[1]) {
  const { namespace, name } = parent.metadata;
  const ownerReferences = [controllerReference(configMaps, parent)];
  return { metadata: { ...(namespace ? { namespace } : {}), generateName: `${name}-`, ownerReferences } };
}
