import type { ObjectKey } from '../core/index.ts';
import type { RequestResult } from './outcome.ts';
import type { CONTRACT_VERSION } from './trigger.ts';

/** The body of the signed `POST` that sends the outcome of a run that went on after its answer. */
export interface CallbackBody extends ObjectKey {
  readonly version: typeof CONTRACT_VERSION;
  readonly controller: string;
  /** As in the trigger's `callback`. */
  readonly token: string;
  /** The run with this outcome. The gateway refuses it when the run is no longer in flight. */
  readonly run: number;
  /** `accepted`: the run goes on, and its time counts from now. Anything else ends it. */
  readonly result: RequestResult;
}
