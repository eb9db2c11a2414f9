import type { Reason } from '../../../contract/index.ts';
import type { Pause, PauseScope, KeyList, KeyPage, KeyStatus } from './key-status.ts';
import type { PastRun, RunPage, RunQuery } from './history/past-run.ts';
import type { Finish, Process } from './run.ts';
import type { Sample } from './history/samples.ts';

export type { Pause, PauseScope, PersonScope, KeyList, KeyObject, KeyPage, KeyStatus, Wait } from './key-status.ts';
export type { PastRun, PastOutcome, RunPage, RunQuery } from './history/past-run.ts';
export type { Debounce, QueueOptions, RateLimit } from './queue-options.ts';
export type { Sample } from './history/samples.ts';
export type { BarrierText, Finish, Ended, Process, Run, ShownWrite, WriteSummary } from './run.ts';

/** A key to run, and why. */
export interface QueuedKey {
  readonly key: string;
  readonly reasons: readonly Reason[];
  /** The time of the event, from which the key's wait is measured. Default: now. */
  readonly atMs?: number;
  /**
   * Whether its object says that it is paused: begins or ends the pause `object/<key>`. Undefined leaves it as it is.
   */
  readonly paused?: boolean;
}

/** A key, and whether its object says that it is paused. */
export type PausedState = Required<Pick<QueuedKey, 'key' | 'paused'>>;

/** Why keys are queued at low priority. */
export type LowReason = Extract<Reason['type'], 'initial' | 'resync' | 'manual'>;

/** A key that is due within this time counts as demand, because an instance of a function takes seconds to start. */
export const DEMAND_AHEAD_MS = 30_000;

/** How many pauses `QueueLevels` lists. */
export const MOST_PAUSES = 100;

/** Reads a queue's keys, for people and metrics. */
export interface QueueInspector {
  /**
   * All pauses, page by page, in no order. A pause that begins or ends between two pages may be left out or come twice.
   * @param after the `next` of the page before. Default: the first page.
   */
  pauses(after?: string): Promise<PausePage>;
  status(key: string): Promise<KeyStatus>;
  list(list: KeyList, page: { readonly offset: number; readonly limit: number }): Promise<KeyPage>;
  /** In one round trip of a bounded cost, because a gateway may have many queues, and a queue many pauses. */
  levels(): Promise<QueueLevels>;
}

export interface PausePage {
  readonly pauses: readonly Pause[];
  /** Absent in the last page. */
  readonly next?: string;
}

/** The pauses of a queue, in a bounded size. */
export interface PauseSummary {
  /** The pauses that persons and recovery have set: those of all keys come first. `MOST_PAUSES` at most. */
  readonly pauses: readonly Pause[];
  /** How many further pauses persons have set. */
  readonly morePauses: number;
  /** How many objects are paused by their annotation. */
  readonly pausedObjects: number;
}

/** What a queue knows of its controller's state. The numbers of keys are those of one moment. */
export interface QueueLevels extends PauseSummary {
  /** When the first pause ends by itself; Infinity when none does. */
  readonly pauseEndMs: number;
  /** How many keys each list has. */
  readonly sizes: Readonly<Record<KeyList, number>>;
  /** Keys of the backlog that run when there is room; 0 while all keys are paused. */
  readonly low: number;
  /** How many runs have ever been started. */
  readonly started: number;
  /**
   * How many keys the function has to run now or within `DEMAND_AHEAD_MS`, for a scaler: max(ready, due by then) +
   * runs in flight + backlog. Most ready keys are also due, so the two numbers are not added. The result is at least
   * half of the true number, and 0 only if that is 0. Keys that wait for the end of a pause do not count. A scaler
   * must not use `sizes.queued`: while a function has no instance, its keys are in backoff most of the time.
   */
  readonly demand: number;
  /** When the first key that has not been started was or will be due; Infinity when there is none. */
  readonly firstDueMs: number;
  /**
   * How long the oldest due key has waited without being started; undefined when no key is due. Keys that wait for the
   * end of a pause, an outcome, a barrier or a token are not due. In an outage of the function they grow old.
   */
  readonly oldestDueMs: number | undefined;
  /**
   * The time since the first failure of the key that has failed for longest; undefined when no key is in the list
   * `failing`. A key between two attempts is not due, so `oldestDueMs` does not show it. Paused keys count.
   */
  readonly oldestFailingMs: number | undefined;
}

/** Reads the runs of a queue that have ended. */
export interface QueueHistory {
  /** The error of each key's last outcome on record; undefined for a success, and where there is none. */
  lastErrors(keys: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** The last runs of all keys, page by page, or those since an earlier call. Empty while the history is off. */
  runs(query: RunQuery): Promise<RunPage>;
  /**
   * The last runs of a key, the newest first, 10 at most. A key that fails or has failed has a history of its own. Of
   * any other key, only its runs among the last runs of all keys are left.
   */
  runsOf(key: string): Promise<readonly PastRun[]>;
  /** The last hour in intervals, the oldest first. */
  samples(): Promise<readonly Sample[]>;
}

/**
 * client-go's workqueue (util/workqueue), shared by several gateways and durable. Each queue guarantees:
 *
 * - A key added many times while it waits runs once.
 * - A key added while it runs runs once more afterwards.
 * - A key never runs twice at a time: a run is over when it is finished, or when its deadline and a margin have passed.
 * - `addAfter` keeps the earliest time; the start of a run ends the wait.
 * - Every added key runs, also after a crash of the gateway, while Redis was full or away, and after a restart of Redis
 *   that lost no data. A key whose job is lost is queued again within a minute.
 * - A key that may not run yet (see `Wait`) takes no slot and runs when its wait ends.
 * - A dead letter stays until it is added again, by an event, a resync or a person, or dropped.
 */
export interface WorkQueue {
  readonly name: string;
  /**
   * Run these keys soon. Resolves when they cannot be lost any more.
   * @returns the keys whose pause `object/<key>` has begun or ended.
   */
  add(keys: readonly QueuedKey[]): Promise<readonly string[]>;
  /** Run these keys when there is room: initial, resync, replay of many. Never starved, never in the way of `add`. */
  addLow(keys: readonly string[], reason: LowReason): Promise<void>;
  /** Run this key after `ms` at the latest. */
  addAfter(key: string, ms: number): Promise<void>;
  /**
   * Records the outcome of a run that was `accepted`, or a later deadline for it.
   * @returns false when that run is not in flight any more: nothing was changed.
   */
  settle(key: string, run: number, finish: Exclude<Finish, { kind: 'unknown' }>): Promise<boolean>;

  /**
   * Keys of the scope do not start from now on, on all gateways and through restarts. A second pause replaces the
   * first.
   * @returns whether the scope was not paused before.
   */
  pause(scope: PauseScope, untilMs?: number): Promise<boolean>;
  /**
   * Ends a pause. Keys that waited for its end run when there is room, as the backlog does.
   * @returns whether there was such a pause.
   */
  resume(scope: PauseScope): Promise<boolean>;
  /**
   * Begins or ends the pauses `object/<key>`, as the objects say.
   * @returns the keys whose pause has begun or ended.
   */
  pauseObjects(states: readonly PausedState[]): Promise<readonly string[]>;
  /** Reads the keys that wait or run. */
  readonly inspector: QueueInspector;
  /** Reads the runs that have ended. */
  readonly history: QueueHistory;
  /** Forgets these dead letters and ignores other keys. @returns how many were dead letters. */
  drop(keys: readonly string[]): Promise<number>;
  /**
   * For how many milliseconds this gateway has seen no run start although a key is due and a slot is free. 0 while runs
   * start, while no key is due, and while `allow` lets none start. A long queue alone is not a stall. Redis
   * is not asked again before a key can be due.
   */
  stalledMs(): Promise<number>;

  /** Starts running keys. */
  start(process: Process): Promise<void>;
  /**
   * Starts no more runs in this gateway; runs in flight go on. It may be called before `start`.
   * @param isForeign the queue has another owner: its keys do not wait here, and go to other gateways. Default false.
   */
  suspend(isForeign?: boolean): void;
  unsuspend(): void;
  /**
   * Replaces the limit of runs in flight in this gateway; at first there is none. Runs that started before the call do
   * not count. Ready keys beyond the limit go to other gateways. The limit and `suspend` are independent.
   */
  allow(most: number): void;
  /**
   * Starts no more runs and waits for those in flight, at most `drainMs`; unfinished ones are settled as lost later.
   */
  stop(drainMs: number): Promise<void>;
}
