import { awaitedBy } from '../dispatch/barrier.ts';
import { PAUSED_ANNOTATION } from '../handlers/paused.ts';
import { waitFor } from '../workqueue/key-status.ts';
import type { KeyStatus, Wait } from '../workqueue/work-queue.ts';
import { html, type Html, plural } from './html.ts';
import type { Tone } from './components/panel.ts';
import type { Times } from './times.ts';

/** What a key is doing, in a word, and why. */
export interface KeyState {
  readonly tone: Tone;
  readonly word: string;
  readonly why: Html | undefined;
}

/** The most important of all that is known of a key. */
export function keyState(status: KeyStatus, times: Times): KeyState {
  const { running, waits, pauses, failures, deadSinceMs, queued, backlog, timerMs } = status;
  const busy = waits.find(({ reason }) => reason === 'busy');
  if (running) {
    const why = busy
      ? waitText(busy, times)
      : html`run ${running.run}, its time is over ${times.at(running.deadlineMs)}`;
    return { tone: 'ok', word: busy ? 'goes on' : 'running', why };
  }
  const [wait] = waits;
  if (wait) return { tone: 'warn', word: WORDS[wait.reason], why: waitText(wait, times) };
  if (queued) return { tone: 'ok', word: 'ready', why: html`runs as soon as there is room` };
  if (backlog) return { tone: 'ok', word: 'low priority', why: html`runs when no other key is ready` };
  if (deadSinceMs !== undefined) {
    const cause = failures === 0 ? 'by an error that is not tried again' : `after ${plural(failures, 'failure')}`;
    return { tone: 'bad', word: 'dead letter', why: html`since ${times.at(deadSinceMs)}, ${cause}` };
  }
  const [pause] = pauses.map(waitFor);
  if (pause) return { tone: 'warn', word: WORDS[pause.reason], why: waitText(pause, times) };
  if (timerMs !== undefined && failures > 0) {
    return { tone: 'bad', word: 'failing', why: html`attempt ${failures + 1} ${times.at(timerMs)}` };
  }
  if (timerMs !== undefined) return { tone: 'neutral', word: 'requeued', why: html`runs ${times.at(timerMs)}` };
  if (failures > 0) return { tone: 'bad', word: 'failing', why: html`after ${failures} failures` };
  return { tone: 'neutral', word: 'at rest', why: html`nothing to do until something changes` };
}

const WORDS: Readonly<Record<Wait['reason'], string>> = {
  barrier: 'waits for the cache',
  busy: 'goes on',
  breaker: 'circuit open',
  recovery: 'waits for recovery',
  paused: 'paused',
  'rate-limit': 'rate limit',
  debounce: 'debounced',
};

/** Why a key waits and until when, as a phrase. */
export function waitText(wait: Wait, times: Times): Html {
  switch (wait.reason) {
    case 'barrier':
      return html`the cache does not show yet what its last run wrote (${awaitedText(wait.barrier)}), since
      ${times.at(wait.sinceMs)}`;
    case 'busy':
      return html`its function has answered 202 and sends the outcome later, until ${times.at(wait.untilMs)} at most`;
    case 'breaker':
      return html`this gateway cannot reach the function and tries again ${times.at(wait.untilMs)}`;
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
  return html`the pause of ${pauseName(by)} ends it`;
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
