import type { DroppedEvent } from '../handlers/event-handler.ts';
import { waitFor } from './key-status.ts';
import { BARRIER_AGAIN_MS } from './queue-options.ts';
import type { KeyObject, KeyStatus, Wait } from './work-queue.ts';

/** The state of a key, in a word. Pages, `explain` and `queue` use the same words. */
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
  'function starts',
  'ready',
  'low priority',
  'requeued',
  'at rest',
  'not selected',
  'no object',
] as const;
export type KeyStateWord = (typeof KEY_STATES)[number];

export interface KeyState {
  readonly word: KeyStateWord;
  /** The reason for the wait, where the word means that the key waits. */
  readonly wait?: Wait;
}

const WAITS: readonly (readonly [Wait['reason'], KeyStateWord])[] = [
  ['debounce', 'debounced'],
  ['rate-limit', 'rate limit'],
];

/** The fact about a key that decides when it runs next. */
export function keyState(status: KeyStatus, nowMs: number): KeyState {
  const { object, running, waits, pauses, failures, deadSinceMs, queued, backlog, timerMs } = status;
  const waitOf = (reason: Wait['reason']): Wait | undefined => waits.find((each) => each.reason === reason);
  const busy = waitOf('busy');
  if (running) return busy ? { word: 'goes on', wait: busy } : { word: 'running' };
  if (deadSinceMs !== undefined && !isWanted(status)) return { word: 'dead letter' };
  const pause = pauses.map(waitFor).find(({ reason }) => reason === 'paused') ?? waitOf('paused');
  if (pause) return { word: 'paused', wait: pause };
  const recovery = waitOf('recovery') ?? pauses.map(waitFor)[0];
  if (recovery) return { word: 'waits for recovery', wait: recovery };
  // A timer within `BARRIER_AGAIN_MS.most` is the next check of the key's barrier rather than a requeue.
  const isLater = timerMs !== undefined && timerMs > nowMs + BARRIER_AGAIN_MS.most && !queued && !backlog;
  if (isLater && failures > 0) return { word: 'failing' };
  const barrier = isLater ? undefined : waitOf('barrier');
  if (barrier) return { word: 'waits for the cache', wait: barrier };
  for (const [reason, word] of WAITS) {
    const wait = waitOf(reason);
    if (wait) return { word, wait };
  }
  const breaker = waits.find((each) => each.reason === 'breaker');
  if (breaker) return { word: breaker.isStarting ? 'function starts' : 'circuit open', wait: breaker };
  if (queued) return { word: 'ready' };
  if (backlog) return { word: 'low priority' };
  if (failures > 0) return { word: 'failing' };
  if (timerMs !== undefined) return { word: 'requeued' };
  return {
    word: object?.state === 'absent' ? 'no object' : object?.state === 'not selected' ? object.state : 'at rest',
  };
}

/** Whether a key is to run: also a dead letter is, once something has woken it. */
const isWanted = ({ queued, backlog, timerMs, waits }: NextFacts): boolean =>
  queued || backlog || timerMs !== undefined || waits.length > 0;

/** The facts that decide when a key runs next. */
type NextFacts = Pick<KeyStatus, 'queued' | 'backlog' | 'timerMs' | 'dirty' | 'pauses'> & {
  readonly waits: readonly (Pick<Wait, 'reason'> & { readonly untilMs?: number })[];
};

/** When a key runs next. */
export interface NextRun {
  /** Without its time. */
  readonly text: string;
  /** At the latest. Absent where no time decides. Milliseconds since the epoch. */
  readonly atMs?: number;
}

/** The event or the time that lets a key in this state run next. Pages and `explain` use the same words. */
export function nextRun(word: KeyStateWord, status: NextFacts): NextRun {
  const { dirty, pauses, timerMs, waits } = status;
  const causes = 'an event, a resync or a person';
  switch (word) {
    case 'running':
    case 'goes on':
      return dirty
        ? { text: 'after the run in flight, since the key was woken during it' }
        : { text: 'not before the run in flight ends' };
    case 'dead letter':
      return { text: `none: it is a dead letter until ${causes} (levelhook replay) runs it again` };
    case 'paused':
      return { text: isWanted(status) ? 'when its pause ends' : 'when something changes and its pause has ended' };
    case 'waits for recovery':
      return { text: 'when runs without a record must be over' };
    case 'waits for the cache':
      return { text: 'as soon as the cache shows the writes of its last run' };
    case 'circuit open':
      return { text: 'as soon as the function can be reached' };
    case 'function starts':
      return { text: 'as soon as the function has started' };
    case 'debounced':
    case 'rate limit': {
      const reason = WAITS.find((each) => each[1] === word)?.[0];
      const untilMs = waits.find((each) => each.reason === reason)?.untilMs;
      return { text: 'when its wait ends', ...(untilMs === undefined ? {} : { atMs: untilMs }) };
    }
    case 'ready':
      return { text: 'as soon as there is a free slot' };
    case 'low priority':
      return { text: 'when there is a free slot, after the keys that were added' };
    case 'failing':
    case 'requeued':
      if (timerMs !== undefined) return { text: 'an event may run it earlier', atMs: timerMs };
      break;
    case 'at rest':
    case 'not selected':
    case 'no object':
  }
  return { text: `none is planned: ${causes} can cause one${pauses.length > 0 ? ' after its pause' : ''}` };
}

/** The state of a key's object, as a sentence without its full stop. */
export function objectText(object: KeyObject): string {
  switch (object.state) {
    case 'cached':
      return `the cache has its object${droppedText(object.dropped)}`;
    case 'kept out':
      return `the cache keeps its object out and has its metadata alone: ${object.reason}`;
    case 'absent':
      return 'there is no such object in the cache, which is complete';
    case 'not selected':
      return NOT_SELECTED[object.by] + droppedText(object.dropped);
    case 'unknown':
      return `nothing is known of its object: ${object.reason}`;
  }
}

function droppedText(dropped: DroppedEvent | undefined): string {
  if (!dropped) return '';
  const { type, resourceVersion, by } = dropped;
  return `; its last event, ${type} at version ${resourceVersion}, was left out by for.predicate.${by}`;
}

const NOT_SELECTED = {
  namespaces: 'its controller reconciles no keys of this namespace',
  labelSelector: 'the cache has its object, which the label selector of its controller leaves out',
  predicate: 'the cache has its object, whose events the predicate of its controller leaves out',
} as const satisfies Record<Extract<KeyObject, { state: 'not selected' }>['by'], string>;
