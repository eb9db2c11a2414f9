import { keyColumns } from '../components/key-columns.ts';
import { empty } from '../components/panel.ts';
import { table } from '../components/table.ts';
import type { ControllerAccess, ControllerSummary } from '../data.ts';
import { type Content, html, plural } from '../html.ts';
import type { KeySearch } from '../key-search.ts';
import type { PageRequest } from '../page.ts';
import { controllerUrl } from '../urls.ts';

/** Which keys of the cached objects: the URL holds all of these fields. */
export interface AllKeysFilter extends KeySearch {
  /** The key behind which the page begins; empty: at the first. */
  readonly after: string;
}

const PAGE = 50;

/** The keys of all cached objects of a controller's kind in its namespaces, in the order of their names. */
export async function allKeys(
  page: PageRequest,
  controller: ControllerAccess,
  summary: ControllerSummary,
  filter: AllKeysFilter,
): Promise<Content> {
  const { id } = summary;
  const { after, namespace, name } = filter;
  const shown = await controller.keys(page.visitor, filter, { after, limit: PAGE });
  if (shown.kind === 'hidden') return empty(shown.reason);
  const { keys, looked, next } = shown;
  // With the object: its label selector or its predicate may leave it out.
  const rows = await Promise.all(
    keys.map(async (key) => ({ key, status: await controller.status(page.visitor, key) })),
  );
  const more = (to: string): string => controllerUrl(id, { list: 'all', namespace, name, after: to });
  const pages =
    (next !== undefined || after !== '') &&
    html`<nav class="pager" aria-label="Pages">
      <span>${plural(looked, 'key')} looked at</span>
      ${after !== '' && html`<a class="button" href="${more('')}">First</a>`}
      ${next !== undefined && html`<a class="button" href="${more(next)}">Next</a>`}
    </nav>`;
  if (rows.length === 0) return html`${empty('The cache has no such object of its kind.')}${pages}`;
  const listed = table('Keys: All', rows, [
    ...keyColumns(id, page.times),
    { title: 'Failures', look: 'number optional', cell: ({ status }) => status.failures },
  ]);
  return html`${listed}${pages}`;
}
