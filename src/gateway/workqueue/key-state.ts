import { waitFor } from './key-status.ts';
import { BARRIER_AGAIN_MS } from './queue-options.ts';
import type { KeyStatus, Wait } from './work-queue.ts';

/** What a key is doing, in a word. Pages, `explain` and `queue` say the same one. */
export const KEY_STATES = [
  'running',
  'goes on',
  'dead letter',
  'paused',
  'waits for recovery',
  'failing',
  'waits for the cache',
  'debounced',
  'rate limit',
  'circuit open',
  'ready',
  'low priority',
  'requeued',
  'at rest',
] as const;
export type KeyStateWord = (typeof KEY_STATES)[number];

export interface KeyState {
  readonly word: KeyStateWord;
  /** What it waits for, where the word says that it waits. */
  readonly wait?: Wait;
}

const WAITS: readonly (readonly [Wait['reason'], KeyStateWord])[] = [
  ['debounce', 'debounced'],
  ['rate-limit', 'rate limit'],
  ['breaker', 'circuit open'],
];

/** The one of all that is known of a key which decides when it runs next. */
export function keyState(status: KeyStatus, nowMs: number): KeyState {
  const { running, waits, pauses, failures, deadSinceMs, queued, backlog, timerMs } = status;
  const waitOf = (reason: Wait['reason']): Wait | undefined => waits.find((each) => each.reason === reason);
  const busy = waitOf('busy');
  if (running) return busy ? { word: 'goes on', wait: busy } : { word: 'running' };
  if (deadSinceMs !== undefined && !queued && !backlog) return { word: 'dead letter' };
  const pause = pauses.map(waitFor).find(({ reason }) => reason === 'paused') ?? waitOf('paused');
  if (pause) return { word: 'paused', wait: pause };
  const recovery = waitOf('recovery') ?? pauses.map(waitFor)[0];
  if (recovery) return { word: 'waits for recovery', wait: recovery };
  // The timer of a key whose time has come is the next look at its barrier.
  const isLater = timerMs !== undefined && timerMs > nowMs + BARRIER_AGAIN_MS && !queued && !backlog;
  if (isLater && failures > 0) return { word: 'failing' };
  const barrier = isLater ? undefined : waitOf('barrier');
  if (barrier) return { word: 'waits for the cache', wait: barrier };
  for (const [reason, word] of WAITS) {
    const wait = waitOf(reason);
    if (wait) return { word, wait };
  }
  if (queued) return { word: 'ready' };
  if (backlog) return { word: 'low priority' };
  if (failures > 0) return { word: 'failing' };
  return { word: timerMs === undefined ? 'at rest' : 'requeued' };
}
