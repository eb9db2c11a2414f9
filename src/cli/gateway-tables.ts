import { boundedText } from '../core/index.ts';
import type { FunctionSummary, ViewSummary } from '../gateway/http/dashboard/data.ts';
import type { ServedQueue, ServedWait } from '../gateway/http/server/queue-api.ts';
import type { KeyPage, PauseScope, PauseSummary } from '../gateway/controller/workqueue/work-queue.ts';

const LONGEST_CELL = 4096;

export function describeControllers(queues: readonly ServedQueue[]): string {
  if (queues.length === 0) return 'this gateway runs no controller\n';
  const lists = Object.keys(queues[0]?.keys ?? {});
  const rows = queues.map((queue) => [
    queue.controller,
    queue.state,
    ...Object.values(queue.keys).map(String),
    [...pausedIn(queue), ...(queue.circuit ? ['breaker'] : [])].join(',') || '-',
    queue.problems[0] ?? queue.remarks[0] ?? '-',
  ]);
  return textTable([['CONTROLLER', 'STATE', ...lists.map((list) => list.toUpperCase()), 'PAUSED', 'REASON'], ...rows]);
}

/** The scopes of a controller's pauses; where there are too many, their number. */
export function pausedIn({ pauses, morePauses, pausedObjects }: PauseSummary): string[] {
  return [
    ...pauses.map(({ scope }) => scope),
    ...(morePauses > 0 ? [`${morePauses} more`] : []),
    ...(pausedObjects > 0 ? [`${pausedObjects} ${pausedObjects === 1 ? 'object' : 'objects'}`] : []),
  ];
}

/** The lists of one controller that have keys, with the keys of each from `offset` on. */
export function describeLists(pages: Readonly<Record<string, KeyPage>>, offset: number): string {
  const filled = Object.entries(pages).filter(([, { total }]) => total > 0);
  if (filled.length === 0) return 'no key waits, runs or has given up\n';
  const rows = filled.flatMap(([list, { keys }]) => keys.map(({ key, atMs }) => [list, key, time(atMs)]));
  const more = filled
    .map(([list, { total, keys }]) => ({ list, next: offset + keys.length, rest: total - offset - keys.length }))
    .filter(({ rest }) => rest > 0)
    .map(({ list, next, rest }) => `${rest} more: --list ${list} --offset ${next}\n`);
  return textTable([['LIST', 'KEY', 'TIME'], ...rows]) + more.join('');
}

export function describePage({ total, keys }: KeyPage, list: string, offset: number): string {
  if (keys.length === 0) {
    const none = list === 'dead' ? 'no dead letters' : `no keys in the list ${list}`;
    return total === 0 ? `${none}\n` : `${none} from ${offset} on, ${total} in all\n`;
  }
  const rows = keys.map(({ key, atMs }) => [key, atMs === undefined ? '-' : time(atMs)]);
  const rest = total - offset - keys.length;
  return textTable([['KEY', 'TIME'], ...rows]) + (rest > 0 ? `${rest} more: --offset ${offset + keys.length}\n` : '');
}

export function describeDeadLetters(pages: Readonly<Record<string, KeyPage>>): string {
  const rows = Object.entries(pages).flatMap(([controller, { keys }]) =>
    keys.map(({ key, atMs }) => [controller, key, atMs === undefined ? '-' : time(atMs)]),
  );
  if (rows.length === 0) return 'no dead letters\n';
  const more = Object.entries(pages)
    .filter(([, { total, keys }]) => total > keys.length)
    .map(
      ([controller, { total, keys }]) =>
        `${total - keys.length} more: levelhook get keys ${controller} --list dead --offset ${keys.length}\n`,
    );
  return textTable([['CONTROLLER', 'KEY', 'SINCE'], ...rows]) + more.join('');
}

export function describeViews(views: readonly ViewSummary[]): string {
  if (views.length === 0) return 'nothing is cached: a kind is cached when a controller names it\n';
  const rows = views.map(({ name, objects, synced, behindMs, lastList, users }) => [
    name,
    String(objects),
    synced ? 'complete' : 'not complete',
    behindMs === undefined ? '-' : `${Math.round(behindMs / 1000)} s`,
    lastList ? `${time(lastList.atMs)} ${lastList.reason}` : '-',
    users.join(',') || '-',
  ]);
  return textTable([['VIEW', 'OBJECTS', 'STATE', 'BEHIND', 'LAST LIST', 'CONTROLLERS'], ...rows]);
}

export function describeFunctions(functions: readonly FunctionSummary[]): string {
  if (functions.length === 0) return 'no function is known\n';
  const rows = functions.map(({ controller, url, problem, openReason, lastAnswer }) => [
    controller ?? '-',
    url ?? '-',
    problem ?? openReason ?? 'allowed',
    lastAnswer ? `${time(lastAnswer.atMs)} ${lastAnswer.text}` : '-',
  ]);
  return textTable([['CONTROLLER', 'URL', 'TRIGGERS', 'LAST ANSWER'], ...rows]);
}

/** The cause of a key's wait, as the object of a sentence. */
export function describeWait(wait: ServedWait): string {
  switch (wait.reason) {
    case 'barrier':
      return `the cache to show what the last run wrote${describeAwaits(wait.awaits)}, since ${time(wait.sinceMs)}`;
    case 'busy':
      return `the outcome of its run, until ${time(wait.untilMs)}`;
    case 'breaker':
      return `the function to ${wait.isStarting ? 'start' : 'be reachable from this gateway'}, tried again at ${time(wait.untilMs)}`;
    case 'recovery':
      return `unrecorded runs to end${wait.untilMs === undefined ? '' : `, ${time(wait.untilMs)}`}`;
    case 'paused':
      return `the end of a pause: ${pausedBy(wait.by)}`;
    case 'rate-limit':
      return `its turn under the rate limit, ${time(wait.untilMs)}`;
    case 'debounce':
      return `the end of its debounce, ${time(wait.untilMs)}`;
  }
}

/** The origin of a pause, in the terms of `levelhook pause`. */
export function pausedBy(scope: PauseScope): string {
  if (scope === 'controller') return 'a person has paused the controller';
  if (scope === 'recovery') return 'the gateway waits for unrecorded runs';
  const [kind] = scope.split('/', 1);
  const name = scope.slice(scope.indexOf('/') + 1);
  return kind === 'object'
    ? `${name} has the annotation levelhook.dev/paused`
    : `a person has paused the ${kind} ${name}`;
}

function describeAwaits(awaits: Extract<ServedWait, { reason: 'barrier' }>['awaits']): string {
  const parts = awaits.map(({ kind, resourceVersion, deleted }) =>
    [kind, resourceVersion && `at ${resourceVersion}`, deleted && `without ${deleted.join(', ')}`]
      .filter(Boolean)
      .join(' '),
  );
  return parts.length === 0 ? '' : ` (${parts.join('; ')})`;
}

export function time(ms: number): string {
  return new Date(ms).toISOString();
}

export function inWords(ms: number): string {
  return ms <= 0 ? 'now' : `in ${ms < 1000 ? `${Math.ceil(ms)} ms` : `${Math.round(ms / 1000)} s`}`;
}

/**
 * Pads columns to their widest cell. Each row stays on one line: cells have texts from functions and names from
 * objects.
 */
export function textTable(cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map((cell) => boundedText(cell, LONGEST_CELL)));
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? [];
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
