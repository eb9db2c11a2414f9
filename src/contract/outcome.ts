import type { GroupVersionKind, LabelSelector } from '../core/index.ts';
import type { CONTRACT_VERSION } from './trigger.ts';

/** One acknowledged write of a run. The gateway starts the key's next run only when its cache has passed it. */
export interface Write {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
  /** The version in the apiserver's answer. Absent for a delete, whose event has a version of its own. */
  readonly resourceVersion?: string;
  readonly deleted?: true;
  /**
   * With `deleted`: the object no longer exists, because the answer said so or its last finalizer was removed. Without
   * it, the gateway waits only for the object's deletionTimestamp.
   */
  readonly gone?: true;
}

/**
 * Objects that a key depends on: a change of one wakes the key. Without `names` and `labelSelector`: all objects of
 * the kind. On an update the labels before and after it count.
 */
export interface RelatedRule extends GroupVersionKind {
  /** Default: any namespace. */
  readonly namespace?: string;
  /** Each of 1024 characters at most, without control characters or invisible ones. */
  readonly names?: readonly string[];
  /** Excludes `names`. */
  readonly labelSelector?: LabelSelector;
}

/** Rules of one key, at most. */
export const MAX_RELATED_RULES = 64;
/** Names in one rule, at most. */
export const MAX_RELATED_NAMES = 256;
/** Kinds in the rules of all keys of a controller, at most. */
export const MAX_RELATED_KINDS = 128;
/** Bytes of one key's rules as JSON, in UTF-8, at most. */
export const MAX_RELATED_BYTES = 32 * 1024;

/** Lines of a run's log in its result, at most. */
export const MAX_LOG_LINES = 100;

/**
 * What people see beside the outcome of a run. The gateway keeps the last lines and the beginning of the stack, some
 * 1.5 KiB of a run, without what looks like a credential. It decides nothing, as long as it has the right form.
 */
export interface RunNotes {
  /** The last lines of the run's log, the oldest first, `MAX_LOG_LINES` at most. Must not contain a secret. */
  readonly log?: readonly string[];
}

/** The same of a run that has failed. */
export interface FailureNotes extends RunNotes {
  /** The stack of its error, as the language prints it. */
  readonly stack?: string;
}

/** The outcome of one request. */
export type RequestResult =
  | (RunNotes & {
      readonly status: 'done';
      /**
       * Run the key again after this time, 0.1 s at least, unless something else wakes it before. 0, or no value,
       * requests nothing. Replaces an earlier value.
       */
      readonly requeueAfterSeconds?: number;
      readonly writes?: readonly Write[];
      /**
       * The objects that the key depends on from now on; they replace the objects named by an earlier run. An empty
       * list means none. Default: the earlier objects stay. Each kind must be a source of the description with the map
       * `related`.
       */
      readonly related?: readonly RelatedRule[];
    })
  | (FailureNotes & {
      readonly status: 'error';
      /** For the log and the key's history. Must not contain a secret. */
      readonly message: string;
      /**
       * Overrides the backoff's time (`RetryAfterError`), but not below 0.1 s or the backoff, whichever is shorter. 0
       * means the backoff's time.
       */
      readonly retryAfterSeconds?: number;
      readonly writes?: readonly Write[];
      readonly related?: readonly RelatedRule[];
    })
  | (FailureNotes & {
      readonly status: 'terminal';
      /** Retrying will not help: the key is a dead letter until it changes. */
      readonly message: string;
      readonly writes?: readonly Write[];
      readonly related?: readonly RelatedRule[];
    })
  | {
      readonly status: 'unknown';
      /**
       * A write was sent and its answer never came, or was a 5xx, so it may have taken effect. As after a trigger
       * without an answer, the gateway waits for the deadline, and then for a cache that shows everything from before
       * it.
       */
      readonly message: string;
    }
  | {
      readonly status: 'accepted';
      /**
       * The run goes on; its outcome comes within this time to the callback that the trigger named. Allowed in an
       * answer of 202 and in a line of a streamed answer, but not in a whole answer of 200. In a callback, the run
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

/** Marks a 429, 503 or 410 as sent by the SDK itself, to tell it from a proxy's. */
export const LEVELHOOK_HEADER = 'levelhook-contract';
