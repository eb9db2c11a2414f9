import { SelectorError } from '../../../../core/index.ts';
import { empty, panel } from '../components/panel.ts';
import { table } from '../components/table.ts';
import type { DashboardData, FoundObject, ObjectsFound } from '../data.ts';
import { type Content, html, type Html } from '../html.ts';
import { layout, type PageRequest } from '../page.ts';
import { controllerUrl, keyUrl, objectUrl } from '../urls.ts';

const HELP = 'Part of a name, NAMESPACE/NAME, a label such as app=web, or a UID.';
const MOST_CONTROLLERS = 50;

/** Controllers and objects by one text, which is in the URL. */
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
    return html`${list} ${panel('Objects in the cache', objects(await data.search(visitor, text)))}`;
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return html`${list} ${panel('Objects in the cache', empty(`These labels cannot be understood: ${error.message}`))}`;
  }
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
