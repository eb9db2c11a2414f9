import { withCircuit } from '../../../controller/endpoint/open-circuit.ts';
import type { BullMqLists } from '../../../controller/workqueue/worker/bullmq-jobs.ts';
import { type KeyList, type KeyStatus, KEY_LISTS } from '../../../controller/workqueue/key-status.ts';
import { activityPlots } from '../components/activity-plots.ts';
import { controllerButtons, pauseList, selectionPanel } from '../components/controller-buttons.ts';
import { declaration } from '../components/declaration.ts';
import { hiddenFields } from '../components/form.ts';
import { keyColumns } from '../components/key-columns.ts';
import { empty, facts, panel } from '../components/panel.ts';
import { type TableColumn, table } from '../components/table.ts';
import type { ControllerAccess, ControllerSummary } from '../data.ts';
import { type Content, formatCount, html, type Html, plural } from '../html.ts';
import { type AskedPage, findKeys, type FoundKeys, isSearch, type KeySearch } from '../key-search.ts';
import { crumbs, layout, type PageRequest } from '../page.ts';
import { controllerActionUrl, controllerUrl, DASHBOARD_PATH, runsUrl } from '../urls.ts';
import { allKeys, type AllKeysFilter } from './all-keys.ts';
import { stateBadge } from './overview.ts';

/** The part of a list that is shown: the URL holds all of these fields. */
export interface KeysFilter extends KeySearch {
  readonly list: KeyList;
  readonly from: number;
}

/** @param list `all`: the keys of all cached objects. Default: the worst that has keys. */
export type AskedKeys = Omit<KeysFilter, 'list'> & AllKeysFilter & { readonly list: KeyList | 'all' | undefined };

const PAGE = 50;

const TITLES: Readonly<Record<KeyList, string>> = {
  queued: 'Ready',
  running: 'Running',
  timers: 'Delayed',
  failing: 'Failing',
  waiting: 'Waiting',
  backlog: 'Low priority',
  dead: 'Dead',
};

const EMPTY: Readonly<Record<KeyList, string>> = {
  queued: 'No key is ready to run. A change of an object, or the button Reconcile all, makes keys ready.',
  running: 'No run is in flight.',
  timers: 'No key waits for its next attempt or for a requeue.',
  failing: 'No key has failed and is tried again.',
  waiting: 'No key waits for the end of a pause or of a debounce.',
  backlog: 'No key waits at low priority, as after a resync or Reconcile all.',
  dead: 'No dead letters: every key either succeeds or has attempts left.',
};

/** One controller: its lists of keys, the actions on them, and its declaration. */
export async function controllerPage(
  page: PageRequest,
  controller: ControllerAccess,
  { time, ...asked }: AskedKeys & Pick<AskedPage, 'time'>,
): Promise<Html> {
  const summary = await controller.summary();
  const list = asked.list ?? worstList(summary);
  const keys =
    list === 'all'
      ? await allKeys(page, controller, summary, asked)
      : await keysOfList(page, controller, summary, { ...asked, list, time });
  const lists = await controller.queue.jobs.lists();
  const { id, problems, remarks } = summary;
  return layout(page, {
    title: id,
    section: 'overview',
    // The tab of all keys reads their objects.
    refreshMs: list === 'all' ? 30_000 : 5000,
    content: html`
      ${crumbs(['Overview', DASHBOARD_PATH])}
      <h1>
        ${id} ${stateBadge(page, summary)}
        <span class="end">${controllerButtons(page, summary)}</span>
      </h1>
      ${[...problems, ...remarks].map(
        (text, at) => html`<p class="notice ${at < problems.length && 'bad'}">${text}</p>`,
      )}
      ${panel('Last hour', activityPlots(summary.samples), html`<a href="${runsUrl(id)}">Runs, as they end</a>`)}
      ${pauseList(page, summary)}
      ${panel(
        'Keys',
        html`<div class="body">${tabs(summary, { ...asked, list })}</div>
          <div class="body">${searchForm(controller, id, { ...asked, list })}</div>
          ${keys}`,
      )}
      ${selectionPanel(page, controller, id)} ${declaration(page, controller)}
      ${panel('In BullMQ', html`<div class="body">${bullMqJobs(lists)}</div>`)}
    `,
  });
}

async function keysOfList(
  page: PageRequest,
  { queue }: ControllerAccess,
  summary: ControllerSummary,
  { time, ...filter }: KeysFilter & Pick<AskedPage, 'time'>,
): Promise<Content> {
  const found = await findKeys(queue.inspector, filter.list, { search: filter, from: filter.from, limit: PAGE, time });
  const [errors, statuses] = await Promise.all([
    queue.history.lastErrors(found.keys.map(({ key }) => key)),
    Promise.all(found.keys.map(async ({ key }) => withCircuit(await queue.inspector.status(key), summary.circuit))),
  ]);
  const rows = found.keys.flatMap(({ key, atMs }, at) => {
    const status = statuses[at];
    return status ? [{ key, atMs, status, error: errors[at] }] : [];
  });
  return keyTable(page, { summary, rows, found, filter });
}

/** Jobs carry keys that are ready and wait for a slot, so most lists are empty at rest. */
function bullMqJobs({ queue, prefix, jobs }: BullMqLists): Html {
  const held = Object.entries(jobs).filter(([, count]) => count > 0);
  const shown = held.map(([list, count]) => `${formatCount(count)} ${list}`).join(', ');
  return facts([
    ['Queue', html`<code>${queue}</code>`],
    ['Prefix', html`<code>${prefix}</code>`],
    ['Jobs', shown || 'none: every key that is ready has a slot'],
  ]);
}

/** A search, and the list that it is in. */
type ShownSearch = KeySearch & { readonly list: KeyList | 'all' };

function tabs({ id, sizes }: ControllerSummary, { list, namespace, name }: ShownSearch): Html {
  const all = controllerUrl(id, { list: 'all', namespace, name });
  return html`<nav aria-label="Lists of keys">
    <ul class="tabs">
      <li><a href="${all}" ${list === 'all' && html` aria-current="page"`}>All</a></li>
      ${KEY_LISTS.map((each) => {
        const url = controllerUrl(id, { list: each, namespace, name });
        const current = each === list && html` aria-current="page"`;
        return html`<li><a href="${url}" ${current}>${TITLES[each]} ${formatCount(sizes[each])}</a></li>`;
      })}
    </ul>
  </nav>`;
}

/** The list that a person wants to see first: the worst that has keys. */
function worstList({ sizes }: ControllerSummary): KeyList {
  const lists: readonly KeyList[] = ['dead', 'failing', 'queued', 'running', 'waiting', 'timers', 'backlog'];
  return lists.find((list) => sizes[list] > 0) ?? 'queued';
}

function searchForm({ namespaced }: ControllerAccess, id: string, filter: ShownSearch): Html {
  const { list, namespace, name } = filter;
  return html`<form class="row" method="get" action="${controllerUrl(id)}">
    <input type="hidden" name="list" value="${list}" />
    ${
      namespaced &&
      html`<label>Namespace <input type="search" name="namespace" value="${namespace}" spellcheck="false" /></label>`
    }
    <label>Name contains <input type="search" name="name" value="${name}" spellcheck="false" /></label>
    <button>Search</button>
    ${(namespace || name) && html`<a class="button" href="${controllerUrl(id, { list })}">Show all</a>`}
  </form>`;
}

interface Row {
  readonly key: string;
  readonly atMs: number;
  readonly status: KeyStatus;
  readonly error: string | undefined;
}

interface KeyTable {
  readonly summary: ControllerSummary;
  readonly rows: readonly Row[];
  readonly found: FoundKeys;
  readonly filter: KeysFilter;
}

function keyTable(page: PageRequest, { summary, rows, found, filter }: KeyTable): Content {
  const { id } = summary;
  const { list } = filter;
  const pages = pager(id, found, filter);
  if (rows.length === 0) {
    return html`${empty(
      isSearch(filter) && found.total > 0
        ? `None of ${plural(found.looked, 'key')} that were searched matches.`
        : EMPTY[list],
    )}${pages}`;
  }
  const form = `keys-${list}`;
  const columns: TableColumn<Row>[] = [
    ...keyColumns(id, page.times),
    { title: TIME_TITLES[list], look: 'nowrap', cell: ({ atMs }) => page.times.at(atMs) },
    { title: 'Failures', look: 'number optional', cell: ({ status }) => status.failures },
    { title: 'Last error', look: 'text optional', cell: ({ error }) => error },
  ];
  const check: TableColumn<Row> = {
    title: html`<span class="hidden">Select</span>`,
    look: 'check',
    cell: ({ key }) =>
      html`<input type="checkbox" name="key" value="${key}" form="${form}" aria-label="Select ${key}" />`,
  };
  const listed = table(`Keys: ${TITLES[list]}`, rows, page.mayChange ? [check, ...columns] : columns);
  return html`${listed}${page.mayChange && selectionForm(page, { id, list, form })}${pages}`;
}

const TIME_TITLES: Readonly<Record<KeyList, string>> = {
  queued: 'Since',
  running: 'Over at the latest',
  timers: 'Due',
  failing: 'Since',
  waiting: 'Time',
  backlog: 'Since',
  dead: 'Since',
};

/** Buttons for the keys whose rows are marked. */
function selectionForm(page: PageRequest, { id, list, form }: { id: string; list: KeyList; form: string }): Html {
  const button = (action: string, label: string, tone = ''): Html =>
    html`<button class="${tone}" formaction="${controllerActionUrl(id, action)}">${label}</button>`;
  const buttons =
    list === 'dead'
      ? [button('replay', 'Replay selected'), button('drop', 'Drop selected', 'bad')]
      : [button('reconcile', 'Reconcile selected')];
  return html`<form id="${form}" class="pager" method="post" action="${controllerActionUrl(id, 'reconcile')}">
    ${hiddenFields(page)} ${buttons}
  </form>`;
}

function pager(id: string, { keys, total, looked, next }: FoundKeys, filter: KeysFilter): Content {
  const { from, list, namespace, name } = filter;
  if (next === undefined && from === 0) return undefined;
  const query = { list, namespace, name };
  const isPart = isSearch(filter);
  const where = isPart
    ? `${plural(keys.length, 'key')} of ${plural(looked, 'key')} that were searched, from number ${formatCount(from + 1)} of ${formatCount(total)}`
    : `${formatCount(from + 1)} to ${formatCount(from + keys.length)} of ${formatCount(total)}`;
  return html`<nav class="pager" aria-label="Pages">
    <span>${where}</span>
    ${from > 0 && html`<a class="button" href="${controllerUrl(id, query)}">First</a>`}
    ${
      from > 0 &&
      !isPart &&
      html`<a class="button" href="${controllerUrl(id, { ...query, from: Math.max(0, from - PAGE) || undefined })}"
        >Previous</a
      >`
    }
    ${
      next !== undefined &&
      html`<a class="button" href="${controllerUrl(id, { ...query, from: next })}">${isPart ? 'Go on' : 'Next'}</a>`
    }
  </nav>`;
}
