import { actionForm } from '../components/form.ts';
import { badge, empty, panel } from '../components/panel.ts';
import { table } from '../components/table.ts';
import type { ErrorGroup, ErrorGroups, ErrorList } from '../error-groups.ts';
import { type Content, formatCount, html, type Html, plural } from '../html.ts';
import { layout, type PageRequest } from '../page.ts';
import { type Replay, SILENT_MS } from '../../../controller/workqueue/records/replay-records.ts';
import { controllerUrl, errorsUrl, keyUrl } from '../urls.ts';

export interface ErrorsFilter {
  readonly list: ErrorList;
  /** Only keys of this controller; empty: of all. */
  readonly controller: string;
}

/** Groups that one page shows. */
const MOST_SHOWN = 100;

/** The dead letters, or the failing keys, of all controllers by error, with the actions that mend them. */
export function errorsPage(
  page: PageRequest,
  { groups, total, grouped }: ErrorGroups,
  more: {
    readonly replays: readonly Replay[];
    readonly controllers: readonly string[];
    /** How many keys each list has. */
    readonly sizes: Readonly<Record<ErrorList, number>>;
    readonly filter: ErrorsFilter;
  },
): Html {
  const { filter, replays, controllers, sizes } = more;
  const { list } = filter;
  const shown = groups.filter(({ controller }) => filter.controller === '' || controller === filter.controller);
  const largest = shown.slice(0, MOST_SHOWN);
  const all = actionForm(page, {
    action: errorsUrl({}, 'replay-all'),
    label: 'Replay all',
    tone: 'main',
    question: `${plural(total, 'dead letter')} of all controllers run again, with their failures forgotten.`,
  });
  const isUnderWay = replays.some((replay) => stateOf(replay, page.times.nowMs) === 'under way');
  return layout(page, {
    title: `Errors: ${TITLES[list]}`,
    section: 'errors',
    refreshMs: isUnderWay ? 1000 : 5000,
    content: html`
      <h1>Errors</h1>
      ${replays.length > 0 && panel('Replays', replayList(page, replays))}
      ${grouped < total && html`<p class="notice">${formatCount(grouped)} of them are grouped here, from the oldest on.</p>`}
      ${
        largest.length < shown.length &&
        html`<p class="notice">These are the ${largest.length} largest of ${formatCount(shown.length)} groups.</p>`
      }
      ${panel(
        'By error',
        html`<div class="body">${tabs(sizes, filter)}</div>
          ${groupTable(page, largest, { list, total })}`,
        html`${filterForm(controllers, filter)} ${list === 'dead' && total > 0 && all}`,
      )}
    `,
  });
}

const TITLES: Readonly<Record<ErrorList, string>> = { dead: 'Dead letters', failing: 'Failing' };

function tabs(sizes: Readonly<Record<ErrorList, number>>, { list, controller }: ErrorsFilter): Html {
  return html`<nav aria-label="Lists of keys">
    <ul class="tabs">
      ${(['dead', 'failing'] as const).map((each) => {
        const current = each === list && html` aria-current="page"`;
        const url = errorsUrl({ list: each, controller });
        return html`<li><a href="${url}" ${current}>${TITLES[each]} ${formatCount(sizes[each])}</a></li>`;
      })}
    </ul>
  </nav>`;
}

function filterForm(controllers: readonly string[], { list, controller }: ErrorsFilter): Html {
  return html`<form class="row" method="get" action="${errorsUrl()}">
    <input type="hidden" name="list" value="${list}" />
    <select name="controller" aria-label="Controller">
      <option value="">All controllers</option>
      ${controllers.map(
        (each) => html`<option value="${each}" ${each === controller && html`selected`}>${each}</option>`,
      )}
    </select>
    <button>Filter</button>
  </form>`;
}

const EMPTY: Readonly<Record<ErrorList, string>> = {
  dead: 'No dead letters. A key becomes one when its attempts are used up (queue.maxAttempts of its controller), or when its function answers with a terminal error.',
  failing: 'No key fails. A key that has failed stands here until a run of it ends well.',
};

function groupTable(
  page: PageRequest,
  groups: readonly ErrorGroup[],
  { list, total }: { readonly list: ErrorList; readonly total: number },
): Content {
  if (groups.length === 0) {
    return empty(
      total === 0 ? EMPTY[list] : html`This controller has none. <a href="${errorsUrl({ list })}">Show all</a>`,
    );
  }
  return table(
    `${TITLES[list]} by error`,
    groups,
    [
      { title: 'Count', look: 'number', cell: ({ count }) => html`<span class="strong">${formatCount(count)}</span>` },
      { title: 'Error', heading: true, look: 'text', cell: (group) => errorCell(group) },
      {
        title: 'Controller',
        look: 'optional',
        cell: ({ controller }) => html`<a href="${controllerUrl(controller, { list })}">${controller}</a>`,
      },
      { title: 'First', look: 'optional', cell: ({ oldestMs }) => page.times.at(oldestMs) },
      { title: 'Last', look: 'nowrap', cell: ({ newestMs }) => page.times.at(newestMs) },
      {
        title: html`<span class="hidden">Action</span>`,
        look: 'number',
        cell: ({ id, controller }) => actionForm(page, { ...ACTIONS[list], fields: { group: id, controller } }),
      },
    ],
    ({ id }) => `group-${id}`,
  );
}

const ACTIONS: Readonly<Record<ErrorList, { readonly action: string; readonly label: string }>> = {
  dead: { action: errorsUrl({}, 'replay'), label: 'Replay' },
  failing: { action: errorsUrl({}, 'reconcile'), label: 'Reconcile now' },
};

function errorCell({ error, controller, keys, count }: ErrorGroup): Html {
  const more = count > keys.length && `and ${formatCount(count - keys.length)} more`;
  return html`${error}
    <span class="reason"
      >${keys.map((key, at) => html`${at > 0 && ', '}<a href="${keyUrl(controller, key)}">${key}</a>`)} ${more}</span
    >`;
}

/** `stopped`: its gateway has stopped, and its remaining keys are dead letters still. */
function stateOf({ endedMs, error, seenMs }: Replay, nowMs: number): 'failed' | 'queued' | 'stopped' | 'under way' {
  if (error !== undefined) return 'failed';
  if (endedMs !== undefined) return 'queued';
  return nowMs - seenMs < SILENT_MS ? 'under way' : 'stopped';
}

function replayList({ times }: PageRequest, replays: readonly Replay[]): Html {
  return html`<div class="body" role="status">
    ${replays.map((replay) => {
      const { id, controller, label, gateway, startedMs, total, done } = replay;
      const state = stateOf(replay, times.nowMs);
      const bar =
        state === 'under way' &&
        html`<progress aria-label="Replay of ${controller}" max="${total ?? 1}" value="${done}"></progress>`;
      return html`<p id="replay-${id}">
        <a href="${controllerUrl(controller)}">${controller}</a>: ${label}, begun ${times.at(startedMs)} by ${gateway}.
        ${replayState(replay, state)} ${bar}
      </p>`;
    })}
  </div>`;
}

function replayState({ done, total, error }: Replay, state: ReturnType<typeof stateOf>): Html {
  const progress = `${formatCount(done)} of ${total === undefined ? '…' : formatCount(total)}`;
  switch (state) {
    case 'failed':
      return html`${badge('bad', state)} ${error}`;
    case 'queued':
      return html`${badge('ok', state)} ${plural(done, 'key')}`;
    case 'under way':
      return html`${badge('neutral', state)} ${progress}`;
    case 'stopped':
      return html`${badge('warn', state)} ${progress}: its gateway has stopped. A new replay takes the rest.`;
  }
}
