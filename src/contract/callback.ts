import type { ObjectKey } from '../core/index.ts';
import type { RequestResult } from './outcome.ts';
import type { CONTRACT_VERSION } from './trigger.ts';

/** The body of the signed `POST` by which a function sends the outcome of a run that went on. */
export interface CallbackBody extends ObjectKey {
  readonly version: typeof CONTRACT_VERSION;
  readonly controller: string;
  /** As in the trigger's `callback`. */
  readonly token: string;
  /** The run that this is the outcome of: refused when it is not in flight any more. */
  readonly run: number;
  /** `accepted`: it still goes on, for so long from now. Anything else ends it. */
  readonly result: RequestResult;
}
