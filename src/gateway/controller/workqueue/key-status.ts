import type { DroppedEvent } from '../handlers/event-handler.ts';
import { decodeObjectKey, isNamespace } from '../../../core/index.ts';
import type { Reason } from '../../../contract/index.ts';
import type { BarrierText } from './run.ts';

/**
 * The keys that a pause covers, and who has set it:
 *
 * - `controller`, `namespace/<namespace>`: all keys, or those of one namespace. A person.
 * - `key/<key>`: one key. A person, who alone ends it: it stays through events, resyncs and the end of the object.
 * - `object/<key>`: one key, for as long as its object has the annotation `levelhook.dev/paused`.
 * - `recovery`: all keys. The gateway itself, because runs that are no longer on record may go on.
 *
 * A key that several pauses cover waits for the end of all of them.
 */
export type PauseScope = 'controller' | 'recovery' | `namespace/${string}` | `key/${string}` | `object/${string}`;

/** The pauses that a person sets and ends. */
export type PersonScope = Exclude<PauseScope, 'recovery' | `object/${string}`>;

/** Whether a person may set and end the pause that this text names. */
export function isPersonScope(text: unknown): text is PersonScope {
  if (typeof text !== 'string') return false;
  if (text === 'controller') return true;
  const name = text.slice(text.indexOf('/') + 1);
  if (text.startsWith('namespace/')) return isNamespace(name);
  return text.startsWith('key/') && decodeObjectKey(name) !== undefined;
}

/** Keys in its scope do not start until it is resumed. Keys that become due during the pause are kept and run then. */
export interface Pause {
  readonly scope: PauseScope;
  /** When it began. Milliseconds since the epoch, as all times here. */
  readonly sinceMs: number;
  /** Ends by itself at this time. Undefined: `resume` alone ends it. */
  readonly untilMs?: number;
}

/** Why a key that has something to do does not run. */
export type Wait =
  /** The cache does not show the writes of the key's last run yet. */
  | { readonly reason: 'barrier'; readonly sinceMs: number; readonly barrier: BarrierText }
  /** Its run goes on elsewhere (a 202); its outcome is unknown after `untilMs`. */
  | { readonly reason: 'busy'; readonly untilMs: number }
  /**
   * The gateway that reports this status does not reach the function, or the function is starting. Absent where the
   * queue alone was asked (`withCircuit`).
   */
  | { readonly reason: 'breaker'; readonly untilMs: number; readonly isStarting?: true }
  | { readonly reason: 'recovery'; readonly untilMs?: number }
  | { readonly reason: 'paused'; readonly by: Exclude<PauseScope, 'recovery'> }
  /** Its token of the controller's rate limit comes at `untilMs`. */
  | { readonly reason: 'rate-limit'; readonly untilMs: number }
  | { readonly reason: 'debounce'; readonly untilMs: number };

/** The state of a key's object in the cache, and for the declaration of its controller. */
export type KeyObject =
  /** The cache has it, and its events run the key. */
  | { readonly state: 'cached'; readonly dropped?: DroppedEvent | undefined }
  /** The cache is complete and does not have it. */
  | { readonly state: 'absent' }
  /** The cache has its metadata alone. The reason in a few words. */
  | { readonly state: 'kept out'; readonly reason: string }
  /** This part of the controller's declaration excludes the key. */
  | {
      readonly state: 'not selected';
      readonly by: 'namespaces' | 'labelSelector' | 'predicate';
      readonly dropped?: DroppedEvent | undefined;
    }
  | { readonly state: 'unknown'; readonly reason: string };

/** Everything that is known of one key. */
export interface KeyStatus {
  readonly key: string;
  /** Undefined where the queue alone was asked. */
  readonly object?: KeyObject;
  /** Ready to run as soon as a slot is free. */
  readonly queued: boolean;
  /** The run in flight. */
  readonly running?: { readonly run: number; readonly deadlineMs: number };
  /** Woken while it runs, so it will run once more. */
  readonly dirty: boolean;
  /** Waits as a low-priority key. */
  readonly backlog: boolean;
  /** When it runs by itself at the latest: after a requeue, a backoff, or the next check of its waits. */
  readonly timerMs?: number;
  readonly waits: readonly Wait[];
  /** The pauses that cover it, whether or not it has something to do. */
  readonly pauses: readonly Pause[];
  /** Failures since it was last forgotten. */
  readonly failures: number;
  /** When it became a dead letter. */
  readonly deadSinceMs?: number;
  /** When it was first added since its last start. */
  readonly queuedAtMs?: number;
  /** Why it was added since its last start, and before them the reasons of that start if its run was not sent. */
  readonly reasons: readonly Reason[];
}

/** The lists in which a key can be found; one key can be in several. `failing`: it has failed and is tried again. */
export type KeyList = 'queued' | 'running' | 'timers' | 'failing' | 'backlog' | 'waiting' | 'dead';
export const KEY_LISTS: readonly KeyList[] = ['queued', 'running', 'timers', 'failing', 'backlog', 'waiting', 'dead'];

export interface KeyPage {
  /** How many keys the list has. */
  readonly total: number;
  /**
   * The keys from `offset` on, in order of time. `atMs` depends on the list: when the key became ready or dead, failed
   * first, began to wait or was added to the backlog, or when its timer or its deadline comes.
   */
  readonly keys: readonly { readonly key: string; readonly atMs: number }[];
}

/** The reason that a paused key reports for its wait. */
export function waitFor({ scope, untilMs }: Pause): Wait {
  if (scope !== 'recovery') return { reason: 'paused', by: scope };
  return { reason: scope, ...(untilMs === undefined ? {} : { untilMs }) };
}
