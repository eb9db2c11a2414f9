import type { GroupVersionKind } from '../core/index.ts';
import type { CONTRACT_VERSION } from './trigger.ts';

/** What a function says about its controller in answer to a signed `GET /`. */
export interface Description {
  readonly version: typeof CONTRACT_VERSION;
  /** A DNS label: names the queue, the metrics' label and the log field. */
  readonly name: string;
  /** The kind whose keys are reconciled: any event of such an object queues its own key. */
  readonly for: GroupVersionKind;
  /** Kinds whose events queue the key of their controller owner, when that is of kind `for`. */
  readonly owns: readonly GroupVersionKind[];
  /** Kinds that are cached to be read, and queue nothing. */
  readonly reads: readonly GroupVersionKind[];
  /** Keys reconciled at a time, over all replicas of the gateway. Default 1, as controller-runtime's. */
  readonly concurrency: number;
  /** The time a run may take, in seconds. Default 15. */
  readonly timeoutSeconds: number;
}
