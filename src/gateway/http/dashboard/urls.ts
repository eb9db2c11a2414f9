/** Where the dashboard is served. */
export const DASHBOARD_PATH = '/dashboard';

/** Parameters of a URL; empty and undefined ones are left out. */
export type UrlQuery = Readonly<Record<string, string | number | undefined>>;

/** A path with a query, each part encoded. */
export function withQuery(path: string, query: UrlQuery): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === '' ? path : `${path}?${text}`;
}

export function controllerUrl(id: string, query: UrlQuery = {}): string {
  return withQuery(`${DASHBOARD_PATH}/controllers/${encodeURIComponent(id)}`, query);
}

/** Where the forms of a controller send their changes. */
export function controllerActionUrl(id: string, action: string): string {
  return `${controllerUrl(id)}/${action}`;
}

/** The runs of a controller. @param part of the page. */
export function runsUrl(id: string, query: UrlQuery = {}, part?: 'stream'): string {
  return withQuery(`${controllerUrl(id)}/runs${part === undefined ? '' : `/${part}`}`, query);
}

/** The page of one run. @param key `namespace/name`, or `name`. */
export function runUrl(id: string, { key, run }: { readonly key: string; readonly run: number }): string {
  return `${runsUrl(id)}/${run}/${encodedKey(key)}`;
}

/** @param key `namespace/name`, or `name`. */
export function keyUrl(id: string, key: string): string {
  return `${controllerUrl(id)}/keys/${encodedKey(key)}`;
}

function encodedKey(key: string): string {
  return key.split('/').map(encodeURIComponent).join('/');
}

/** Failing keys and dead letters by error. @param action where a form sends its change. */
export function errorsUrl(query: UrlQuery = {}, action?: string): string {
  return withQuery(`${DASHBOARD_PATH}/errors${action === undefined ? '' : `/${action}`}`, query);
}

export const SEARCH_URL = `${DASHBOARD_PATH}/search`;

/** Controllers and objects. @param text a name, `NAMESPACE/NAME`, labels, or a UID. */
export function searchUrl(text: string): string {
  return withQuery(SEARCH_URL, { q: text });
}

export const VIEWS_URL = `${DASHBOARD_PATH}/views`;

/** @param view the name of a view. */
export function objectsUrl(view: string, query: UrlQuery = {}): string {
  return withQuery(`${VIEWS_URL}/objects`, { view, ...query });
}

export function objectUrl(view: string, key: string): string {
  return withQuery(`${VIEWS_URL}/object`, { view, key });
}

/**
 * The path that a form leads back to: a page of the dashboard, whatever the form said.
 * @param wanted a path with its query, as the form names it.
 */
export function returnPath(wanted: unknown): string {
  if (typeof wanted !== 'string' || !wanted.startsWith('/')) return DASHBOARD_PATH;
  const base = 'http://dashboard.invalid';
  const url = URL.canParse(wanted, base) ? new URL(wanted, base) : undefined;
  const isOurs = url?.origin === base && `${url.pathname}/`.startsWith(`${DASHBOARD_PATH}/`);
  return isOurs ? url.pathname + url.search : DASHBOARD_PATH;
}
