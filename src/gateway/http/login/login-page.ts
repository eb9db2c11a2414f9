import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import { html, raw } from 'hono/html';

/** Paths of the forms. */
export const LOGIN_PATH = '/login';
export const LOGOUT_PATH = '/logout';

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0; display: grid; place-items: center; min-height: 100vh; background: Canvas; color: CanvasText; }
main { width: min(26rem, 100vw - 3rem); padding: 1.5rem; }
h1 { font-size: 1.4rem; }
label { display: block; font-weight: 600; }
input, button { font: inherit; box-sizing: border-box; width: 100%; padding: .5rem .75rem; border-radius: .375rem; }
input { margin: .25rem 0 1rem; border: 1px solid GrayText; background: Field; color: FieldText; }
button { border: 0; background: #1d4ed8; color: #fff; cursor: pointer; }
[role=alert] { border-left: .25rem solid #dc2626; padding-left: .75rem; }
code { overflow-wrap: anywhere; }
`;

type Status = 200 | 400 | 401 | 403 | 503;

/** The contents of the page in addition to its form. */
export interface LoginPage {
  /** Where to go after the login: `ownPath`. */
  readonly to: string;
  /** The fault; may hold hostile text. */
  readonly problem?: string;
}

/** The form for a token. It needs no script, and nothing from elsewhere. */
export function loginPage(context: Context, status: Status, { to, problem }: LoginPage): Response | Promise<Response> {
  const form = html`<form method="post" action="${LOGIN_PATH}">
    <input type="hidden" name="to" value="${to}" />
    <label for="token">Token</label>
    <input id="token" name="token" type="password" autocomplete="current-password" required autofocus />
    <button>Log in</button>
  </form>`;
  const help = html`<p>
    A token of Kubernetes, such as <code>kubectl create token NAME</code> prints, or a static token of this gateway.
  </p>`;
  return page(context, status, 'Log in', html`${problemOf(problem)}${form}${help}`);
}

/** A problem that another token may solve, but no repetition. */
export function problemPage(
  context: Context,
  status: Status,
  { problem, csrfToken }: { readonly problem: string; readonly csrfToken?: string | undefined },
): Response | Promise<Response> {
  const logout = html`<form method="post" action="${LOGOUT_PATH}">
    <input type="hidden" name="csrf" value="${csrfToken ?? ''}" />
    <button>Log out</button>
  </form>`;
  return page(context, status, 'Not possible', html`${problemOf(problem)}${csrfToken ? logout : ''}`);
}

/**
 * Goes on to `to` by way of the login's own path. A browser sends no strict cookie with a request that another site's
 * page has caused, so a link from there would look like an expired session. Requests from this page carry the cookie.
 */
export function onwardPage(context: Context, to: string): Response | Promise<Response> {
  const url = `${LOGIN_PATH}?${new URLSearchParams({ to }).toString()}`;
  const link = html`<p><a href="${url}">Go on</a></p>`;
  return page(context, 200, 'One moment', link, html`<meta http-equiv="refresh" content="0;url=${url}" />`);
}

function problemOf(problem: string | undefined) {
  return problem === undefined ? '' : html`<p role="alert">${problem}</p>`;
}

type Html = ReturnType<typeof html>;

function page(
  context: Context,
  status: Status,
  title: string,
  content: Html,
  head: Html | '' = '',
): Response | Promise<Response> {
  // The policy allows this style by its hash, so it must not be indented like the rest.
  const styleHash = createHash('sha256').update(STYLE).digest('base64');
  context.header(
    'content-security-policy',
    `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  );
  for (const [name, value] of Object.entries(PRIVATE_HEADERS)) context.header(name, value);
  return context.html(
    html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width" />
          <title>${title} · levelhook</title>
          ${head} ${raw(`<style>${STYLE}</style>`)}
        </head>
        <body>
          <main>
            <h1>${title}</h1>
            ${content}
          </main>
        </body>
      </html>`,
    status,
  );
}

/** Headers of each answer that is not public. */
export const PRIVATE_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  // With no-referrer browsers would send the origin null with a form.
  'referrer-policy': 'same-origin',
};
