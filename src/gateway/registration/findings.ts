import type { RunningController } from '../controller/running/controller.ts';
import { FALSE, type Finding, TRUE } from './conditions.ts';
import type { PartialReconcileFunction } from './reconcile-function.ts';

/** Its part of the cache is being filled. */
export const FILLING = FALSE('CacheFilling', 'Waiting until all that it reads is in the cache.');
const COMPLETE = TRUE('CacheComplete', 'All that it reads is in the cache.');

const PAUSED_BY_SPEC = 'PausedBySpec';

/** Whether `spec.paused` had paused the keys when a gateway last wrote the status. */
export function isPausedBySpec({ status }: PartialReconcileFunction): boolean {
  return status?.conditions?.some(({ type, reason }) => type === 'Paused' && reason === PAUSED_BY_SPEC) === true;
}

/** An earlier gateway's finding about this declaration, if it was good: this gateway need not wake the function. */
export function reportedReachable({ metadata, status }: PartialReconcileFunction): Finding | undefined {
  const found = status?.conditions?.find(({ type }) => type === 'Reachable');
  if (found?.status !== 'True' || found.observedGeneration !== metadata.generation) return undefined;
  return TRUE(found.reason, found.message);
}

export function pausedOf(paused: boolean | undefined, isPaused: boolean): Finding {
  if (paused) return TRUE(PAUSED_BY_SPEC, 'spec.paused is true.');
  if (isPaused) return TRUE('PausedByHand', 'levelhook resume ends it.');
  return FALSE('NotPaused', 'Its keys are run as they come.');
}

export function handledBy(
  { failures: { missesEvents, remarks } }: RunningController,
  stalled: string | undefined,
): Finding {
  if (missesEvents !== undefined) {
    return FALSE('HandlersFail', `Events are missed, and all keys are queued once that has ended: ${missesEvents}`);
  }
  if (stalled !== undefined) return FALSE('KeysStalled', `Its keys are stalled: ${stalled}.`);
  if (remarks !== undefined) return TRUE('ExpressionsFail', `Events pass, or lead to all keys: ${remarks}.`);
  return TRUE('Handled', 'Its predicates and maps have heard of each event.');
}

/** The apiserver refuses the gateway, whatever the rights of the function. */
export function refusedBy({ sources: { refusal } }: RunningController): Finding | undefined {
  if (refusal === undefined) return undefined;
  return FALSE('GatewayForbidden', `The cache does not follow all that it reads: ${refusal}.`);
}

/** @param waitsFor why its keys wait, after data in Redis was lost. */
export async function syncedOf(controller: RunningController, waitsFor: string | undefined): Promise<Finding> {
  const refused = refusedBy(controller);
  if (refused) return refused;
  if (waitsFor !== undefined) return FALSE('Recovering', `Its keys wait after a loss of data: ${waitsFor}.`);
  const keptOut = await controller.sources.keptOut();
  const { all, leftOut } = keptOut;
  if (all === 0) return COMPLETE;
  const reasons = [
    ...(all > leftOut ? [`${all - leftOut} objects that are nested too deep or too large`] : []),
    ...(leftOut > 0
      ? [`${leftOut} objects whose namespaces or readers hold more than their share of Redis' short memory`]
      : []),
  ];
  return TRUE('ObjectsKeptOut', `All that it reads is in the cache but ${reasons.join(' and ')}.`);
}
