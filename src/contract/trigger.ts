import { isName, isNamespace } from '../core/index.ts';
import type { CacheScope } from './cache-scope.ts';

/** The contract's version. A function refuses a trigger of another major version with 400 and says which it speaks. */
export const CONTRACT_VERSION = 'v1';

/** Why a key was put into the queue. Bounded in number and merged when wakeups of one key are; the oldest stay. */
export interface Reason {
  /** What happened: an event of a watched object, or something that the queue itself did. */
  readonly type: 'added' | 'updated' | 'deleted' | 'initial' | 'resync' | 'requeue' | 'retry' | 'manual';
  /** The object whose event it was, as `apiVersion/Kind namespace/name`; absent when no object was involved. */
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
  /** The fencing number: grows with every run of this controller. An outcome with an older one is refused. */
  readonly run: number;
  readonly reasons: readonly Reason[];
}

/** The body of the signed `POST` by which the gateway asks a function to reconcile. */
export interface Trigger {
  readonly version: typeof CONTRACT_VERSION;
  /** The name of the controller, as the function describes itself. */
  readonly controller: string;
  /** RFC 3339. Nothing may be written after it. */
  readonly deadline: string;
  /** Seconds left when the trigger was sent. The function takes the earlier of this and `deadline`: clocks differ. */
  readonly remainingSeconds: number;
  readonly cache: CacheLocation;
  /** At least one; more only for a function whose description says `maxBatch`. Each key once. */
  readonly requests: readonly TriggerRequest[];
  /**
   * Only for a function whose description says `callbackSeconds`, and from a gateway that such a function can reach.
   */
  readonly callback?: CallbackLocation;
  /** Only for a function whose declaration leaves its credentials to the gateway, and over https or loopback. */
  readonly kubernetes?: KubernetesLocation;
}

/** Where a function reaches the Kubernetes API, and as whom. */
export interface KubernetesLocation {
  /** To which `/apis/apps/v1/...` is appended. Https or loopback. */
  readonly url: string;
  /** The bearer token for it, valid until after the deadline. */
  readonly token: string;
  /**
   * Certificate authorities of `url` beside those that the platform trusts: PEM, in base64. Absent: the platform's
   * alone.
   */
  readonly caBundle?: string;
  /**
   * The gateway takes the requests. It records the writes, so the outcome need not name them, and it needs the header
   * `levelhook-run` with the number of the run that writes. Absent: the outcome names the writes.
   */
  readonly recordsWrites?: true;
}

/** The header that says which run of a trigger writes: see `KubernetesLocation.recordsWrites`. */
export const RUN_HEADER = 'levelhook-run';

/** Where the outcome of a run is sent that goes on after the answer to its trigger. */
export interface CallbackLocation {
  /** Takes a signed `POST` with a `CallbackBody`, at every gateway of the cluster. */
  readonly url: string;
  /** Opaque: tells this queue from one of the same name that lost its data, and begins to count its runs anew. */
  readonly token: string;
  /** The longest time for which a run may go on without a word. */
  readonly maxSeconds: number;
}

/** Where the function finds the gateway's cache. */
export interface CacheLocation {
  /** By `apiVersion/Kind`: one view of all that is cached, or one for each cached namespace. For the Redis reader. */
  readonly views: Readonly<Record<string, readonly ViewLocation[]>>;
  /**
   * The Redis user that may read these views, with a password derived from the signing secret (`node/reader-user`).
   * Absent when the gateway makes none.
   */
  readonly redisUser?: string;
  /**
   * Kinds that are encrypted in Redis and so are read through the cache API alone, by `apiVersion/Kind`: `*`, or the
   * cached namespaces. They are not among `views`. Absent when there are none.
   */
  readonly encrypted?: CacheScope;
  /**
   * The cache API, to which `/apis/apps/v1/...` is appended: `https://gateway.example.com/cache`. Https or loopback.
   * Absent when the gateway has no such address, or the trigger is sent over neither.
   */
  readonly url?: string;
  /**
   * The gateways' time when the trigger was sent, in milliseconds, for the Redis reader: the time since when a value is
   * unchanged is of this clock, which is no wall clock.
   */
  readonly now?: number;
  /**
   * The bearer token for it: of this controller's kinds and namespaces alone, and valid until the runs of the trigger,
   * or the review, are over.
   */
  readonly token?: string;
}

export interface ViewLocation {
  /** The first part of the view's keys in Redis (see `cache-layout`). */
  readonly prefix: string;
  /** The only namespace that it holds; all when absent. */
  readonly namespace?: string;
  /**
   * The view's position when the trigger was sent: the reader refuses a view with a lower one (`cache-layout`). Absent
   * in a review, and when the view has never been complete.
   */
  readonly position?: number;
}

/** Something in a signed body that is not what the contract says: a version mismatch or a fault, never an attack. */
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
    // Not String(): of an object with a `toString` of its own that throws.
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
