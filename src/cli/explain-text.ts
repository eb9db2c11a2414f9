import { boundedText } from '../core/index.ts';
import type { Reason } from '../contract/index.ts';
import type { ServedKey } from '../gateway/http/server/queue-api.ts';
import type { ControllerStateWord } from '../gateway/controller/running/controller-state.ts';
import { type NextRun, nextRun, objectText } from '../gateway/controller/workqueue/key-state.ts';
import type { PastRun, WriteSummary } from '../gateway/controller/workqueue/work-queue.ts';
import { describeWait, inWords, pausedBy, time } from './gateway-tables.ts';

/** A timeline of a key, the oldest run first: why it ran, the result, its current waits, and its next run. */
export function explainKey(controller: string, status: ServedKey, nowMs: number): string {
  const { key, history, controllerState, problems, waits, pauses, reasons, running, queuedAtMs, deadSinceMs } = status;
  const runs = history
    .toReversed()
    .flatMap((run) => [
      headOf(run),
      ...[...detailsOf(run), ...(run === history[0] ? notesOf(run) : [])].map((line) => `  ${line}`),
    ]);
  const now = [
    status.state,
    ...problems.map((problem) => `its controller has a problem: ${problem}`),
    ...(status.object ? [objectText(status.object)] : []),
    ...(NOTHING_TO_SEE.includes(controllerState) ? [] : [`its controller: ${controllerState}`]),
    ...(running ? [`run ${running.run} is in flight, until ${time(running.deadlineMs)} at the latest`] : []),
    ...(deadSinceMs === undefined ? [] : [`a dead letter since ${time(deadSinceMs)}`]),
    ...(queuedAtMs === undefined ? [] : [`added ${time(queuedAtMs)}${becauseOf(reasons)}`]),
    ...waits.filter(({ reason }) => reason !== 'paused').map((wait) => `waits for ${describeWait(wait)}`),
    ...pauses
      .filter(({ scope }) => scope !== 'recovery')
      .map(({ scope, sinceMs }) => `paused since ${time(sinceMs)}: ${pausedBy(scope)}`),
  ];
  const lines = [
    `${key} of controller ${controller}`,
    '',
    'what happened:',
    ...indented(runs, 'no run of this key is remembered'),
    '',
    'what it is doing:',
    ...indented(now, ''),
    '',
    `next run: ${describeNext(nextRun(status.state, status), nowMs)}`,
  ];
  // Errors and messages come from functions, which may send control characters to the terminal.
  return lines.map((line) => `${boundedText(line, LONGEST_LINE)}\n`).join('');
}

const LONGEST_LINE = 4096;
/** Of a controller, which explain nothing about a key. */
const NOTHING_TO_SEE: readonly ControllerStateWord[] = ['idle', 'busy'];

function indented(lines: readonly string[], otherwise: string): string[] {
  return (lines.length > 0 ? lines : [otherwise]).map((line) => `  ${line}`);
}

function headOf({
  atMs,
  run,
  outcome,
  attempt,
  waitedMs,
  heldMs,
  cacheAgeMs,
  tookMs,
  gateway,
  error,
}: PastRun): string {
  const facts = [
    `run ${run}`,
    ...(attempt === undefined || attempt === 1 ? [] : [`attempt ${attempt}`]),
    ...(waitedMs === undefined ? [] : [`waited ${waitedMs} ms`]),
    ...(heldMs === undefined ? [] : [`${heldMs} ms of it for the cache`]),
    ...(cacheAgeMs === undefined ? [] : [`cache at most ${Math.round(cacheAgeMs / 100) / 10} s old`]),
    ...(tookMs === undefined ? [] : [`took ${tookMs} ms`]),
    ...(gateway === undefined ? [] : [`on ${gateway}`]),
  ];
  return `${time(atMs)}  ${OUTCOMES[outcome]}${error === undefined ? '' : `: ${error}`}  (${facts.join(', ')})`;
}

const OUTCOMES = {
  done: 'done',
  requeue: 'done, asked for another run',
  deferred: 'the function asked for later',
  'not-sent': 'no trigger was sent',
  failed: 'failed',
  dead: 'failed, became a dead letter',
  accepted: 'goes on after its answer',
  unknown: 'outcome unknown',
  lost: 'lost, counted as a failure',
} as const satisfies Record<PastRun['outcome'], string>;

function detailsOf({ reasons, wrote, barrier, nextMs, outcome }: PastRun): string[] {
  const until = outcome === 'accepted' ? 'its outcome is due by' : 'to run again by';
  return [
    ...(reasons ?? []).map((reason) => `because ${describeReason(reason)}`),
    ...(wrote ? [`wrote ${describeWrote(wrote)}`] : []),
    ...(barrier ? ['the next run waits until the cache shows this'] : []),
    ...(nextMs === undefined ? [] : [`${until} ${time(nextMs)}`]),
  ];
}

/** The stack and the log that the function reported. `explainKey` shows them for the last run only. */
function notesOf({ stack, log = [] }: PastRun): string[] {
  return [
    ...(stack === undefined ? [] : ['the stack of its error:', ...stack.split('\n').map((line) => `  ${line}`)]),
    ...(log.length === 0 ? [] : ['the last lines of its log:', ...log.map((line) => `  ${line}`)]),
  ];
}

function becauseOf(reasons: readonly Reason[]): string {
  return reasons.length === 0 ? '' : `, because ${reasons.map(describeReason).join('; ')}`;
}

function describeReason({ type, object, resourceVersion, message }: Reason): string {
  const parts = [type, object, resourceVersion && `at ${resourceVersion}`, message && JSON.stringify(message)];
  return parts.filter(Boolean).join(' ');
}

function describeWrote({ count, first }: WriteSummary): string {
  const objects = first.map(({ object, resourceVersion, deleted }) => {
    if (deleted) return `${object} (deleted)`;
    return resourceVersion === undefined ? object : `${object} at ${resourceVersion}`;
  });
  const more = count - first.length;
  return `${objects.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

function describeNext({ text, atMs }: NextRun, nowMs: number): string {
  return atMs === undefined ? text : `${inWords(atMs - nowMs)}, at ${time(atMs)}; ${text}`;
}
