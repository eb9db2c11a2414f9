import type { Reason } from '../../contract/index.ts';

/** A key to run, and why. */
export interface QueuedKey {
  readonly key: string;
  readonly reasons: readonly Reason[];
}

/** Why keys are queued at low priority. */
export type LowReason = Extract<Reason['type'], 'initial' | 'resync'>;

/** One run of a key, from its start to its finish. */
export interface Run {
  readonly key: string;
  /** The fencing number: grows with every run of this queue. */
  readonly run: number;
  /** Failures since the key was last forgotten; 0 for a key in good health. */
  readonly failures: number;
  readonly reasons: readonly Reason[];
  /** The run's outcome is unknown after this. Milliseconds since the epoch. */
  readonly deadlineMs: number;
}

/** What the views must have passed before the key's next run may start; kept as text, see `dispatch/barrier`. */
export type BarrierText = string;

/** What becomes of a key after a run. */
export type Finish =
  | {
      readonly kind: 'known';
      /** `forget` sets the failures to 0, `count` adds one, `keep` leaves them. */
      readonly failures: 'forget' | 'count' | 'keep';
      /** Run again after this time at the latest. Undefined: only when something wakes it. */
      readonly againAfterMs?: number;
      readonly barrier?: BarrierText;
    }
  /**
   * Nobody knows whether the run has ended, or what it wrote: the flight stays on record until its deadline, and then
   * `Process.lost` settles it.
   */
  | { readonly kind: 'unknown' };

/** What the queue asks of whoever runs its keys. `run` does not throw; what the others throw is tried again later. */
export interface Process {
  run(run: Run): Promise<Finish>;
  /** A run whose deadline passed without an outcome. Counts as a failure; the answer says how to go on. */
  lost(run: Omit<Run, 'reasons' | 'deadlineMs'>): Promise<Finish & { readonly kind: 'known' }>;
  /** Whether the views have passed this barrier. */
  passed(barrier: BarrierText): Promise<boolean>;
  /** A barrier has not been passed for a while: do something about it. */
  late(barrier: BarrierText): void;
}

/**
 * client-go's workqueue (util/workqueue), shared and durable: its promises, for each queue.
 *
 * - A key added many times while it waits runs once.
 * - A key added while it runs runs once more afterwards.
 * - A key never runs twice at a time: a run is over when it is finished, or when its deadline and a margin have passed.
 * - `addAfter` keeps the earliest time; a run ends the wait.
 * - Whatever was added runs, through crashes of the gateway and through a restart of Redis that lost nothing.
 */
export interface WorkQueue {
  readonly name: string;
  /** Run these keys soon. Resolves when they cannot be lost any more. */
  add(keys: readonly QueuedKey[]): Promise<void>;
  /** Run these keys when there is room: initial and resync. Never starved, never in the way of `add`. */
  addLow(keys: readonly string[], reason: LowReason): Promise<void>;
  /** Run this key after `ms` at the latest. */
  addAfter(key: string, ms: number): Promise<void>;
  /** Starts running keys. */
  start(process: Process): Promise<void>;
  /** From now on no run starts, before `start` as well as after it; those in flight go on. */
  pause(): void;
  resume(): void;
  /** Starts no more runs and waits for those in flight, at most `drainMs`; unfinished ones are settled as lost later. */
  stop(drainMs: number): Promise<void>;
  /** Keys that wait to run now, and runs in flight. */
  counts(): Promise<{ waiting: number; running: number }>;
  /** Removes everything of this queue from Redis. */
  obliterate(): Promise<void>;
}
