import type { Reason } from '../../../../contract/index.ts';
import type { PastRun } from '../../../controller/workqueue/work-queue.ts';
import type { ReadingTime } from '../../cache-api/reading-time.ts';
import type { ChangeReason, DashboardData, ObjectChange, Shown } from '../data.ts';
import { changePanel } from '../components/object.ts';
import { facts, panel } from '../components/panel.ts';
import { outcomeBadge, reasonList, wroteText } from '../components/runs.ts';
import { type Content, html, type Html } from '../html.ts';
import { crumbs, layout, type PageRequest } from '../page.ts';
import { formatDuration } from '../times.ts';
import { controllerUrl, DASHBOARD_PATH, keyUrl, runsUrl, runUrl } from '../urls.ts';

/** Reasons whose changes a page asks the apiserver for. */
const MOST_CHANGES = 2;

/**
 * One run of a key: why it ran, what has changed, how long it took, how it ended, and what its function reported.
 * @param entries its entries in the history, the newest first. A run that went on after its answer has several.
 * @param first the run that it repeats: its reasons are the first cause.
 */
export async function runPage(
  page: PageRequest,
  {
    id,
    key,
    entries,
    first,
    traceUrl,
    changeOf,
    pace,
  }: {
    readonly id: string;
    readonly key: string;
    readonly entries: readonly PastRun[];
    readonly first: PastRun | undefined;
    readonly traceUrl: DashboardData['traceUrl'];
    readonly changeOf: (reason: ChangeReason) => Promise<Shown<ObjectChange>>;
    readonly pace: ReadingTime['pace'];
  },
): Promise<Html> {
  const [last] = entries;
  if (!last) return forgottenPage(page, id, key);
  const caused = first ? [...entries, first] : entries;
  const reasons = caused.flatMap((each) => (each.reasons ?? []).flatMap(asChange)).slice(0, MOST_CHANGES);
  const changes: Html[] = [];
  // One after the other: an object may have megabytes.
  for (const each of reasons) {
    const what = html`${each.object} at ${each.resourceVersion}`;
    changes.push(await changePanel(what, await changeOf(each), pace));
  }
  const title = `Run ${last.run} of ${key}`;
  return layout(page, {
    title: `${title} · ${id}`,
    section: 'overview',
    // The record of a run that is over does not change.
    refreshMs: last.outcome === 'accepted' || last.outcome === 'unknown' ? 5000 : 0,
    content: html`
      ${crumbs(['Overview', DASHBOARD_PATH], [id, controllerUrl(id)], ['Runs', runsUrl(id)], [key, keyUrl(id, key)])}
      <h1>${title} ${outcomeBadge(last.outcome)}</h1>
      ${entries.map((each) =>
        entryPanel(page, each, {
          isOneOfSeveral: entries.length > 1,
          cause: first && html`<a href="${runUrl(id, first)}">run ${first.run}</a>: ${reasonList(first.reasons)}`,
          trace: each.reconcileId === undefined ? undefined : traceUrl(each.reconcileId),
        }),
      )}
      ${changes}
    `,
  });
}

/** The first of the attempts that these entries of a run repeat; undefined when it is not among the runs of its key. */
export function firstAttempt(runs: readonly PastRun[], entries: readonly PastRun[]): PastRun | undefined {
  const again = entries.find(({ attempt = 1 }) => attempt > 1);
  const number = again && runs.find(({ attempt, run }) => attempt === 1 && run < again.run)?.run;
  const attempts = runs.filter(({ run }) => run === number);
  // A run without an answer has two entries, and its reasons are in the first of them.
  const hasFailed = attempts.every(({ outcome }) => outcome !== 'done' && outcome !== 'requeue');
  return hasFailed ? attempts.find(({ reasons }) => reasons !== undefined) : undefined;
}

function asChange({ type, object, resourceVersion }: Reason): ChangeReason[] {
  return object === undefined || resourceVersion === undefined ? [] : [{ type, object, resourceVersion }];
}

/** The history holds the last runs only, and of very many a second some. */
function forgottenPage(page: PageRequest, id: string, key: string): Html {
  return layout(page, {
    title: `Run of ${key} · ${id}`,
    section: 'overview',
    refreshMs: 0,
    content: html`
      ${crumbs(['Overview', DASHBOARD_PATH], [id, controllerUrl(id)], ['Runs', runsUrl(id)], [key, keyUrl(id, key)])}
      <h1>Run of ${key}</h1>
      <p class="notice">
        This run is not on record any more: the history keeps the last runs of each controller, and of very many a
        second some.
      </p>
    `,
  });
}

function entryPanel(
  { times }: PageRequest,
  entry: PastRun,
  {
    isOneOfSeveral,
    cause,
    trace,
  }: { readonly isOneOfSeveral: boolean; readonly cause: Content; readonly trace: string | undefined },
): Html {
  const { outcome, atMs, attempt, tookMs, waitedMs, heldMs, cacheAgeMs, gateway } = entry;
  const { reasons, error, wrote, barrier, nextMs, stack, log, reconcileId } = entry;
  const body = facts([
    ['Ended', times.at(atMs)],
    ['Attempt', attempt !== undefined && String(attempt)],
    ['Waited in the queue', waitedMs !== undefined && formatDuration(waitedMs)],
    ['Of it for the cache', heldMs !== undefined && formatDuration(heldMs)],
    ['Its cache was', cacheAgeMs !== undefined && `at most ${formatDuration(cacheAgeMs)} old`],
    ['Took', tookMs !== undefined && formatDuration(tookMs)],
    ['Gateway', gateway],
    ['reconcileID in logs', reconcileId !== undefined && html`<code>${reconcileId}</code>`],
    ['Trace', trace !== undefined && html`<a href="${trace}">Open it</a>`],
    ['Why', reasonList(reasons)],
    ['First cause', cause],
    ['Wrote', wroteText(wrote)],
    ['Error', error],
    ['Then', barrier && 'the next run of the key waits until the cache shows these writes'],
    ['Next run of the key', nextMs !== undefined && times.at(nextMs)],
  ]);
  const title = isOneOfSeveral ? html`${outcomeBadge(outcome)} ${times.at(atMs)}` : 'Run';
  return html`${panel(title, html`<div class="body">${body}</div>`)} ${notes(stack, log)}`;
}

/** The stack and the log that the function reported. */
function notes(stack: string | undefined, log: readonly string[] | undefined): Content {
  return [
    stack !== undefined && panel('Stack of its error', textBlock(stack, 'Stack of its error')),
    log !== undefined &&
      panel('What it read, wrote and logged', textBlock(log.join('\n'), 'What it read, wrote and logged')),
  ];
}

function textBlock(text: string, label: string): Html {
  return html`<pre tabindex="0" role="region" aria-label="${label}"><code>${text}</code></pre>`;
}
