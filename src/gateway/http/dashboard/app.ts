import { type Context, Hono } from 'hono';
import { decodeObjectKey, type Logger, messageOf } from '../../../core/index.ts';
import { KEY_LISTS, type KeyList } from '../../controller/workqueue/key-status.ts';
import { isCursor, RUN_OUTCOMES, type PastOutcome } from '../../controller/workqueue/history/past-run.ts';
import { actions } from './actions.ts';
import { Assets } from './assets.ts';
import type { DashboardData } from './data.ts';
import { ErrorGrouping, type ErrorList } from './error-groups.ts';
import { type Content, html, type Html } from './html.ts';
import { KeyRuns } from './key-runs.ts';
import { takeMessage } from './messages.ts';
import { layout, type PageRequest } from './page.ts';
import { controllerPage } from './pages/controller.ts';
import { errorsPage } from './pages/errors.ts';
import { keyPage } from './pages/key.ts';
import { overviewPage } from './pages/overview.ts';
import { firstAttempt, runPage } from './pages/run.ts';
import { runsPage } from './pages/runs.ts';
import { searchPage } from './pages/search.ts';
import { objectPage, objectsPage, viewsPage } from './pages/views.ts';
import { RunStreams } from './run-stream.ts';
import { Times } from './times.ts';
import { DASHBOARD_PATH } from './urls.ts';
import { LoginUnavailableError } from '../login/identity.ts';
import type { LoginEnv } from '../login/visitor.ts';

/** The browser runs and loads what this server sends, and nothing else. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** A run that goes on after its answer has several entries in the history. */
const ENTRIES_OF_RUN = 5;

/** Characters of a search. */
const MOST_SEARCHED = 1024;

/** A page: rendered, or undefined when there is no such thing. */
type Render = (page: PageRequest, context: Context<LoginEnv>) => Promise<Html | undefined> | Html | undefined;

/**
 * The pages, below `DASHBOARD_PATH`. Each page is a GET whose URL holds all of the page's state; each change is a POST
 * that leads back. The login has let every request through, and has set `visitor`.
 */
export function dashboardApp(data: DashboardData, logger: Logger): Hono<LoginEnv> {
  const assets = new Assets();
  const keyRuns = new KeyRuns();
  const grouping = new ErrorGrouping(data.clock);
  const streams = new RunStreams();
  const app = new Hono<LoginEnv>();

  const serve = (path: string, render: Render): void => {
    app.get(path, async (context) => {
      const page = await pageOf(context, data, assets);
      context.header('content-security-policy', POLICY);
      const unavailable = data.unavailable();
      if (unavailable !== undefined) return context.html(unavailablePage(page, unavailable), 503);
      try {
        const rendered = await render(page, context);
        return rendered === undefined ? context.html(notFoundPage(page), 404) : context.html(rendered);
      } catch (error) {
        if (error instanceof LoginUnavailableError) throw error;
        logger.warn({ path: context.req.path, error: messageOf(error) }, 'a page of the dashboard failed');
        return context.html(failedPage(page, messageOf(error)), 500);
      }
    });
  };

  serve('/', (page, { req }) =>
    overviewPage(page, data, { name: req.query('name') ?? '', problems: req.query('show') === 'problems' }),
  );
  serve('/controllers/:id', (page, { req }) => {
    const controller = data.controller(req.param('id') ?? '');
    const time = data.times.ofVisitor(page.visitor.client);
    const asked = { ...keysFilter((name) => req.query(name)), time };
    return controller && time.inPlace(() => controllerPage(page, controller, asked));
  });
  serve('/controllers/:id/runs', (page, { req }) => {
    const id = req.param('id') ?? '';
    const controller = data.controller(id);
    const before = cursorOf(req.query('before'));
    const filter = { outcome: outcomeOf(req.query('outcome')), before };
    const time = data.times.ofVisitor(page.visitor.client);
    return controller && time.inPlace(() => runsPage(page, { id, controller, filter, time }));
  });
  app.get('/controllers/:id/runs/stream', (context) => {
    const { req } = context;
    const outcome = outcomeOf(req.query('outcome'));
    const query = { id: req.param('id'), outcome, after: cursorOf(req.query('after')) };
    return streams.open(context, data, { query, logger });
  });
  serve('/controllers/:id/runs/:run{[0-9]{1,15}}/:key{[^]+}', async (page, { req }) => {
    const id = req.param('id') ?? '';
    const history = data.controller(id)?.queue.history;
    const key = req.param('key') ?? '';
    if (!history || !decodeObjectKey(key)) return undefined;
    const run = Number(req.param('run'));
    const time = data.times.ofVisitor(page.visitor.client);
    return time.inPlace(async () => {
      const known = await keyRuns.of(id, history, key);
      const ofKey = known.filter((each) => each.run === run);
      const entries = ofKey.length > 0 ? ofKey : (await history.runs({ limit: ENTRIES_OF_RUN, key, run })).runs;
      return runPage(page, {
        id,
        key,
        entries,
        first: firstAttempt(known, entries),
        traceUrl: (reconcileId) => data.traceUrl(reconcileId),
        changeOf: (reason) => data.change(page.visitor, reason),
        pace: (work) => time.pace(work),
      });
    });
  });
  serve('/controllers/:id/keys/:key{[^]+}', (page, { req }) => {
    const id = req.param('id') ?? '';
    const controller = data.controller(id);
    const key = req.param('key') ?? '';
    if (!controller || !decodeObjectKey(key)) return undefined;
    const time = data.times.ofVisitor(page.visitor.client);
    return time.inPlace(async () =>
      keyPage(page, controller, { key, runs: await keyRuns.of(id, controller.queue.history, key), time }),
    );
  });
  serve('/errors', async (page, { req }) => {
    const queues = data.queues();
    const sizes = await errorSizes(data);
    const named = req.query('list');
    const list: ErrorList =
      named === 'dead' || named === 'failing' ? named : sizes.dead > 0 || sizes.failing === 0 ? 'dead' : 'failing';
    const [groups, replays = []] = await Promise.all([grouping.groups(list, queues), data.replays()?.recent()]);
    return errorsPage(page, groups, {
      replays,
      controllers: [...queues.keys()].toSorted(),
      sizes,
      filter: { list, controller: req.query('controller') ?? '' },
    });
  });
  serve('/search', (page, { req }) => {
    const time = data.times.ofVisitor(page.visitor.client);
    return time.inPlace(() => searchPage(page, data, (req.query('q') ?? '').trim().slice(0, MOST_SEARCHED)));
  });
  serve('/views', async (page) => viewsPage(page, await data.views()));
  serve('/views/objects', (page, { req }) => {
    const view = data.view(req.query('view') ?? '');
    const text = (name: string): string => (req.query(name) ?? '').trim();
    const filter = { namespace: text('namespace'), labels: text('labels'), after: text('after') };
    return view && objectsPage(page, view, filter);
  });
  serve('/views/object', (page, { req }) => {
    const view = data.view(req.query('view') ?? '');
    const time = data.times.ofVisitor(page.visitor.client);
    return view && time.inPlace(() => objectPage(page, view, { key: req.query('key') ?? '', time }));
  });
  app.route('/', assets.app());
  app.route('/', actions({ data, grouping, logger }));
  return app;
}

async function errorSizes(data: DashboardData): Promise<Readonly<Record<ErrorList, number>>> {
  const controllers = await data.controllers();
  const sum = (list: ErrorList): number => controllers.reduce((total, { sizes }) => total + sizes[list], 0);
  return { dead: sum('dead'), failing: sum('failing') };
}

async function pageOf(context: Context<LoginEnv>, data: DashboardData, assets: Assets): Promise<PageRequest> {
  const { visitor } = context.var;
  const { origin, pathname, search } = new URL(context.req.url);
  return {
    times: new Times(data.clock.now(), data.clock.wallNow()),
    visitor,
    mayChange: await visitor.mayChange(),
    origin,
    path: pathname + search,
    message: takeMessage(context),
    gateway: data.gateway(),
    assets,
  };
}

function outcomeOf(text: string | undefined): PastOutcome | undefined {
  return RUN_OUTCOMES.find((each) => each === text);
}

/** A text that is no cursor selects nothing, as if it were not there. */
function cursorOf(text: string | undefined): string | undefined {
  return text !== undefined && isCursor(text) ? text : undefined;
}

/** @param query a parameter of the URL by its name. */
function keysFilter(query: (name: string) => string | undefined): {
  readonly list: KeyList | 'all' | undefined;
  readonly from: number;
  readonly after: string;
  readonly namespace: string;
  readonly name: string;
} {
  const named = query('list');
  const from = Number(query('from') ?? 0);
  return {
    list: named === 'all' ? named : KEY_LISTS.find((each) => each === named),
    after: query('after') ?? '',
    from: Number.isSafeInteger(from) && from > 0 ? from : 0,
    namespace: (query('namespace') ?? '').trim(),
    name: (query('name') ?? '').trim(),
  };
}

function unavailablePage(page: PageRequest, reason: string): Html {
  return messagePage(page, 'Not available now', html`${reason}. This page tries again by itself.`, 2000);
}

function notFoundPage(page: PageRequest): Html {
  return messagePage(
    page,
    'Not found',
    html`This gateway has no such controller, key or view: it may have been removed, or is not started yet.
      <a href="${DASHBOARD_PATH}">Overview</a>`,
  );
}

function failedPage(page: PageRequest, error: string): Html {
  return messagePage(page, 'This page could not be made', html`${error}. The log of the gateway has the same line.`);
}

function messagePage(page: PageRequest, title: string, text: Content, refreshMs = 5000): Html {
  return layout(page, {
    title,
    section: 'overview',
    refreshMs,
    content: html`<h1>${title}</h1>
      <p class="notice">${text}</p>`,
  });
}
