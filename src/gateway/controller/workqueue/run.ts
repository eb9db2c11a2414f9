import type { Reason } from '../../../contract/index.ts';

/** One run of a key, from its start to its finish. */
export interface Run {
  readonly key: string;
  /** The fencing number: grows with every run of this queue. */
  readonly run: number;
  /** The incarnation of its queue: each begins its run numbers anew. Empty while the queue has none. */
  readonly incarnation: string;
  /** Failures since the key was last forgotten; 0 for a key in good health. */
  readonly failures: number;
  readonly reasons: readonly Reason[];
  /** How long the key waited for this run. Undefined: unknown. */
  readonly waitedMs?: number | undefined;
  /** The run's outcome is unknown after this. Milliseconds since the epoch. */
  readonly deadlineMs: number;
}

/** An object that a run has written, as `apiVersion/Kind namespace/name`, for people. */
export interface ShownWrite {
  readonly object: string;
  /** Absent for a delete. */
  readonly resourceVersion?: string;
  readonly deleted?: true;
}

/** The writes of a run. */
export interface WriteSummary {
  readonly count: number;
  /** The first of them, 5 at most. */
  readonly first: readonly ShownWrite[];
}

/** The barrier that the views must have passed before the key's next run; stored as text, see `dispatch/barrier`. */
export type BarrierText = string;

/** A run that has ended, and whose outcome is known. */
export interface Ended {
  readonly kind: 'ended';
  /** `forget` sets the failures to 0, `count` adds one, `keep` leaves them. */
  readonly failures: 'forget' | 'count' | 'keep';
  /** Run again after this time at the latest. Undefined: only when something wakes it. */
  readonly againAfterMs?: number;
  readonly barrier?: BarrierText;
  /** The error, for people: kept in the key's history, at most 1 KiB of it. */
  readonly error?: string;
  /** For people: kept in the history of runs. Undefined: the outcome names no writes. */
  readonly wrote?: WriteSummary;
  /** For people: the last lines of the run's log, bounded and printable. Undefined: the function reported none. */
  readonly log?: readonly string[];
  /** For people: the stack of the error, bounded and printable. */
  readonly stack?: string;
  /**
   * The key's next run goes to the first free gateway, because this one could not send the trigger: it did not reach
   * the endpoint, could not read the positions of its views, or lacks a related kind.
   */
  readonly elsewhere?: boolean;
  /**
   * `false`: no trigger was sent, so nothing ran. With `againAfterMs` the key's next run has the reasons of this one,
   * too. Default true.
   */
  readonly sent?: false;
  /** A retry will not help: the key becomes a dead letter, and `againAfterMs` is ignored. */
  readonly dead?: boolean;
}

/** The end of a run, which decides the next step of its key. */
export type Finish = FinishKind & {
  /** For people: identifies the trigger in the logs of gateway and function. Undefined: none was sent. */
  readonly reconcileId?: string;
  /** For people: see `PastRun.cacheAgeMs`. */
  readonly cacheAgeMs?: number | undefined;
};

type FinishKind =
  | Ended
  /**
   * The run goes on after its answer (a 202). Its slot is free, and its key is blocked until `WorkQueue.settle` brings
   * the outcome. After `untilMs` (since the epoch) the outcome is unknown. A later call never shortens the time. The
   * queue refuses it once the deadline and its margin have passed, because another gateway may be settling the run as
   * lost.
   */
  | { readonly kind: 'accepted'; readonly untilMs: number }
  /**
   * It is unknown whether the run has ended, or which writes it made. The run stays on record until its deadline, and
   * then `Process.lost` settles it. `error` is the reason, for people; the record has it until then.
   */
  | { readonly kind: 'unknown'; readonly error?: string };

/**
 * Runs the keys of a queue. `run` does not throw; if another method throws, the queue calls it again later.
 */
export interface Process {
  /**
   * Runs keys together, at most `maxBatch`, each another key. A key that has failed since it was last forgotten runs
   * alone. Returns a promise for each run, in the same order; each resolves when its own run has ended.
   */
  run(runs: readonly Run[]): readonly Promise<Finish>[];
  /** Decides the end of a run whose deadline passed without an outcome, which counts as a failure. */
  lost(run: Pick<Run, 'key' | 'run' | 'failures'>): Promise<Ended>;
  /** Whether the views have passed this barrier; undefined: it was not checked, and will be checked again. */
  passed(barrier: BarrierText): Promise<boolean | undefined>;
  /**
   * Called again and again for a barrier that has not passed for a second, so that the process can bring its views up
   * to date.
   */
  late(barrier: BarrierText): void;
}
