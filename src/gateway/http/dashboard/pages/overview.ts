import { variableOf } from '../../../../ground/config/config.ts';
import { controllerState, type ControllerStateWord, isWell } from '../../../controller/running/controller-state.ts';
import { BEHIND_MS } from '../../../controller/running/controller-sources.ts';
import { report } from '../../../process/health.ts';
import { activityOf } from '../activity.ts';
import { SAMPLE_MS } from '../../../controller/workqueue/history/samples.ts';
import { rateText, runsSpark, shareText, spanText } from '../components/activity-plots.ts';
import { count, table } from '../components/table.ts';
import { rightsText } from '../components/declaration.ts';
import { gatewayTable } from '../components/gateways.ts';
import { badge, empty, panel, type Tone } from '../components/panel.ts';
import type { ControllerSummary, DashboardData, FunctionSummary, ViewSummary } from '../data.ts';
import { type Content, formatCount, html, type Html, plural } from '../html.ts';
import { layout, type PageRequest } from '../page.ts';
import { formatDuration } from '../times.ts';
import { controllerUrl, DASHBOARD_PATH, errorsUrl, objectsUrl, runsUrl, VIEWS_URL } from '../urls.ts';

export interface OverviewFilter {
  /** Only controllers whose name contains it. */
  readonly name: string;
  /** Only controllers with a problem. */
  readonly problems: boolean;
}

/** Controllers beyond which the page is brought up to date half as often. */
const MANY = 20;

/** The first page: whether all is well, and where it is not. */
export async function overviewPage(page: PageRequest, data: DashboardData, filter: OverviewFilter): Promise<Html> {
  const [controllers, views, replicas] = await Promise.all([data.controllers(), data.views(), data.replicas()]);
  const functions = data.functions();
  const shown = controllers
    .filter((each) => each.id.includes(filter.name) && (!filter.problems || isIll(each)))
    .toSorted((a, b) => Number(isIll(b)) - Number(isIll(a)) || (a.id < b.id ? -1 : 1));
  return layout(page, {
    title: 'Overview',
    section: 'overview',
    // The cost of a page grows with the controllers.
    refreshMs: controllers.length > MANY ? 10_000 : 5000,
    content: html`
      <h1 class="hidden">Overview</h1>
      ${healthNotice(data)} ${tiles(controllers, views)}
      ${panel('Controllers', controllerTable(page, shown, controllers.length, filter), filterForm(filter))}
      <div class="columns">
        ${panel(html`<a href="${VIEWS_URL}">Cache</a>`, viewTable(page, views))}
        <div>
          ${panel('Functions', functionTable(page, functions))}
          ${panel('Gateways', gatewayTable(page, replicas, page.gateway))}
        </div>
      </div>
    `,
  });
}

const isIll = (each: ControllerSummary): boolean => !isWell(controllerState(each));

/** The complaints of `/readyz`. */
function healthNotice({ checks }: DashboardData): Content {
  const { healthy, lines } = report(checks);
  const problems = lines.filter((line) => !/^\[\+\]\S+ ok$/.test(line)).map((line) => line.slice(3));
  if (problems.length === 0) return undefined;
  return html`<div class="notice ${!healthy && 'bad'}">
    <p class="strong">${healthy ? 'The gateway is ready, with a warning' : 'The gateway is not ready'}</p>
    <ul class="plain">
      ${problems.map((line) => html`<li>${line}</li>`)}
    </ul>
  </div>`;
}

function tiles(controllers: readonly ControllerSummary[], views: readonly ViewSummary[]): Html {
  const sum = (of: (each: ControllerSummary) => number): number =>
    controllers.reduce((total, each) => total + of(each), 0);
  const well = controllers.filter((each) => !isIll(each)).length;
  const failing = sum(({ sizes }) => sizes.failing);
  const oldestMs = Math.max(-1, ...controllers.map((each) => each.oldestMs ?? -1));
  const dead = sum(({ sizes }) => sizes.dead);
  const entries: [string, Content][] = [
    ['Controllers well', html`${formatCount(well)} <small>of ${formatCount(controllers.length)}</small>`],
    ['Keys ready', formatCount(sum(({ sizes }) => sizes.queued))],
    ['Longest wait', oldestMs < 0 ? html`<span class="zero">none</span>` : formatDuration(oldestMs)],
    [
      'Runs in flight',
      html`${formatCount(sum(({ sizes }) => sizes.running))}
        <small>of ${formatCount(sum(({ concurrency }) => concurrency))}</small>`,
    ],
    [
      'Keys failing',
      failing === 0
        ? html`<span class="zero">0</span>`
        : html`<a href="${errorsUrl({ list: 'failing' })}">${badge('bad', formatCount(failing))}</a>`,
    ],
    ['Keys delayed', formatCount(sum(({ sizes }) => sizes.timers))],
    ['Dead letters', html`<a href="${errorsUrl({ list: 'dead' })}">${formatCount(dead)}</a>`],
    ['Objects cached', formatCount(views.reduce((total, { objects }) => total + objects, 0))],
  ];
  return html`<dl class="tiles">
    ${entries.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

function filterForm({ name, problems }: OverviewFilter): Html {
  return html`<form class="row" method="get" action="${DASHBOARD_PATH}">
    <input type="search" name="name" value="${name}" placeholder="Name contains" aria-label="Name contains" />
    <select name="show" aria-label="Which controllers">
      <option value="">All</option>
      <option value="problems" ${problems ? html`selected` : ''}>With a problem</option>
    </select>
    <button>Filter</button>
  </form>`;
}

function controllerTable(
  page: PageRequest,
  shown: readonly ControllerSummary[],
  total: number,
  filter: OverviewFilter,
): Content {
  if (total === 0)
    return empty(
      html`No controller runs. Name a function with <code>${variableOf('functionUrls')}</code> or
        <code>levelhook start --functions NAMES</code>, or apply a ReconcileFunction to the cluster.`,
    );
  if (shown.length === 0) {
    return empty(
      html`None of ${plural(total, 'controller')} ${filter.problems ? 'has a problem' : 'has such a name'}.
        <a href="${DASHBOARD_PATH}">Show all</a>`,
    );
  }
  return table(
    'Controllers',
    shown,
    [
      {
        title: 'Controller',
        heading: true,
        cell: ({ id, kind }) => html`<a href="${controllerUrl(id)}">${id}</a> <span class="reason">${kind}</span>`,
      },
      {
        title: 'State',
        look: 'text',
        cell: (each) => html`${stateBadge(page, each)} <span class="reason">${each.problems[0]}</span>`,
      },
      { title: 'Ready', look: 'number', cell: ({ id, sizes }) => listLink(id, 'queued', sizes.queued) },
      {
        title: html`<abbr title="For how long the oldest key has been due, or has been failing">Oldest</abbr>`,
        look: 'number optional',
        cell: ({ oldestMs }) => (oldestMs === undefined ? html`<span class="zero">–</span>` : formatDuration(oldestMs)),
      },
      {
        title: 'Running',
        look: 'number optional',
        cell: ({ id, sizes, concurrency }) =>
          listLink(id, 'running', sizes.running, html`<span class="muted"> / ${concurrency}</span>`),
      },
      { title: 'Failing', look: 'number', cell: ({ id, sizes }) => listLink(id, 'failing', sizes.failing) },
      { title: 'Dead', look: 'number', cell: ({ id, sizes }) => listLink(id, 'dead', sizes.dead) },
      { title: 'Delayed', look: 'number medium', cell: ({ id, sizes }) => listLink(id, 'timers', sizes.timers) },
      { title: 'Waiting', look: 'number medium', cell: ({ id, sizes }) => listLink(id, 'waiting', sizes.waiting) },
      { title: 'Low', look: 'number medium', cell: ({ id, sizes }) => listLink(id, 'backlog', sizes.backlog) },
      {
        title: 'Runs',
        look: 'number optional',
        cell: ({ id, samples }) =>
          html`<a href="${runsUrl(id)}">${rateText(activityOf(samples, SAMPLE_MS).perMinute)}</a>`,
      },
      {
        title: 'Failed',
        look: 'number optional',
        cell: ({ samples }) => {
          const { failedShare = 0 } = activityOf(samples, SAMPLE_MS);
          return html`<span class="${failedShare === 0 && 'zero'}">${shareText(failedShare)}</span>`;
        },
      },
      {
        title: html`<abbr title="From the event to the start of its run, p50 / p99 of the last five minutes"
          >Event to run</abbr
        >`,
        look: 'number wide',
        cell: ({ samples }) => spanText(activityOf(samples, SAMPLE_MS).waitedMs),
      },
      {
        title: html`<abbr title="Duration of runs, p50 / p99 of the last five minutes">Run</abbr>`,
        look: 'number wide',
        cell: ({ samples }) => spanText(activityOf(samples, SAMPLE_MS).tookMs),
      },
      { title: 'Last hour', look: 'medium', cell: ({ samples }) => runsSpark(samples) },
    ],
    ({ id }) => `controller-${id}`,
  );
}

/** @param rest stands behind the number, within the link: beside text a link would have to be underlined. */
function listLink(id: string, list: string, size: number, rest?: Html): Content {
  if (size === 0) return html`${count(0)}${rest}`;
  return html`<a href="${controllerUrl(id, { list })}">${formatCount(size)}${rest}</a>`;
}

const TONES: Readonly<Record<ControllerStateWord, Tone>> = {
  problem: 'bad',
  'circuit open': 'bad',
  'dead letters': 'bad',
  failing: 'bad',
  starting: 'neutral',
  'waits for recovery': 'warn',
  paused: 'warn',
  'partly paused': 'warn',
  remark: 'warn',
  busy: 'ok',
  idle: 'ok',
};

/** A controller's state in a word, and its details in a few. */
export function stateBadge({ times }: PageRequest, summary: ControllerSummary): Html {
  const word = controllerState(summary);
  const { pauses, remarks, sizes } = summary;
  const paused = pauses.find(({ scope }) => scope === 'controller');
  const parts = [
    word === 'dead letters' && plural(sizes.dead, 'dead letter'),
    (word === 'dead letters' || word === 'failing') && sizes.failing > 0 && `${plural(sizes.failing, 'key')} failing`,
    paused && html`paused since ${times.at(paused.sinceMs)}`,
    word === 'partly paused' && partsPaused(summary),
    (word === 'remark' || word === 'starting') && remarks[0],
  ].filter((part) => part !== false && part !== undefined);
  return html`${badge(TONES[word], word)}
    <span class="reason">${parts.flatMap((part, at) => (at === 0 ? [part] : [', ', part]))}</span>`;
}

function partsPaused({ pauses, morePauses, pausedObjects: objects }: ControllerSummary): string {
  const namespaces = pauses.filter(({ scope }) => scope.startsWith('namespace/')).length;
  const keys = pauses.filter(({ scope }) => scope.startsWith('key/')).length;
  const parts = [
    namespaces > 0 && plural(namespaces, 'namespace'),
    keys > 0 && plural(keys, 'key'),
    objects > 0 && plural(objects, 'object'),
  ];
  const more = morePauses > 0 ? `, and ${plural(morePauses, 'further pause')}` : '';
  return `${parts.filter((part) => part !== false).join(' and ')} paused${more}`;
}

function viewTable({ times }: PageRequest, views: readonly ViewSummary[]): Content {
  if (views.length === 0) return empty('Nothing is cached yet: a kind is cached when a controller names it.');
  return table(
    'Cache',
    views,
    [
      { title: 'Kind', heading: true, cell: ({ name }) => html`<a href="${objectsUrl(name)}">${name}</a>` },
      { title: 'State', cell: (view) => viewState(view) },
      { title: 'Objects', look: 'number', cell: ({ objects }) => count(objects) },
      {
        title: 'Last list',
        look: 'text optional',
        cell: ({ lastList }) =>
          lastList && html`${times.at(lastList.atMs)} <span class="reason">${lastList.reason}</span>`,
      },
    ],
    ({ name }) => `view-${name}`,
  );
}

export function viewState({ synced, behindMs }: ViewSummary): Html {
  if (!synced) return badge('bad', 'not complete');
  if (behindMs === undefined) return badge('neutral', 'not complete or not served');
  if (behindMs > BEHIND_MS) return badge('warn', `${formatDuration(behindMs)} behind`);
  return badge('ok', 'up to date');
}

/**
 * Whether a function may get triggers, and how it answered last. Its runs may fail all the same, so nothing here is
 * green; the state of its controller shows its health.
 */
function functionTable({ times }: PageRequest, functions: readonly FunctionSummary[]): Content {
  if (functions.length === 0) return empty('No function is known.');
  return table('Functions', functions, [
    {
      title: 'Function',
      heading: true,
      cell: ({ controller, url }) => html`${controller ?? ''} <span class="reason mono">${url ?? ''}</span>`,
    },
    {
      title: 'Triggers',
      look: 'text',
      cell: ({ problem, openReason, rights }) =>
        problem === undefined && openReason === undefined
          ? badge('neutral', 'allowed')
          : html`${badge('bad', openReason === undefined ? 'does not run' : 'circuit open')}
              <span class="reason">${openReason ?? problem}</span>
              ${rights?.result === 'refused' && html`<span class="reason">Rights: ${rightsText(rights, times)}</span>`}`,
    },
    {
      title: 'Last answer',
      look: 'text',
      cell: ({ lastAnswer }) =>
        lastAnswer
          ? html`${lastAnswer.isFailure ? badge('bad', 'failed') : badge('neutral', 'answered')}
              ${times.at(lastAnswer.atMs)} <span class="reason">${lastAnswer.text}</span>`
          : html`<span class="muted">none to this gateway</span>`,
    },
  ]);
}
