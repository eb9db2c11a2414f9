import type { Logger, ObjectKey, Resource } from '../core/index.ts';
import type { IndexSpec, QueueDescription, Reason } from '../contract/index.ts';
import type { RunCredentials, RunToken } from './run-token.ts';
import type { ApiWriter } from './api-writer.ts';
import type { CacheReader } from './cache-reader.ts';
import type { Webhook } from './webhook.ts';
import type {
  OwnedSource,
  ReadSource,
  ReconciledSource,
  RelatedSource,
  WatchedSource,
  WrittenSource,
} from './source.ts';

/** The key to reconcile, and the reasons. */
export interface ReconcileRequest extends ObjectKey {
  /** 1 for the first run since the key last succeeded. */
  readonly attempt: number;
  readonly reasons: readonly Reason[];
}

/** The context of a run. It must not be used after the run. */
export interface Context {
  /** The gateway's cache, at least as new as all writes of this key's previous run. */
  readonly cache: CacheReader;
  /** The apiserver, with the function's own rights. */
  readonly api: ApiWriter;
  /** With controller, key, run number and `reconcileId` on each line. */
  readonly log: Logger;
  /** Identifies the trigger of this run, in the gateway's log too (`reconcileID`). The runs of a batch share one. */
  readonly reconcileId?: string;
  /**
   * Names the objects that this key depends on, 64 rules at most. They replace the objects of an earlier run:
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
   * Lets another process finish this run after the answer: plain JSON, for `levelhook/function/callback` in a job or
   * another process. Undefined when the controller has no `callbackSeconds`, or the function cannot reach the gateway.
   */
  readonly runToken?: RunToken;
  /**
   * Credentials for that process: `runTransport` of `levelhook/function/callback` writes with them. A secret, unlike
   * `runToken`. With `proxy` they are valid until the outcome is sent, a day at most; with `token` for `timeoutSeconds`
   * and `callbackSeconds` together, even if heartbeats extend the run. Undefined when the function has credentials of
   * its own.
   */
  readonly runCredentials?: RunCredentials;
}

/** The result of a run. Most runs return none, because the next change wakes the key. */
export interface Result {
  /** Run again after this time at the latest, 0.1 s at least. 0 requests nothing. Replaces an earlier value. */
  readonly requeueAfterSeconds?: number;
  /**
   * The run goes on elsewhere, with `context.runToken`, and completes within this time: until then the key waits
   * without occupying a slot of `concurrency`. Needs a run token, and is `callbackSeconds` at most.
   */
  readonly completesWithinSeconds?: number;
}

/**
 * Brings the world one step nearer to the object's desired state. Level-based: it acts on the current state, not on
 * events. It may run at any time, again and again, and one at a time for each key. Throwing counts as a failure and is
 * retried with backoff; see `TerminalError` and `RetryAfterError` for the exceptions.
 */
export type Reconcile = (request: ReconcileRequest, context: Context) => Promise<Result | void>;

export interface ControllerOptions {
  /** A DNS label. */
  readonly name: string;
  /** The kind whose keys are reconciled: all its objects and events, or the ones that a source chooses. */
  readonly for: Resource | ReconciledSource;
  /** Kinds that this controller creates: an event of such an object queues its controller owner. Default none. */
  readonly owns?: readonly (Resource | OwnedSource)[];
  /**
   * Lets a run write outside the namespace of its key. By default `context.api` refuses a write to another namespace,
   * or to a cluster-scoped object, with a TypeError before it is sent: what a tenant writes into its object or into a
   * copied owner reference never leads to a write elsewhere. Reads are not restricted, nor are runs of cluster-scoped
   * keys. Default false.
   */
  readonly writesAcrossNamespaces?: boolean;
  /**
   * Kinds whose events queue objects of kind `for`, as `map` says:
   * `[{ resource: Secret, map: { by: 'annotation', annotation: 'example.com/used-by' } }]`. Default none.
   */
  readonly watches?: readonly WatchedSource[];
  /** Kinds that are only read. Default none. */
  readonly reads?: readonly (Resource | ReadSource)[];
  /**
   * What the controller writes: `[{ resource: Site, subresource: 'status', verbs: ['update'] }]`. Kinds in `owns` need
   * no entry if they are created, updated, patched and deleted; an entry takes the place of these verbs. `context.api`
   * then refuses every other write with a TypeError before it is sent, in tests as in production, and `levelhook
   * manifest` prints the rights. Default: not checked, and no rights are printed.
   */
  readonly writes?: readonly WrittenSource[];
  /**
   * Declared indexes for lists of this controller: `[{ resource: Pod, index: 'field:spec.nodeName' }]`, or `labels` for
   * lists by label selector. Indexes by namespace and by controller always exist. Default none.
   */
  readonly indexes?: readonly { readonly resource: Resource; readonly index: IndexSpec }[];
  /**
   * `any`: `context.related` may name objects of every kind that the cluster serves, as far as the ServiceAccount may
   * list and watch it. The gateway watches a kind from when a key names it until ten minutes after the last key stops.
   * A kind that is not served yet is watched once it is, which wakes the keys that name it. Default: the kinds in
   * `watches` with the map `{ by: 'related' }`.
   */
  readonly relatedKinds?: 'any';
  /**
   * Fields whose last change the cache records, for `cache.secondsUnchanged`: `[{ resource: Lease, field:
   * 'spec.renewTime' }]`. With fields in braces, each item of a list has its own time, and these fields identify it:
   * `spec.taints[effect=NoExecute]{key,value}`. Their kinds must be declared above. Default none.
   */
  readonly observes?: readonly { readonly resource: Resource; readonly field: string }[];
  /** Keys that run at the same time. Default 1. */
  readonly concurrency?: number;
  /** The longest time that a run may take, in seconds. Default 15. */
  readonly timeoutSeconds?: number;
  /**
   * Maximum of keys in one trigger: 1 to 100, and not more than `concurrency`. A trigger has keys that start at the
   * same time. They run at the same time, and each counts towards `concurrency`. Default: 10, or `concurrency` if that
   * is less.
   */
  readonly maxBatch?: number;
  /**
   * Lets runs go on after they have returned (`Result.completesWithinSeconds`), for at most this long without a
   * `heartbeat`, a day at most. Keep it short and send heartbeats, because after Redis has lost data the keys wait this
   * long. Default: runs end when they return.
   */
  readonly callbackSeconds?: number;
  /** Attempts, rate and debounce. Default: no limits. */
  readonly queue?: QueueDescription;
  /**
   * Admission and conversion webhooks, made by `levelhook/function/webhooks`, with distinct names. The same app answers
   * them. Default none.
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
