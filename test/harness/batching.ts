import { controller, type Controller, controllerReference } from 'levelhook/function';
import type { Trigger } from '../../src/contract/index.ts';
import { configMaps } from './cluster.ts';

/** The time of a run of the batching function. */
export const BATCH_TIMEOUT_SECONDS = 5;
export const BATCHER = 'batcher';

/**
 * Many short runs in few triggers. What a ConfigMap of the namespace asks for in `data.do`:
 *
 * - `fail`, `give-up`, `hang`: to do so, at each run; `fail-once`: at the first attempt
 * - a number: to have as many children, of which each run makes one when the cache shows too few. It never takes one
 *   away: a run that did not see what was written before makes one too many.
 */
export function batcher(namespace: string): Controller {
  return controller({
    name: BATCHER,
    for: configMaps,
    owns: [configMaps],
    concurrency: 20,
    maxBatch: 10,
    timeoutSeconds: BATCH_TIMEOUT_SECONDS,
  }).reconcile(async (request, { cache, api }) => {
    if (request.namespace !== namespace) return;
    const parent = await cache.get(configMaps, request);
    const asked = parent?.data?.['do'];
    if (!parent || asked === undefined) return;
    if (asked === 'fail' || (asked === 'fail-once' && request.attempt === 1)) throw new Error(`no ${request.name}`);
    if (asked === 'hang') await new Promise(() => {});
    const wanted = Number(asked);
    if (Number.isNaN(wanted)) return;
    const { items } = await cache.list(configMaps, { controlledBy: parent });
    if (items.length >= wanted) return;
    const ownerReferences = [controllerReference(configMaps, parent)];
    await api.create(configMaps, { metadata: { namespace, generateName: `${request.name}-`, ownerReferences } });
    return { requeueAfterSeconds: 0.1 };
  });
}

/** The sizes of the triggers that held these keys, and the attempts at which they did. */
export function batchesOf(triggers: readonly Trigger[], name: string): { size: number; attempt: number }[] {
  return triggers.flatMap(({ requests }) => {
    const [mine] = requests.filter((request) => request.name === name);
    return mine ? [{ size: requests.length, attempt: mine.attempt }] : [];
  });
}
