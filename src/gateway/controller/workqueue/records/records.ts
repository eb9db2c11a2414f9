import type { Reason } from '../../../../contract/index.ts';
import type { BarrierText, Finish } from '../run.ts';
import type { EndedRun } from '../history/past-run.ts';
import type { LowReason } from '../work-queue.ts';

/** Asks `startAll` to start low-priority keys of the backlog as well. */
export interface LowRequest {
  /** How many at most. Keys that were added get their slots first. */
  readonly count: number;
  /** How many of them get their slots before the keys that were added. */
  readonly first: number;
  /** A call that is sent twice has the same nonce and gets the same keys. */
  readonly nonce: string;
  /** The gateway that asks. */
  readonly gateway: string;
}

export interface StartTimes {
  readonly nowMs: number;
  readonly deadlineMs: number;
  /** When the slots of the runs expire. */
  readonly slotMs: number;
  /** How many slots there are. Default: as many as the queue's `concurrency`. */
  readonly slots?: number;
}

export interface Starts {
  /** For each request, in order. */
  readonly starts: readonly Start[];
  readonly low: readonly { readonly key: string; readonly start: Start }[];
  /** Whether the backlog has further keys that may run. */
  readonly lowLeft: boolean;
  /** The queue is another owner's, or has been removed: no key was decided upon, and nothing has changed. */
  readonly isForeign?: boolean;
}

/** Asks whether a key may run. */
export interface StartRequest {
  readonly key: string;
  /** A call that is sent twice has the same nonce and gets the same answer. */
  readonly nonce: string;
  /** A barrier of the key that has passed, as the caller has checked. */
  readonly passedBarrier?: BarrierText;
}

export type Start =
  | {
      readonly kind: 'go';
      readonly run: number;
      /** See `Run.incarnation`. */
      readonly incarnation: string;
      readonly failures: number;
      readonly reasons: readonly Reason[];
      /** When the key was first added since its last start; undefined when a timer alone brought it here. */
      readonly queuedAtMs: number | undefined;
      /** Since when the key has waited for its barrier; undefined when it has not. */
      readonly heldAtMs: number | undefined;
      /**
       * The reasons as they are on record: JSON, one in each line. Empty for none, and for a key that has reasons of a
       * run which was not sent: it does not count its wait from them.
       */
      readonly recorded: string;
      /** Whether the key has failed since its last success, also if it was a dead letter and its failures are 0 now. */
      readonly hasFailed: boolean;
    }
  /** The key has no reason to run: an earlier run has handled it. */
  | { readonly kind: 'idle' }
  /** A run is in flight; its finish makes the key ready again. */
  | { readonly kind: 'busy' }
  /** A pause covers the key; the end of the pause puts the key into the backlog. */
  | { readonly kind: 'paused' }
  /** The deadline of a run has passed without an outcome: the caller must settle the run. */
  | { readonly kind: 'lost'; readonly run: number; readonly failures: number; readonly error: string | undefined }
  /** The cache lacks writes of the key's last run; a timer is set. */
  | { readonly kind: 'barrier'; readonly barrier: BarrierText }
  /** The key's record cannot be read. `Upkeep` finds the key again. */
  | { readonly kind: 'refused'; readonly error: string }
  /** There is no free slot; nothing has changed. */
  | { readonly kind: 'full' }
  /** The key gets its token of the rate limit at `untilMs`; a timer is set. */
  | { readonly kind: 'limited'; readonly untilMs: number };

export interface FinishRequest {
  readonly key: string;
  readonly run: number;
  /** After `unknown` the run stays on record with the error, for `Process.lost`. */
  readonly finish: Finish;
  /** The entry for the history of runs. Undefined for a start that is taken back, because its run has not begun. */
  readonly ended?: EndedRun;
  /** Of the start that is taken back: the run ends only if this start is the one on record. Default: any start. */
  readonly nonce?: string;
  /** Of a run that was not sent: its reasons, which the key's next run has. Default: none. */
  readonly reasons?: readonly Reason[];
}

/** How many runs of a gateway have become busy: see `OwnRuns`. */
export interface Busies {
  /** The gateway's id. */
  readonly id: string;
  readonly busies: number;
}

export interface Finished {
  /** Whether the run was in flight. If not, nothing was changed. */
  readonly current: boolean;
  /** Whether the key is a dead letter now. */
  readonly dead: boolean;
  /** When the key's timer is due, if the finish has set one. */
  readonly timerMs: number | undefined;
  /** Whether the key is ready to run again, because it was woken while it ran. */
  readonly ready: boolean;
  /** Why the key's record could not be read: the run is on record until its deadline. Undefined if it could. */
  readonly unreadable: string | undefined;
}

export interface RecordedAdds {
  readonly ready: readonly string[];
  readonly dueMs: number | undefined;
  readonly changed: readonly string[];
}

/** A member of a set and its score, as text so that it can be compared. */
export interface Scored {
  readonly key: string;
  readonly score: string;
}

export interface DueTimer extends Scored {
  readonly barrier: BarrierText | undefined;
  readonly barrierAtMs: number;
}

/** The due entries that the poller must act on. */
export interface Due {
  readonly timers: readonly DueTimer[];
  readonly debounced: readonly Scored[];
  readonly inFlight: readonly Scored[];
  /** How many keys the backlog has. */
  readonly backlog: number;
  /** How many keys are ready, fail, and are dead letters. */
  readonly sizes: Readonly<Record<'queued' | 'failing' | 'dead', number>>;
  /** How many pauses there are. */
  readonly pauses: number;
  /** Scopes whose pause ends. */
  readonly pauseEnds: readonly Scored[];
  /** When the next of all these is due. */
  readonly nextMs: number | undefined;
}

/** A key with nothing to do and the barrier of its record; undefined when the record has none any more. */
export interface IdleKey extends Scored {
  readonly barrier: BarrierText | undefined;
}

export type PostponedSet = 'timers' | 'inFlight' | 'idle';

/** The recorded reasons. Without any, the key comes from the backlog or from a timer that its last outcome has set. */
export function reasonsOrDefault(
  recorded: readonly Reason[],
  run: { low: LowReason | undefined; failures: number },
): readonly Reason[] {
  return recorded.length > 0 ? recorded : [{ type: run.low ?? (run.failures > 0 ? 'retry' : 'requeue') }];
}
