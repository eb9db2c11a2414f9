import { isName, isNamespace } from '../core/index.ts';
import type { CacheScope } from './cache-scope.ts';

/** The contract's version. A function refuses a trigger of another major version with 400 and names its own. */
export const CONTRACT_VERSION = 'v1';

/** Why a key was queued. Limited in number; when wakeups of one key are merged, the oldest reasons stay. */
export interface Reason {
  /** An event of a watched object, or an action of the queue itself. */
  readonly type: 'added' | 'updated' | 'deleted' | 'initial' | 'resync' | 'requeue' | 'retry' | 'manual';
  /** The object of the event, as `apiVersion/Kind namespace/name`; absent when no object was involved. */
  readonly object?: string;
  /** The resourceVersion of that object at that event. */
  readonly resourceVersion?: string;
  /** The message of the caller that asked for the run. At most 200 characters. */
  readonly message?: string;
}

/** One key to reconcile. */
export interface TriggerRequest {
  /** Absent for a cluster-scoped object. */
  readonly namespace?: string;
  readonly name: string;
  /** 1 for the first run since the key last succeeded, one more for every failure since. */
  readonly attempt: number;
  /**
   * The fencing number: grows with every run of this controller. The gateway refuses an outcome with an older number.
   */
  readonly run: number;
  readonly reasons: readonly Reason[];
}

/** The body of the signed `POST` that asks a function to reconcile. */
export interface Trigger {
  readonly version: typeof CONTRACT_VERSION;
  /** The name of the controller, as the function describes itself. */
  readonly controller: string;
  /** RFC 3339. Nothing may be written after it. */
  readonly deadline: string;
  /**
   * Seconds left when the trigger was sent. The function takes the earlier of this and `deadline`, because clocks
   * differ.
   */
  readonly remainingSeconds: number;
  readonly cache: CacheLocation;
  /** At least one; more only for a function whose description says `maxBatch`. Each key once. */
  readonly requests: readonly TriggerRequest[];
  /** Only for a function whose description has `callbackSeconds`, and from a gateway that such a function can reach. */
  readonly callback?: CallbackLocation;
  /** Only for a function whose declaration leaves its credentials to the gateway, and over https or loopback. */
  readonly kubernetes?: KubernetesLocation;
}

/** Where a function reaches the Kubernetes API, and its credentials. */
export interface KubernetesLocation {
  /** Base URL: the function appends `/apis/apps/v1/...`. Https or loopback. */
  readonly url: string;
  /** The bearer token for `url`, valid until after the deadline. */
  readonly token: string;
  /** Certificate authorities for `url`, in addition to the platform's: PEM, in base64. Absent: the platform's alone. */
  readonly caBundle?: string;
  /**
   * The gateway forwards the requests. It records the writes, so the outcome need not name them, and it needs the
   * header `levelhook-run` with the number of the writing run. Absent: the outcome names the writes.
   */
  readonly recordsWrites?: true;
}

/** The header with the number of the writing run: see `KubernetesLocation.recordsWrites`. */
export const RUN_HEADER = 'levelhook-run';

/** Where the function sends the outcome of a run that goes on after the answer to its trigger. */
export interface CallbackLocation {
  /** Takes a signed `POST` with a `CallbackBody`, at every gateway of the cluster. */
  readonly url: string;
  /**
   * Opaque. It distinguishes this queue from an earlier queue of the same name that lost its data and counts its runs
   * anew.
   */
  readonly token: string;
  /** A run may go on for at most this long without a callback. */
  readonly maxSeconds: number;
}

/** Where the function finds the gateway's cache. */
export interface CacheLocation {
  /** By `apiVersion/Kind`: one view of everything cached, or one for each cached namespace. For the Redis reader. */
  readonly views: Readonly<Record<string, readonly ViewLocation[]>>;
  /**
   * The Redis user that may read these views, with a password derived from the signing secret (`node/reader-user`).
   * Absent when the gateway makes none.
   */
  readonly redisUser?: string;
  /**
   * Kinds that are encrypted in Redis, so that only the cache API can read them, by `apiVersion/Kind`: `*`, or the
   * cached namespaces. They are not among `views`. Absent when there are none.
   */
  readonly encrypted?: CacheScope;
  /**
   * Base URL of the cache API: the function appends `/apis/apps/v1/...` to `https://gateway.example.com/cache`. Https
   * or loopback. Absent when the gateway has no such address, or the trigger is sent over neither.
   */
  readonly url?: string;
  /**
   * The gateways' time when the trigger was sent, in milliseconds, for the Redis reader. Times of observed values are
   * from this clock, which is no wall clock.
   */
  readonly now?: number;
  /**
   * The bearer token for `url`: for this controller's kinds and namespaces alone, and valid until the runs of the
   * trigger, or the review, are over.
   */
  readonly token?: string;
}

export interface ViewLocation {
  /** The first part of the view's keys in Redis (see `cache-layout`). */
  readonly prefix: string;
  /** The only namespace of the view. Absent: all namespaces. */
  readonly namespace?: string;
  /**
   * The view's position when the trigger was sent: the reader refuses a view with a lower one (`cache-layout`). Absent
   * in a review, and when the view has never been complete.
   */
  readonly position?: number;
}

/** A signed body breaks the contract: a version mismatch or a fault, never an attack. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
}

/**
 * Decodes the verified body of a trigger. The signature vouches for the sender, so this checks the version and the
 * shape that a function relies on, not every field: it is part of each function's bundle and stays small.
 */
export function decodeTrigger(body: string): Trigger {
  let value: Partial<Trigger>;
  try {
    value = JSON.parse(body) as Partial<Trigger>;
  } catch {
    throw new ContractError('the body of the trigger is not JSON');
  }
  if (value?.version !== CONTRACT_VERSION) {
    // Not String(): it throws for an object whose own `toString` throws.
    const spoken = typeof value?.version === 'string' ? value.version : JSON.stringify(value?.version);
    throw new ContractError(`the trigger speaks contract ${spoken}, this function ${CONTRACT_VERSION}`);
  }
  const complete =
    typeof value.controller === 'string' &&
    typeof value.deadline === 'string' &&
    typeof value.remainingSeconds === 'number' &&
    typeof value.cache?.views === 'object' &&
    value.cache.views !== null &&
    Array.isArray(value.requests) &&
    value.requests.length > 0 &&
    value.requests.every(isRequest);
  if (!complete) throw new ContractError('the trigger lacks a field that contract v1 requires');
  return value as Trigger;
}

function isRequest(value: Partial<TriggerRequest> | null): boolean {
  const { namespace, name, run } = value ?? {};
  return isName(name) && (namespace === undefined || isNamespace(namespace)) && typeof run === 'number';
}
