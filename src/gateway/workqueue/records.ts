import type { Reason } from '../../contract/index.ts';
import type { BarrierText, Finish } from './run.ts';
import type { LowReason } from './work-queue.ts';

/** The low-priority keys that a call of `startAll` takes from the backlog. */
export interface LowRequest {
  /** At most. Keys that were added go first, but for `first` of them. */
  readonly count: number;
  readonly first: number;
  /** The same for the same call sent twice: it gets the same keys. */
  readonly nonce: string;
  /** The gateway that asks. */
  readonly gateway: string;
}

export interface StartTimes {
  readonly nowMs: number;
  readonly deadlineMs: number;
  /** Until when the runs hold their slots. */
  readonly slotMs: number;
}

export interface Starts {
  /** For each request, in order. */
  readonly starts: readonly Start[];
  readonly low: readonly { readonly key: string; readonly start: Start }[];
  /** Low-priority keys that may run are left. */
  readonly lowLeft: boolean;
}

/** One question whether a key may run. */
export interface StartRequest {
  readonly key: string;
  /** The same for the same call sent twice: it gets the same answer. */
  readonly nonce: string;
  /** The barrier that the caller has found passed. */
  readonly passedBarrier?: BarrierText;
}

export type Start =
  | {
      readonly kind: 'go';
      readonly run: number;
      readonly failures: number;
      readonly reasons: readonly Reason[];
      /** When the key was first added since its last start; undefined when a timer alone brought it here. */
      readonly queuedAtMs: number | undefined;
    }
  /** Nothing to do: the run that the key was queued for has been. */
  | { readonly kind: 'idle' }
  /** A run is in flight; its finish queues the key again. */
  | { readonly kind: 'busy' }
  /** A pause covers it; its end queues it again. */
  | { readonly kind: 'paused' }
  /** A run's deadline has passed without an outcome: settle it. */
  | { readonly kind: 'lost'; readonly run: number; readonly failures: number; readonly error: string | undefined }
  /** The cache does not show the writes of the last run yet; a timer is set. */
  | { readonly kind: 'barrier'; readonly barrier: BarrierText }
  /** Every slot is taken; nothing has changed. */
  | { readonly kind: 'full' }
  /** Its token comes then; a timer is set. */
  | { readonly kind: 'limited'; readonly untilMs: number };

export interface FinishRequest {
  readonly key: string;
  readonly run: number;
  /** `unknown`: the run stays on record, and its settling is told the error. */
  readonly finish: Finish;
}

export interface Finished {
  /** False: the run was not the one in flight, and nothing was changed. */
  readonly current: boolean;
  /** The key is a dead letter now. */
  readonly dead: boolean;
  /** When the key's timer is due, if the finish has set one. */
  readonly timerMs: number | undefined;
  /** The key was touched while it ran, and is to run again now. */
  readonly ready: boolean;
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

/** The keys for which the poller must act. */
export interface Due {
  readonly timers: readonly DueTimer[];
  readonly debounced: readonly Scored[];
  readonly inFlight: readonly Scored[];
  /** How many keys the backlog has. */
  readonly backlog: number;
  /** Scopes whose pause ends. */
  readonly pauseEnds: readonly Scored[];
  /** When the next of all these is due. */
  readonly nextMs: number | undefined;
}

/** A key with nothing to do whose record holds a barrier; undefined: it does so no longer. */
export interface Resting extends Scored {
  readonly barrier: BarrierText | undefined;
}

export type PostponedSet = 'timers' | 'inFlight' | 'resting';

/** A run that no add gave a reason for comes from the backlog or from a timer, which the last outcome has set. */
export function reasonsOr(
  noted: readonly Reason[],
  run: { low: LowReason | undefined; failures: number },
): readonly Reason[] {
  return noted.length > 0 ? noted : [{ type: run.low ?? (run.failures > 0 ? 'retry' : 'requeue') }];
}
