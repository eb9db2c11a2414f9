import { variableOf } from '../../../../ground/config/config.ts';
import { RUN_OUTCOMES } from '../../../controller/workqueue/history/past-run.ts';
import type { PastRun, PastOutcome, RunPage } from '../../../controller/workqueue/work-queue.ts';
import type { ReadingTime } from '../../cache-api/reading-time.ts';
import { empty, panel } from '../components/panel.ts';
import { runColumns } from '../components/runs.ts';
import { table } from '../components/table.ts';
import type { ControllerAccess } from '../data.ts';
import { html, type Html } from '../html.ts';
import { crumbs, layout, type PageRequest } from '../page.ts';
import { controllerUrl, DASHBOARD_PATH, runsUrl } from '../urls.ts';

export interface RunsFilter {
  readonly outcome: PastOutcome | undefined;
  /** A cursor: only runs before it. */
  readonly before: string | undefined;
}

const PAGE = 50;

/** The runs of one controller, the newest first. The first page follows them as they end. */
export async function runsPage(
  page: PageRequest,
  {
    id,
    controller,
    filter,
    time,
  }: {
    readonly id: string;
    readonly controller: ControllerAccess;
    readonly filter: RunsFilter;
    readonly time: Pick<ReadingTime, 'pace'>;
  },
): Promise<Html> {
  const { outcome, before } = filter;
  const found = await controller.queue.history.runs({
    limit: PAGE,
    ...(outcome ? { outcome } : {}),
    ...(before === undefined ? {} : { before }),
  });
  const shown = await time.pace(() => runTable(page, id, found, filter));
  return layout(page, {
    title: `Runs of ${id}`,
    section: 'overview',
    // Runs come by a stream, and older pages stay as they are.
    refreshMs: 0,
    content: html`
      ${crumbs(['Overview', DASHBOARD_PATH], [id, controllerUrl(id)])}
      <h1>Runs of ${id}</h1>
      ${panel('Runs', shown, filterForm(id, filter))}
    `,
  });
}

function filterForm(id: string, { outcome }: RunsFilter): Html {
  return html`<form class="row" method="get" action="${runsUrl(id)}">
    <select name="outcome" aria-label="Outcome">
      <option value="">All outcomes</option>
      ${RUN_OUTCOMES.map((each) => html`<option value="${each}" ${each === outcome && html`selected`}>${each}</option>`)}
    </select>
    <button>Filter</button>
  </form>`;
}

function runTable({ times }: PageRequest, id: string, { runs, next, newest }: RunPage, filter: RunsFilter): Html {
  const { outcome, before } = filter;
  const stream =
    before === undefined &&
    html`<p class="pager" id="stream" data-stream="${runsUrl(id, { outcome, after: newest }, 'stream')}" hidden></p>`;
  const rows =
    runs.length === 0
      ? empty(
          outcome === undefined
            ? `No run is on record. The history keeps the last runs of each controller, unless ${variableOf('historyRuns')} is 0.`
            : html`No such run is on this page. <a href="${runsUrl(id)}">Show all</a>`,
        )
      : table('Runs', runs, runColumns(id, times), rowId);
  const older =
    next !== undefined &&
    html`<nav class="pager" aria-label="Pages">
      <a class="button" href="${runsUrl(id, { outcome, before: next })}">Older</a>
    </nav>`;
  return html`${stream}${rows}${older}`;
}

/** The rows of runs that have ended since, as the stream sends them: a table, for a script to take them out of. */
export function newRows({ times }: Pick<PageRequest, 'times'>, id: string, runs: readonly PastRun[]): Html {
  return table('Runs', runs, runColumns(id, times), rowId);
}

/** A run may have two entries: its 202 and its end. */
function rowId({ run, outcome }: PastRun): string {
  return `run-${run}-${outcome}`;
}
