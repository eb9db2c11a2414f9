import type { Reason } from '../../contract/index.ts';
import type { Hold, HoldScope, KeyList, KeyPage, KeyStatus } from './key-status.ts';
import type { BarrierText, Finish } from './run.ts';
import type { LowReason, QueuedKey } from './work-queue.ts';

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
  /** Nothing to do: the run that this job was for has been. */
  | { readonly kind: 'idle' }
  /** A run is in flight; its finish queues the key again. */
  | { readonly kind: 'busy' }
  /** A hold covers it; its release queues it again. */
  | { readonly kind: 'held' }
  /** A run's deadline has passed without an outcome: settle it. */
  | { readonly kind: 'lost'; readonly run: number; readonly failures: number; readonly error: string | undefined }
  /** What the last run wrote is not in the cache yet; a timer is set. */
  | { readonly kind: 'barrier'; readonly barrier: BarrierText }
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

/** What the poller has to look at. */
export interface Due {
  readonly timers: readonly DueTimer[];
  readonly debounced: readonly Scored[];
  readonly inFlight: readonly Scored[];
  readonly backlog: readonly Scored[];
  /** Scopes whose hold ends. */
  readonly holds: readonly Scored[];
  /** When the next of all these is due. */
  readonly nextMs: number | undefined;
  /** Low-priority keys were left for want of room. */
  readonly backlogLeft: boolean;
}

/** A key with nothing to do whose record holds a barrier; undefined: it does so no longer. */
export interface Resting extends Scored {
  readonly barrier: BarrierText | undefined;
}

export type PostponedSet = 'timers' | 'debounced' | 'inFlight' | 'backlog' | 'resting';

/**
 * What is known of the keys of one queue, shared by its gateways. Each method is one atomic step and may be taken
 * twice. The Lua files say exactly what each does.
 */
export interface Records {
  /** Keys were added: when, and why. Comes before their jobs. */
  note(keys: readonly QueuedKey[], nowMs: number): Promise<void>;
  startAll(
    requests: readonly StartRequest[],
    at: { readonly nowMs: number; readonly deadlineMs: number },
  ): Promise<Start[]>;
  finishAll(requests: readonly FinishRequest[], nowMs: number): Promise<Finished[]>;
  /**
   * Low keys that a hold covers wait for its release from now on, and are not among the answers.
   * @param limit of each but the backlog. @param room how many jobs may wait before low keys stay in the backlog.
   */
  due(nowMs: number, limit: number, room: number): Promise<Due>;
  /** Moves scores that are still as they were read. @param added jobs were added for these keys, which are to run. */
  postpone(set: PostponedSet, toMs: number, entries: readonly Scored[], added?: boolean): Promise<void>;
  /**
   * A part of the keys that were due before `atMs` and have not been started, though jobs were to be added for them.
   * From cursor '0' on until '0' comes back, every key that was there all the while has been in one part.
   */
  queuedBefore(
    atMs: number,
    cursor: string,
    limit: number,
  ): Promise<{ readonly keys: readonly string[]; readonly cursor: string }>;
  /** Keys whose last run was before `atMs`, and of which nothing but a barrier may be left. */
  restingBefore(atMs: number, limit: number): Promise<readonly Resting[]>;
  /** These barriers have passed: nothing is kept of a key that still rests with no other. */
  forgetBarriers(passed: readonly Resting[]): Promise<void>;
  /** Earliest time wins. */
  addTimer(key: string, atMs: number): Promise<void>;
  addToBacklog(keys: readonly string[], nowMs: number, reason: LowReason): Promise<void>;
  hold(scope: HoldScope, sinceMs: number, untilMs: number | undefined): Promise<void>;
  /** @param onlyIfEnds the end as it was read: a hold that was prolonged since stays. */
  release(scope: string, onlyIfEnds?: string): Promise<void>;
  drop(keys: readonly string[], nowMs: number): Promise<number>;
  /** Runs in flight. */
  running(): Promise<number>;
  /** Runs that have been started so far. */
  started(): Promise<number>;
}

/** Reads what is known of keys, and changes nothing. */
export interface Inspector {
  status(key: string): Promise<KeyStatus>;
  list(list: KeyList, page: { readonly offset: number; readonly limit: number }): Promise<KeyPage>;
  holds(): Promise<Hold[]>;
  /** Since when the key is due that is due for longest and has not been started; undefined when there is none. */
  oldestDue(nowMs: number): Promise<number | undefined>;
}

/** A run that no add gave a reason for comes from the backlog or from a timer, which the last outcome has set. */
export function reasonsOr(
  noted: readonly Reason[],
  run: { low: LowReason | undefined; failures: number },
): readonly Reason[] {
  return noted.length > 0 ? noted : [{ type: run.low ?? (run.failures > 0 ? 'retry' : 'requeue') }];
}
