/** How a controller's queue behaves. All gateways of the controller use the same options. */
export interface QueueOptions {
  /** Runs at a time, over all gateways. */
  readonly concurrency: number;
  /** The time a run may take, in milliseconds. */
  readonly timeoutMs: number;
  /** Keys given to one call of `Process.run`, at most; each counts towards `concurrency`. Default 1. */
  readonly maxBatch?: number;
  /**
   * An added key waits until nothing was added to it for `windowMs`, but never longer than `maxMs` after the first add.
   * A wait then ends at the next full tenth of `windowMs`, 100 ms at most, so that keys share a trigger.
   * Low keys and timers are not delayed. Default: none, an added key runs at once.
   */
  readonly debounce?: Debounce;
  /** Starts of runs, over all gateways: a token bucket, as client-go's BucketRateLimiter. Default: none. */
  readonly rateLimit?: RateLimit;
  /** A key that has failed this many times in a row becomes a dead letter. Default: none, it backs off for ever. */
  readonly maxAttempts?: number;
}

export interface Debounce {
  readonly windowMs: number;
  /** Counted from the first add since the key's last run. */
  readonly maxMs: number;
  /**
   * An added key waits only if it runs, or if its last run wrote less than `maxMs` ago; `maxMs` then counts from that
   * write. `maxMs` must not exceed a minute, because Redis keeps the barrier of a key at rest, and with it the time of
   * the write, for a minute only. Default false.
   */
  readonly leading?: boolean;
}

export interface RateLimit {
  /** Tokens that come in a second. */
  readonly perSecond: number;
  /** Tokens that a queue at rest has saved up. */
  readonly burst: number;
}

/**
 * For how long Redis keeps a gateway's count of busy runs (`OwnRuns.busies`) after it last changed: two days. The
 * gateway needs the count until the deadline of its newest busy run, which is at most a day after the 202
 * (`callbackSeconds`).
 */
export const BUSIES_MS = 172_800_000;

/**
 * For this long after its deadline a run still blocks its key, so that a write that it sent in time has taken effect.
 */
export const RUN_MARGIN_MS = 1000;
/** How long a run keeps its slot after the last sign of life of its gateway. */
export const SLOT_MS = 12_000;
/**
 * Characters that the keys of a batch have together at most. The token of its trigger names them, and is sent as a
 * header: a server takes 16 KiB of headers.
 */
export const BATCH_CHARACTERS = 8 * 1024;
/** See `barrierAgainMs`. */
export const BARRIER_AGAIN_MS = { first: 20, most: 200 };
/**
 * How soon a barrier that has not passed is checked again, by its age: most pass within milliseconds, and a function
 * may name writes that never were.
 */
export function barrierAgainMs(ageMs: number): number {
  if (ageMs < 100) return BARRIER_AGAIN_MS.first;
  if (ageMs < 400) return 50;
  return ageMs < BARRIER_LATE_MS ? 100 : BARRIER_AGAIN_MS.most;
}
/** A barrier older than this is reported as late. */
export const BARRIER_LATE_MS = 1000;
/**
 * How many outcomes of a key are kept, and how long after the last one. A dead letter keeps them while it is a dead
 * letter.
 */
export const HISTORY_LENGTH = 10;
export const HISTORY_MS = 3_600_000;
/** How many runs of all keys are kept. */
export const HISTORY_RUNS = 10_000;
/** How much of an error's text is kept, in bytes of UTF-8. */
export const ERROR_BYTES = 1024;
