import type { GroupVersionKind, LabelSelector } from '../core/index.ts';
import type { CONTRACT_VERSION } from './trigger.ts';

/** One acknowledged write of a run. The gateway starts the key's next run only when its cache has passed it. */
export interface Write {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
  /** The version that the apiserver answered with. Absent for a delete, whose event has a version of its own. */
  readonly resourceVersion?: string;
  readonly deleted?: true;
  /**
   * Beside `deleted`: the object no longer exists, as the answer said, or its last finalizer was taken away. Without
   * it, an object that is being deleted will do.
   */
  readonly gone?: true;
}

/**
 * Objects on which a key depends: a change of one wakes the key. Without `names` and `labelSelector`: all objects of
 * the kind. On an update the labels before and after it count.
 */
export interface RelatedRule extends GroupVersionKind {
  /** Default: any namespace. */
  readonly namespace?: string;
  readonly names?: readonly string[];
  /** Not beside `names`. */
  readonly labelSelector?: LabelSelector;
}

/** Rules of one key. */
export const MAX_RELATED_RULES = 64;
/** Of one rule. */
export const MAX_RELATED_NAMES = 256;
/** Kinds of the rules of all keys of a controller. */
export const MAX_RELATED_KINDS = 128;
/** Of the rules of one key as JSON, in UTF-8. */
export const MAX_RELATED_BYTES = 32 * 1024;

/** What became of one request. */
export type RequestResult =
  | {
      readonly status: 'done';
      /**
       * Ask again after this time, 0.1 s at least, unless something else wakes the key before. 0 asks for nothing, as
       * does its absence. Replaces an earlier such wish.
       */
      readonly requeueAfterSeconds?: number;
      readonly writes?: readonly Write[];
      /**
       * The objects on which the key depends from now on, in place of those that an earlier run has named; empty for
       * none. Default: those. Each kind must be a source of the description with the map `related`.
       */
      readonly related?: readonly RelatedRule[];
    }
  | {
      readonly status: 'error';
      /** For the log and the key's history. Never holds a secret. */
      readonly message: string;
      /**
       * The function asks for another time than the backoff's (`RetryAfterError`), at least for 0.1 s or the backoff,
       * whichever is shorter; 0: for the backoff's.
       */
      readonly retryAfterSeconds?: number;
      readonly writes?: readonly Write[];
      readonly related?: readonly RelatedRule[];
    }
  | {
      readonly status: 'terminal';
      /** Retrying will not help: the key is put aside until it changes. */
      readonly message: string;
      readonly writes?: readonly Write[];
      readonly related?: readonly RelatedRule[];
    }
  | {
      readonly status: 'unknown';
      /**
       * A write was sent and its answer never came, or was a 5xx: it may have been done. As after a trigger without an
       * answer, the gateway waits for the deadline, and then for a cache that shows everything from before it.
       */
      readonly message: string;
    }
  | {
      readonly status: 'accepted';
      /**
       * The run goes on; its outcome comes to the callback that the trigger named, within this time. Allowed in
       * an answer of 202 and in a line of a streamed answer, but not in a whole answer of 200. In a callback, the run
       * still goes on, and the time counts from the callback.
       */
      readonly withinSeconds: number;
    };

/** The body of a function's 200 or 202 answer: one result for each request, in their order. */
export interface OutcomeBody {
  readonly version: typeof CONTRACT_VERSION;
  readonly results: readonly RequestResult[];
}

/**
 * The media type of a streamed answer to a trigger of several requests: one `ResultLine` for each, as its run ends.
 * The gateway asks for it in `accept`, and the function names it in `content-type`.
 */
export const RESULT_STREAM = 'application/x-ndjson';

/** One line of a streamed answer, in JSON and followed by a line feed. The lines may come in any order. */
export interface ResultLine {
  /** The `run` of the request. */
  readonly run: number;
  readonly result: RequestResult;
}

/** Carried by a 429, 503 or 410 that the SDK itself sent, so that a proxy's is not taken for it. */
export const LEVELHOOK_HEADER = 'levelhook-contract';
