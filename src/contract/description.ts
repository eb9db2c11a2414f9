import type { GroupVersionKind } from '../core/index.ts';
import type { IndexSpec } from './cache-layout.ts';
import type {
  OwnedDescription,
  ReadDescription,
  ReconciledDescription,
  WatchedDescription,
  WrittenDescription,
} from './source.ts';
import type { CONTRACT_VERSION } from './trigger.ts';
import type { WebhookDescription } from './webhook.ts';

/** A function's description of its controller, the answer to a signed `GET /`. */
export interface Description {
  readonly version: typeof CONTRACT_VERSION;
  /** A DNS label. It names the queue, the metrics' label and the log field. */
  readonly name: string;
  /** The kind whose keys are reconciled: any event of such an object queues its own key. */
  readonly for: ReconciledDescription;
  /** Kinds whose events queue the key of their controller owner, or of each owner, when the owner is of kind `for`. */
  readonly owns: readonly OwnedDescription[];
  /** Kinds whose events queue objects of kind `for`, as `map` says. A kind may appear here more than once. */
  readonly watches: readonly WatchedDescription[];
  /** Kinds that the function reads from the cache. Their events queue no key. */
  readonly reads: readonly ReadDescription[];
  /** Kinds that the function writes, for the rights of its ServiceAccount. Absent: not known. */
  readonly writes?: readonly WrittenDescription[];
  /** Declared indexes for lists of the named kinds. Indexes by namespace and by controller always exist. */
  readonly indexes: readonly (GroupVersionKind & { readonly index: IndexSpec })[];
  /**
   * `any`: runs may name related objects of every kind that the cluster serves, and the gateway watches a kind as long
   * as keys name it. Default: the kinds in `watches` with the map `related`.
   */
  readonly relatedKinds?: 'any';
  /**
   * Fields of the kinds above. For each, the cache keeps the time of the last change of its value, for
   * `CacheReader.secondsUnchanged`. Default: none.
   */
  readonly observes?: readonly (GroupVersionKind & { readonly field: string })[];
  /** Keys reconciled at a time, over all replicas of the gateway. Default 1, as controller-runtime's. */
  readonly concurrency: number;
  /** The time a run may take, in seconds. Default 15. */
  readonly timeoutSeconds: number;
  /**
   * Keys in one trigger, at most. The function answers one result for each, and each counts towards `concurrency`. A
   * key that has failed is sent alone, and a gateway that does not know this field sends every key alone. Default 1.
   */
  readonly maxBatch?: number;
  /**
   * Runs may go on after the answer (a 202), for at most this long without a message to the callback. After Redis has
   * lost data, the controller's keys wait as long. Default: triggers name no callback.
   */
  readonly callbackSeconds?: number;
  /** Limits of the queue. Default: no limits, retried for ever. */
  readonly queue?: QueueDescription;
  /** Reviews of writes and conversions that the function answers. Default: none. */
  readonly webhooks?: readonly WebhookDescription[];
}

/** Limits of a controller's queue; each applies over all replicas of the gateway. */
export interface QueueDescription {
  /**
   * Failures in a row after which a key becomes a dead letter, which only an event or a person runs again. Default:
   * none.
   */
  readonly maxAttempts?: number;
  /** Starts of runs: `perSecond`, and `burst` at once after a pause. Default: no limit. */
  readonly rateLimit?: { readonly perSecond: number; readonly burst: number };
  /**
   * A woken key waits until nothing has woken it for `seconds`, but at most `maxSeconds` after the first wakeup. With
   * `leading` it waits only if it is running, or if its last run wrote less than `maxSeconds` ago: a lone event runs at
   * once, and a busy key runs once each `maxSeconds` (60 at most). A wait ends at the next full tenth of `seconds`, so
   * up to 0.1 s later, so that keys share a trigger. Default: it runs at once.
   */
  readonly debounce?: { readonly seconds: number; readonly maxSeconds: number; readonly leading?: boolean };
}
