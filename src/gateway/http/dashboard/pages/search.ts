import { SelectorError } from '../../../../core/index.ts';
import { empty, panel } from '../components/panel.ts';
import { outcomeBadge } from '../components/runs.ts';
import { table } from '../components/table.ts';
import type { DashboardData, FoundObject, ObjectsFound } from '../data.ts';
import { type Content, html, type Html } from '../html.ts';
import { layout, type PageRequest } from '../page.ts';
import { controllerUrl, keyUrl, objectUrl, runUrl } from '../urls.ts';

const HELP = 'Part of a name, NAMESPACE/NAME, a label such as app=web, a UID, or the reconcileID of a line of a log.';
const MOST_CONTROLLERS = 50;
const MOST_RUNS = 50;
/** A search reads the histories of all controllers, one after the other, for this time at most. */
const RUNS_MS = 3000;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Controllers, objects and runs by one text, which is in the URL. */
export async function searchPage(page: PageRequest, data: DashboardData, text: string): Promise<Html> {
  return layout(page, {
    title: text === '' ? 'Search' : `${text} · Search`,
    section: 'search',
    searched: text,
    // A search may look at all objects.
    refreshMs: 0,
    content: html`<h1>Search</h1>
      ${text === '' ? html`<p class="notice">${HELP}</p>` : await results(page, data, text)}`,
  });
}

async function results({ visitor }: PageRequest, data: DashboardData, text: string): Promise<Content> {
  const controllers = (await data.controllers()).map(({ id }) => id).filter((id) => id.includes(text));
  const shown = controllers.toSorted().slice(0, MOST_CONTROLLERS);
  const list =
    controllers.length > 0 &&
    panel(
      'Controllers',
      html`<ul class="body plain">
        ${shown.map((id) => html`<li><a href="${controllerUrl(id)}">${id}</a></li>`)}
      </ul>`,
    );
  try {
    const found = await data.search(visitor, text);
    // An object's UID has the same form, and the runs are found by reading histories.
    const runs = UUID.test(text) && found.objects.length === 0 && (await runsOfTrigger(data, text));
    return html`${list} ${runs} ${panel('Objects in the cache', objects(found))}`;
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return html`${list} ${panel('Objects in the cache', empty(`These labels cannot be understood: ${error.message}`))}`;
  }
}

/** The runs of a trigger, which is in the logs as `reconcileID`, as far as they are on record. */
async function runsOfTrigger(data: DashboardData, reconcileId: string): Promise<Content> {
  const untilMs = data.clock.now() + RUNS_MS;
  const found: Content[] = [];
  let [isWhole, hasMore] = [true, false];
  for (const [id, { history }] of data.queues()) {
    if (data.clock.now() > untilMs) isWhole = false;
    if (!isWhole || found.length > 0) break;
    const { runs, next } = await history.runs({ limit: MOST_RUNS, reconcileId });
    if (next !== undefined && runs.length === 0) hasMore = true;
    for (const { key, run, outcome } of runs) {
      const link = html`<a href="${runUrl(id, { key, run })}">run ${run} of ${key}</a>`;
      found.push(html`<li>${link} by <a href="${controllerUrl(id)}">${id}</a> ${outcomeBadge(outcome)}</li>`);
    }
  }
  const none =
    isWhole && !hasMore
      ? 'No run of this trigger is on record: the history keeps the last runs, and of very many a second some.'
      : `It was not found in ${RUNS_MS / 1000} s: there are very many runs. /queues/CONTROLLER/runs?reconcileId=… finds it.`;
  return panel(
    'Runs of this trigger',
    found.length === 0
      ? empty(none)
      : html`<ul class="body plain">
          ${found}
        </ul>`,
  );
}

function objects({ objects: found, isWhole }: ObjectsFound): Html {
  return html`${found.length === 0 ? empty('The cache has no such object that you may read.') : objectTable(found)}
  ${!isWhole && empty('There may be more: search for NAMESPACE/NAME to look at fewer objects.')}`;
}

function objectTable(found: readonly FoundObject[]): Html {
  return table('Objects in the cache', found, [
    { title: 'Object', heading: true, cell: ({ view, key }) => html`<a href="${objectUrl(view, key)}">${key}</a>` },
    { title: 'Kind', cell: ({ view }) => view },
    {
      title: 'Controllers of its kind',
      cell: ({ key, controllers }) =>
        controllers.map((id, at) => html`${at > 0 && ', '}<a href="${keyUrl(id, key)}">${id}</a>`),
    },
  ]);
}
