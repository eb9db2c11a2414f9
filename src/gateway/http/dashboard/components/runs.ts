import type { Reason } from '../../../../contract/index.ts';
import type { PastRun, PastOutcome } from '../../../controller/workqueue/work-queue.ts';
import { type Content, html, type Html, plural } from '../html.ts';
import { formatDuration, type Times } from '../times.ts';
import { keyUrl, runUrl, searchUrl } from '../urls.ts';
import { badge, type Tone } from './panel.ts';
import type { TableColumn } from './table.ts';

const OUTCOMES: Readonly<Record<PastOutcome, readonly [tone: Tone, word: string]>> = {
  done: ['ok', 'done'],
  requeue: ['ok', 'done, again later'],
  deferred: ['neutral', 'deferred'],
  'not-sent': ['neutral', 'not sent'],
  failed: ['bad', 'failed'],
  dead: ['bad', 'dead letter'],
  accepted: ['neutral', 'goes on'],
  unknown: ['warn', 'outcome unknown'],
  lost: ['bad', 'outcome lost'],
};

/** How a run ended, in a word. */
export function outcomeBadge(outcome: PastOutcome): Html {
  return badge(...OUTCOMES[outcome]);
}

export function outcomeTone(outcome: PastOutcome): Tone {
  return OUTCOMES[outcome][0];
}

/** The columns of a table of runs of one controller. */
export function runColumns(controller: string, times: Times): TableColumn<PastRun>[] {
  return [
    { title: 'Key', heading: true, cell: ({ key }) => html`<a href="${keyUrl(controller, key)}">${key}</a>` },
    {
      title: 'Ended',
      look: 'nowrap',
      cell: ({ key, run, atMs, leftOut = 0 }) =>
        html`<a href="${runUrl(controller, { key, run })}">${times.at(atMs)}</a>
          ${leftOut > 0 && html`<span class="reason">${leftOutText(leftOut)}</span>`}`,
    },
    {
      title: 'Outcome',
      look: 'text',
      cell: ({ outcome, error }) =>
        html`${outcomeBadge(outcome)} ${error !== undefined && html`<span class="reason">${error}</span>`}`,
    },
    { title: 'Took', look: 'number', cell: ({ tookMs }) => tookMs !== undefined && formatDuration(tookMs) },
    {
      title: 'Waited',
      look: 'number optional',
      cell: ({ waitedMs }) => waitedMs !== undefined && formatDuration(waitedMs),
    },
    { title: 'Attempt', look: 'number optional', cell: ({ attempt }) => attempt },
    { title: 'Why', look: 'text optional', cell: ({ reasons }) => reasonList(reasons) },
    { title: 'Wrote', look: 'text optional', cell: ({ wrote }) => wroteText(wrote) },
  ];
}

/** There were too many runs for all of them to be recorded. */
function leftOutText(count: number): string {
  return `${plural(count, 'run')} before it, which ended well, not recorded`;
}

/** An object as `apiVersion/Kind namespace/name`, with a link to where the cache has it. */
function objectLink(object: string): Html {
  const space = object.indexOf(' ');
  const [kind, key] = [object.slice(0, space + 1), object.slice(space + 1)];
  return html`${kind}<a href="${searchUrl(key)}">${key}</a>`;
}

/** Why a run was asked for, one line for each reason. */
export function reasonList(reasons: readonly Reason[] | undefined): Content {
  if (!reasons || reasons.length === 0) return undefined;
  return html`<ul class="plain">
    ${reasons.map(
      ({ type, object, resourceVersion, message }) =>
        html`<li>
          ${type} ${object !== undefined && html`<span class="muted">${objectLink(object)}</span>`}
          ${resourceVersion !== undefined && html`<span class="muted">at ${resourceVersion}</span>`}
          ${message !== undefined && html`<span class="muted">“${message}”</span>`}
        </li>`,
    )}
  </ul>`;
}

/** The writes of a run, as its function reported them. */
export function wroteText(wrote: PastRun['wrote']): Content {
  if (!wrote || wrote.count === 0) return undefined;
  const more = wrote.count - wrote.first.length;
  return html`<ul class="plain">
    ${wrote.first.map(
      ({ object, resourceVersion, deleted }) =>
        html`<li>
          ${deleted && 'deleted '}${objectLink(object)}
          ${resourceVersion !== undefined && html`<span class="muted">at ${resourceVersion}</span>`}
        </li>`,
    )}
    ${more > 0 && html`<li class="muted">and ${plural(more, 'more write')}</li>`}
  </ul>`;
}
