import type { Assets } from './assets.ts';
import type { GatewaySummary } from './data.ts';
import { type Content, html, type Html } from './html.ts';
import type { Times } from './times.ts';
import { DASHBOARD_PATH, errorsUrl, SEARCH_URL, VIEWS_URL } from './urls.ts';
import type { Visitor } from '../login/visitor.ts';

/** The facts that every page gets: its visitor, its time and its address. */
export interface PageRequest {
  readonly times: Times;
  readonly visitor: Visitor;
  /** Whether buttons are shown. The login checks the right again when a button is used. */
  readonly mayChange: boolean;
  /** Where the visitor reaches this gateway: scheme, host and port. */
  readonly origin: string;
  /** Path and query of this page: forms lead back to it. */
  readonly path: string;
  /** The result of the visitor's last change. */
  readonly message: Message | undefined;
  readonly gateway: GatewaySummary;
  readonly assets: Assets;
}

export interface Message {
  readonly kind: 'done' | 'failed';
  readonly text: string;
}

export interface PageContent {
  readonly title: string;
  /** Which entry of the navigation it belongs to. */
  readonly section: 'overview' | 'errors' | 'views' | 'search';
  readonly content: Content;
  /** The text in the search box. Default: none. */
  readonly searched?: string;
  /** How often it is brought up to date. Default: 5 s. 0: not at all. */
  readonly refreshMs?: number;
}

const NAVIGATION = [
  { section: 'overview', label: 'Overview', url: DASHBOARD_PATH },
  { section: 'errors', label: 'Errors', url: errorsUrl() },
  { section: 'views', label: 'Cache', url: VIEWS_URL },
] as const;

const ROLES = {
  leader: 'this gateway leads',
  follower: 'this gateway follows',
  alone: 'single gateway',
  starting: 'this gateway is starting',
} as const;

/** The frame of all pages. */
export function layout(
  page: PageRequest,
  { title, section, content, searched = '', refreshMs = 5000 }: PageContent,
): Html {
  const { assets, gateway, message, visitor } = page;
  const links = NAVIGATION.map((each) => {
    const current = each.section === section ? html` aria-current="page"` : '';
    return html`<li><a href="${each.url}" ${current}>${each.label}</a></li>`;
  });
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · levelhook</title>
        <link rel="stylesheet" href="${assets.url('dashboard.css')}" />
        <link rel="icon" href="data:," />
        <script defer src="${assets.url('idiomorph.js')}"></script>
        <script type="module" src="${assets.url('live.js')}"></script>
      </head>
      <body>
        <a class="skip" href="#content">Skip to the content</a>
        <header class="bar">
          <a class="home" href="${DASHBOARD_PATH}">levelhook</a>
          <nav aria-label="Dashboard">
            <ul>
              ${links}
            </ul>
          </nav>
          <form role="search" method="get" action="${SEARCH_URL}">
            <input
              type="search"
              name="q"
              value="${searched}"
              placeholder="Search"
              aria-label="Search controllers and objects"
              spellcheck="false"
            />
          </form>
          <div class="who">
            <button type="button" id="live" hidden>Pause updates</button><span>${ROLES[gateway.role]}</span
            ><span>${visitor.name}</span>${visitor.canLogOut && logoutForm(visitor)}
          </div>
        </header>
        <main id="content" tabindex="-1" data-refresh="${refreshMs}">
          ${message && html`<p id="message" role="status" class="message ${message.kind === 'failed' && 'bad'}">${message.text}</p>`}
          ${content}
        </main>
        <footer>
          As of
          <time datetime="${page.times.absolute(page.times.nowMs)}">${page.times.absolute(page.times.nowMs)}</time>
        </footer>
      </body>
    </html>`;
}

function logoutForm({ csrfToken }: Visitor): Html {
  return html`<form method="post" action="/logout">
    <input type="hidden" name="csrf" value="${csrfToken ?? ''}" /><button>Log out</button>
  </form>`;
}

/** Where a page stands: links to the pages above it. */
export function crumbs(...above: readonly (readonly [label: string, url: string])[]): Html {
  const links = above.map(([label, url], at) => html`${at > 0 && ' / '}<a href="${url}">${label}</a>`);
  return html`<p class="crumbs">${links} /</p>`;
}
