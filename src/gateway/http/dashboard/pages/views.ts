import { formatObjectKey, keyOf, type KubernetesObject, SelectorError } from '../../../../core/index.ts';
import type { ReadingTime } from '../../cache-api/reading-time.ts';
import { yamlBlock } from '../components/object.ts';
import { badge, empty, panel } from '../components/panel.ts';
import { count, table } from '../components/table.ts';
import type { ObjectSelection, ViewAccess, ViewSummary } from '../data.ts';
import { type Content, html, type Html } from '../html.ts';
import { crumbs, layout, type PageRequest } from '../page.ts';
import { formatDuration } from '../times.ts';
import { controllerUrl, objectsUrl, objectUrl, VIEWS_URL, withQuery } from '../urls.ts';
import { viewState } from './overview.ts';

/** All views of the cache. */
export function viewsPage(page: PageRequest, views: readonly ViewSummary[]): Html {
  const { times } = page;
  const shown =
    views.length === 0
      ? empty('Nothing is cached yet: a kind is cached when a controller names it.')
      : table(
          'Views',
          views,
          [
            { title: 'Kind', heading: true, cell: ({ name }) => html`<a href="${objectsUrl(name)}">${name}</a>` },
            { title: 'State', cell: (view) => viewState(view) },
            { title: 'Objects', look: 'number', cell: ({ objects }) => count(objects) },
            {
              title: 'Behind',
              look: 'number optional',
              cell: ({ behindMs }) => (behindMs === undefined ? '–' : formatDuration(behindMs)),
            },
            {
              title: 'Last list',
              look: 'text optional',
              cell: ({ lastList }) =>
                lastList
                  ? html`${times.at(lastList.atMs)} <span class="reason">${lastList.reason}</span>`
                  : html`<span class="muted">none by this gateway: the watch went on</span>`,
            },
            { title: 'Version', look: 'number optional', cell: ({ version }) => version ?? '–' },
            {
              title: 'Read by',
              look: 'text optional',
              cell: ({ users }) =>
                users.map((id, at) => html`${at > 0 && ', '}<a href="${controllerUrl(id)}">${id}</a>`),
            },
          ],
          ({ name }) => `view-${name}`,
        );
  return layout(page, {
    title: 'Cache',
    section: 'views',
    content: html`<h1>Cache</h1>
      ${panel('Views', shown)}`,
  });
}

export interface ObjectsFilter {
  readonly namespace: string;
  readonly labels: string;
  readonly after: string;
}

const PAGE = 50;

/** The objects of one view. */
export async function objectsPage(page: PageRequest, view: ViewAccess, filter: ObjectsFilter): Promise<Html> {
  const { name, namespaced } = view;
  const { namespace, labels, after } = filter;
  const selection: ObjectSelection = {
    ...(namespace === '' ? {} : { namespace }),
    ...(labels === '' ? {} : { labels }),
  };
  const body = await objectTable(page, view, filter, selection);
  const form = html`<form class="row" method="get" action="${VIEWS_URL}/objects">
    <input type="hidden" name="view" value="${name}" />
    ${
      namespaced &&
      html`<label>Namespace <input type="search" name="namespace" value="${namespace}" spellcheck="false" /></label>`
    }
    <label
      >Labels <input type="search" name="labels" value="${labels}" placeholder="app=web,tier!=test" spellcheck="false"
    /></label>
    <button>Search</button>
    ${(namespace || labels || after) && html`<a class="button" href="${objectsUrl(name)}">Show all</a>`}
  </form>`;
  return layout(page, {
    title: name,
    section: 'views',
    content: html`
      ${crumbs(['Cache', VIEWS_URL])}
      <h1>${name}</h1>
      ${panel(
        'Objects',
        html`<div class="body">${form}</div>
          ${body}`,
      )}
    `,
  });
}

async function objectTable(
  { times, visitor }: PageRequest,
  view: ViewAccess,
  { namespace, labels, after }: ObjectsFilter,
  selection: ObjectSelection,
): Promise<Content> {
  try {
    const shown = await view.list(visitor, selection, { after, limit: PAGE });
    if (shown.kind === 'hidden') return empty(shown.reason);
    const { objects, next } = shown;
    if (objects.length === 0) return empty('The cache has no such object.');
    const rows = table('Objects', objects, [
      {
        title: 'Object',
        heading: true,
        cell: (object) => html`<a href="${objectUrl(view.name, keyText(object))}">${keyText(object)}</a>`,
      },
      {
        title: 'Labels',
        look: 'text optional',
        cell: ({ metadata }) =>
          html`<span class="muted"
            >${Object.entries(metadata.labels ?? {})
              .map(([key, value]) => `${key}=${value}`)
              .join(', ')}</span
          >`,
      },
      { title: 'Created', look: 'nowrap', cell: ({ metadata }) => times.of(metadata.creationTimestamp) },
      { title: 'Version', look: 'number optional', cell: ({ metadata }) => metadata.resourceVersion },
    ]);
    const more =
      next !== undefined &&
      html`<nav class="pager" aria-label="Pages">
        <a class="button" href="${objectsUrl(view.name, { namespace, labels, after: next })}">Next</a>
      </nav>`;
    return html`${rows}${more}`;
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return empty(`These labels cannot be understood: ${error.message}`);
  }
}

function keyText({ metadata }: KubernetesObject): string {
  return formatObjectKey(keyOf({ metadata } as KubernetesObject));
}

/** One object of a view as YAML. */
export async function objectPage(
  page: PageRequest,
  view: ViewAccess,
  { key, time }: { readonly key: string; readonly time: Pick<ReadingTime, 'pace'> },
): Promise<Html> {
  const { name } = view;
  const shown = await view.get(page.visitor, key);
  const object = shown.kind === 'shown' ? shown.object : undefined;
  const body =
    shown.kind === 'hidden'
      ? empty(shown.reason)
      : object
        ? await time.pace(() => yamlBlock(object, key))
        : empty(
            html`The cache has no such object.
              <a href="${withQuery(`${VIEWS_URL}/objects`, { view: name })}">Show all</a>`,
          );
  return layout(page, {
    title: `${key} · ${name}`,
    section: 'views',
    content: html`
      ${crumbs(['Cache', VIEWS_URL], [name, objectsUrl(name)])}
      <h1>${key} ${object?.metadata.deletionTimestamp !== undefined && badge('warn', 'is being deleted')}</h1>
      ${panel('Object in the cache', body)}
    `,
  });
}
