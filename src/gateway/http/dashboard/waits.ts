import { awaitedBy } from '../../controller/dispatch/barrier.ts';
import { PAUSED_ANNOTATION } from '../../controller/handlers/paused.ts';
import { keyState, type KeyStateWord } from '../../controller/workqueue/key-state.ts';
import type { KeyStatus, Wait } from '../../controller/workqueue/work-queue.ts';
import { html, type Html, plural } from './html.ts';
import type { Tone } from './components/panel.ts';
import type { Times } from './times.ts';

/** The state of a key as pages show it. */
export interface ShownState {
  readonly tone: Tone;
  readonly word: KeyStateWord;
  readonly why: Html;
  /** The wait that `why` describes. */
  readonly wait: Wait | undefined;
}

const TONES: Readonly<Record<KeyStateWord, Tone>> = {
  running: 'ok',
  'goes on': 'ok',
  'dead letter': 'bad',
  paused: 'warn',
  'waits for recovery': 'warn',
  failing: 'bad',
  'waits for the cache': 'warn',
  debounced: 'warn',
  'rate limit': 'warn',
  'circuit open': 'warn',
  'function starts': 'neutral',
  ready: 'ok',
  'low priority': 'ok',
  requeued: 'neutral',
  'at rest': 'neutral',
  'not selected': 'neutral',
  'no object': 'neutral',
};

export function shownState(status: KeyStatus, times: Times): ShownState {
  const { word, wait } = keyState(status, times.nowMs);
  const why = wait ? waitText(wait, times) : stateText(word, status, times);
  return { tone: TONES[word], word, why, wait };
}

/** Why a key is in a state that ends with its turn or its time. */
function stateText(word: KeyStateWord, status: KeyStatus, times: Times): Html {
  const { running, failures, deadSinceMs = 0, timerMs } = status;
  switch (word) {
    case 'running':
      return html`run ${running?.run}, its time is over ${times.at(running?.deadlineMs ?? 0)}`;
    case 'dead letter': {
      const cause = failures === 0 ? 'by an error that is not tried again' : `after ${plural(failures, 'failure')}`;
      return html`since ${times.at(deadSinceMs)}, ${cause}`;
    }
    case 'failing':
      return timerMs === undefined
        ? html`after ${plural(failures, 'failure')}`
        : html`attempt ${failures + 1} ${times.at(timerMs)}`;
    case 'ready':
      return html`runs as soon as there is room`;
    case 'low priority':
      return html`runs when no other key is ready`;
    case 'requeued':
      return html`runs ${times.at(timerMs ?? 0)}`;
    default:
      return html`nothing to do until something changes`;
  }
}

/** Why a key waits and until when, as a phrase. */
export function waitText(wait: Wait, times: Times): Html {
  switch (wait.reason) {
    case 'barrier':
      return html`the cache does not show yet what its last run wrote (${awaitedText(wait.barrier)}), since
      ${times.at(wait.sinceMs)}`;
    case 'busy':
      return html`its function has answered 202 and sends the outcome later, until ${times.at(wait.untilMs)} at most`;
    case 'breaker':
      return wait.isStarting
        ? html`the function is starting, and is tried again ${times.at(wait.untilMs)}`
        : html`this gateway cannot reach the function and tries again ${times.at(wait.untilMs)}`;
    case 'recovery':
      return wait.untilMs === undefined
        ? html`data in Redis was lost, and runs without a record may go on`
        : html`data in Redis was lost; runs without a record are over ${times.at(wait.untilMs)}`;
    case 'paused':
      return pausedText(wait.by);
    case 'rate-limit':
      return html`the rate limit of its controller lets it run ${times.at(wait.untilMs)}`;
    case 'debounce':
      return html`more changes are waited for until ${times.at(wait.untilMs)}`;
  }
}

/** Which pause keeps a key back. */
function pausedText(by: Extract<Wait, { reason: 'paused' }>['by']): Html {
  if (by.startsWith('key/')) return html`a person has paused this key`;
  if (by.startsWith('object/')) return html`its object has the annotation <code>${PAUSED_ANNOTATION}</code>`;
  return html`a person has paused ${pauseName(by)}`;
}

/** `v1/Pod up to version 1234`. */
function awaitedText(barrier: string): string {
  const parts = awaitedBy(barrier).flatMap(({ kind, resourceVersion, deleted = [] }) => [
    ...(resourceVersion === undefined ? [] : [`${kind} up to version ${resourceVersion}`]),
    ...(deleted.length === 0 ? [] : [`${kind} without ${deleted.join(', ')}`]),
  ]);
  return parts.join('; ');
}

/** The scope of a pause in words. */
export function pauseName(scope: string): string {
  if (scope === 'controller') return 'the controller';
  if (scope === 'recovery') return 'all keys during recovery';
  const slash = scope.indexOf('/');
  return `the ${scope.slice(0, slash)} ${scope.slice(slash + 1)}`;
}
