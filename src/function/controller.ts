import type { Logger, ObjectKey, Resource } from '../core/index.ts';
import type { IndexSpec, QueueDescription, Reason } from '../contract/index.ts';
import type { RunCredentials, RunToken } from './run-token.ts';
import type { ApiWriter } from './api-writer.ts';
import type { CacheReader } from './cache-reader.ts';
import type { Webhook } from './webhook.ts';
import type { OwnedSource, ReadSource, ReconciledSource, RelatedSource, WatchedSource } from './source.ts';

/** Which key to reconcile, and why. */
export interface ReconcileRequest extends ObjectKey {
  /** 1 for the first run since the key last succeeded. */
  readonly attempt: number;
  readonly reasons: readonly Reason[];
}

/** The context of a run. It must not be used after the run. */
export interface Context {
  /** The gateway's cache, at least as new as everything this key's previous run wrote. */
  readonly cache: CacheReader;
  /** The apiserver, with the function's own rights. */
  readonly api: ApiWriter;
  /** With controller, key, run number and `reconcileId` on each line. */
  readonly log: Logger;
  /** Names the trigger that this run came with, in the gateway's log too (`reconcileID`): a batch's runs share one. */
  readonly reconcileId?: string;
  /**
   * Names the objects on which this key depends, 64 rules at most, in place of those that an earlier run has named:
   *
   * ```ts
   * context.related([{ resource: ConfigMap, namespace: team, labelSelector: { matchLabels: { part: 'settings' } } }]);
   * ```
   *
   * The function may read them before or after the call, and misses no change: a key with a new rule runs once more,
   * and a later change wakes it. The rules stay until a run names others, or ends without an object of its key. They
   * count whether the run returns or throws. A run without a call changes nothing, and `[]` removes all rules; of
   * several calls the last one counts.
   * @throws TypeError for more than 64 rules or 256 names, and for a rule with both names and a selector.
   */
  readonly related: (sources: readonly RelatedSource[]) => void;
  /** Aborted at the deadline, and when the gateway hangs up. */
  readonly signal: AbortSignal;
  /**
   * Names this run for a process that finishes it after the answer: plain JSON, to be handed to a job or another
   * process and given to `levelhook/function/callback` there. Undefined when the controller does not say
   * `callbackSeconds`, or the gateway cannot be reached for it.
   */
  readonly runToken?: RunToken;
  /**
   * For the same process, which writes with them: `runTransport` of `levelhook/function/callback`. A secret, unlike
   * `runToken`. With `proxy` they are good until the outcome is told, a day at most; with `token` for `timeoutSeconds`
   * and `callbackSeconds` together, however often the run asks for more time. Undefined when the function has
   * credentials of its own.
   */
  readonly runCredentials?: RunCredentials;
}

/** The result of a run. Most runs return none, because the next change wakes the key. */
export interface Result {
  /** Run again after this time at the latest, 0.1 s at least; 0 asks for nothing. Replaces an earlier such wish. */
  readonly requeueAfterSeconds?: number;
  /**
   * The run goes on elsewhere, with `context.runToken`, and completes within this time: until then the key waits,
   * and takes no slot. Only where there is a run token, and `callbackSeconds` at most.
   */
  readonly completesWithinSeconds?: number;
}

/**
 * Brings the world one step nearer to what the object asks for. Level-based: it looks at how things are, not at what
 * happened. It may be run at any time, again and again, and one at a time for each key. Throwing counts as a failure
 * and is retried with backoff; see `TerminalError` and `RetryAfterError` for the exceptions.
 */
export type Reconcile = (request: ReconcileRequest, context: Context) => Promise<Result | void>;

export interface ControllerOptions {
  /** A DNS label. */
  readonly name: string;
  /** The kind whose keys are reconciled: all objects and events of it, or those that a source says. */
  readonly for: Resource | ReconciledSource;
  /** Kinds that this controller makes: an event of one queues its controller owner. Default none. */
  readonly owns?: readonly (Resource | OwnedSource)[];
  /**
   * The runs of a key write to the namespace of the key alone: `context.api` refuses a write to another one, or to a
   * cluster-scoped object, with a TypeError before it is sent. For a controller that acts with rights in all namespaces
   * on objects that their owners may write. Without effect on cluster-scoped keys. Default false.
   */
  readonly ownNamespaceOnly?: boolean;
  /**
   * Kinds whose events queue the objects of kind `for` to which `map` leads:
   * `[{ resource: Secret, map: { by: 'annotation', annotation: 'example.com/used-by' } }]`. Default none.
   */
  readonly watches?: readonly WatchedSource[];
  /** Kinds that are only read. Default none. */
  readonly reads?: readonly (Resource | ReadSource)[];
  /**
   * Indexes that lists of this controller need beside those by namespace and controller:
   * `[{ resource: Pod, index: 'field:spec.nodeName' }]`, or `labels` for lists by label selector. Default none.
   */
  readonly indexes?: readonly { readonly resource: Resource; readonly index: IndexSpec }[];
  /**
   * `any`: `context.related` may name objects of every kind that the cluster serves, as far as the ServiceAccount may
   * list and watch it. The gateway watches a kind from when a key names it until ten minutes after the last does. A
   * kind that is not served is watched once it is, which wakes the keys that name it. Default: the kinds in `watches`
   * with the map `{ by: 'related' }`.
   */
  readonly relatedKinds?: 'any';
  /**
   * Fields for whose values the cache keeps the time of the last change, for `cache.secondsUnchanged`: `[{ resource:
   * Lease, field: 'spec.renewTime' }]`, or for each item of a list that they know by the fields in braces:
   * `spec.taints[effect=NoExecute]{key,value}`. Of kinds that are named elsewhere here. Default none.
   */
  readonly observes?: readonly { readonly resource: Resource; readonly field: string }[];
  /** Keys at a time. Default 1. */
  readonly concurrency?: number;
  /** The most seconds that a run may take. Default 15. */
  readonly timeoutSeconds?: number;
  /**
   * Maximum of keys in one trigger: 1 to 100, and not more than `concurrency`. A trigger has keys that start at the
   * same time. They run at the same time, and each counts towards `concurrency`. Default: 10, or `concurrency` if that
   * is less.
   */
  readonly maxBatch?: number;
  /**
   * Runs may go on after they have returned (`Result.completesWithinSeconds`), for this long at most without a word, a
   * day at most. Keep it short and say so from time to time (`heartbeat`): it is also how long the keys wait when
   * Redis has lost data. Default: they may not.
   */
  readonly callbackSeconds?: number;
  /** Attempts, rate and debounce. Default: no limits. */
  readonly queue?: QueueDescription;
  /**
   * Admission and conversion webhooks, made by `levelhook/function/webhooks`, each with a name of its own. The same app
   * answers them. Default none.
   */
  readonly webhooks?: readonly Webhook[];
}

/** A controller: its declaration and its code. `createFunctionApp` makes an HTTP handler of it. */
export interface Controller extends ControllerOptions {
  readonly run: Reconcile;
}

/**
 * Declares a controller:
 *
 * ```ts
 * export const nightly = controller({ name: 'nightly', for: Report, owns: [Job] }).reconcile(async (request, { cache, api }) => {
 *   const report = await cache.get(Report, request);
 *   if (!report) return;
 *   ...
 * });
 * ```
 */
export function controller(options: ControllerOptions): { reconcile(run: Reconcile): Controller } {
  return { reconcile: (run) => ({ ...options, run }) };
}
