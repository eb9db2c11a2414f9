import { Hono } from 'hono';
import { expect, test } from 'vitest';
import { viewPrefix } from '../../../contract/cache-layout.ts';
import { type LogFields, type Logger, parseJson, SelectorError, systemClock } from '../../../core/index.ts';
import type { KeyStatus, PastRun } from '../../controller/workqueue/work-queue.ts';
import { ReadingTimes } from '../cache-api/reading-time.ts';
import { dashboardApp } from './app.ts';
import { ErrorGrouping } from './error-groups.ts';
import type {
  ControllerAccess,
  ControllerSummary,
  DashboardData,
  FunctionSummary,
  ShownQueue,
  Surroundings,
  TreeObject,
} from './data.ts';
import { repeated } from './pages/key.ts';
import { firstAttempt } from './pages/run.ts';
import { DASHBOARD_PATH } from './urls.ts';
import type { LoginEnv, Visitor } from '../login/visitor.ts';

const NOW = Date.UTC(2026, 10, 23, 4, 5, 6);
const KEY_OF_CART = `${DASHBOARD_PATH}/controllers/web/keys/shop/cart`;
const HOSTILE = `"><script>alert('x')</script>&amp;`;

const silent = (_fields: LogFields, _message?: string): void => {};
const logger: Logger = { debug: silent, info: silent, warn: silent, error: silent, child: () => logger };

const sizes = { queued: 0, running: 0, timers: 0, failing: 0, backlog: 0, waiting: 0, dead: 0 };

function summary(more: Partial<ControllerSummary> = {}): ControllerSummary {
  return {
    id: 'web',
    origin: 'configured',
    kind: 'v1/ConfigMap',
    problems: [],
    remarks: [],
    isStarting: false,
    sizes,
    concurrency: 2,
    oldestMs: undefined,
    pauses: [],
    morePauses: 0,
    pausedObjects: 0,
    circuit: undefined,
    samples: [],
    ...more,
  };
}

function keyStatus(key: string, more: Partial<KeyStatus> = {}): KeyStatus {
  return {
    key,
    queued: false,
    dirty: false,
    backlog: false,
    waits: [],
    pauses: [],
    failures: 0,
    reasons: [],
    ...more,
  };
}

function pastRun(key: string, error: string | undefined): PastRun {
  const reasons = [{ type: 'updated' as const, object: `v1/ConfigMap ${key}`, resourceVersion: '7' }];
  return {
    outcome: error === undefined ? 'done' : 'failed',
    key,
    run: 3,
    atMs: NOW,
    reasons,
    ...(error ? { error } : {}),
  };
}

/** A queue whose lists all hold these keys. */
function queueOf(
  statuses: readonly KeyStatus[],
  changes: string[] = [],
  errorOf: (key: string) => string | undefined = () => undefined,
): ShownQueue {
  const change = async (text: string): Promise<void> => void changes.push(text);
  return {
    inspector: {
      list: async (_, { offset, limit }) => ({
        total: statuses.length,
        keys: statuses.slice(offset, offset + limit).map(({ key }) => ({ key, atMs: NOW - 90_000 })),
      }),
      status: async (key) => statuses.find((each) => each.key === key) ?? keyStatus(key),
    },
    history: {
      lastErrors: async (keys) => keys.map(errorOf),
      runs: async () => ({ runs: statuses.map(({ key }) => pastRun(key, errorOf(key))) }),
      runsOf: async (key) => [pastRun(key, errorOf(key))],
    },
    add: async (keys) => {
      await change(`add ${keys.map(({ key }) => key).join(' ')}`);
      return [];
    },
    addLow: (keys) => change(`add low ${keys.join(' ')}`),
    drop: async (keys) => {
      await change(`drop ${keys.join(' ')}`);
      return keys.length;
    },
    pause: async (scope) => {
      await change(`pause ${scope}`);
      return true;
    },
    resume: async (scope) => {
      await change(`resume ${scope}`);
      return true;
    },
    jobs: { lists: async () => ({ queue: 'web', prefix: 'levelhook', jobs: { waiting: 4, active: 1 } }) },
  };
}

function access(queue: ShownQueue, more: Partial<ControllerAccess> = {}): ControllerAccess {
  const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
  return {
    origin: 'configured',
    description: {
      version: 'v1',
      name: 'web',
      for: kind,
      owns: [],
      watches: [],
      reads: [],
      indexes: [],
      concurrency: 2,
      timeoutSeconds: 15,
    } as unknown as ControllerAccess['description'],
    url: 'http://127.0.0.1:1/',
    queue,
    summary: async () => summary(),
    scope: { 'v1/ConfigMap': '*' },
    rights: () => undefined,
    webhooks: () => [],
    conditions: () => [],
    namespaced: true,
    views: ['v1/ConfigMap'],
    requeue: async () => 1,
    status: (_, key) => queue.inspector.status(key),
    object: async () => ({ kind: 'shown', cached: undefined, server: undefined, serverError: undefined }),
    around: async () => undefined,
    keys: async () => ({ kind: 'shown', keys: [], looked: 0, next: undefined }),
    ...more,
  };
}

function dataOf(more: Partial<DashboardData> = {}): DashboardData {
  return {
    clock: { now: () => NOW, wallNow: () => NOW },
    times: new ReadingTimes(systemClock),
    unavailable: () => undefined,
    traceUrl: () => undefined,
    checks: new Map(),
    gateway: () => ({ role: 'alone', identity: undefined, leader: '' }),
    replicas: async () => [],
    replays: () => undefined,
    controllers: async () => [],
    functions: () => [],
    views: async () => [],
    controller: () => undefined,
    queues: () => new Map(),
    view: () => undefined,
    search: async () => ({ objects: [], isWhole: true }),
    change: async () => ({ kind: 'hidden', reason: 'It is forgotten.' }),
    ...more,
  };
}

/** The pages for one visitor. */
function served(more: Partial<DashboardData> = {}, visitor: Partial<Visitor> = {}): Hono<LoginEnv> {
  const present: Visitor = {
    name: 'ann',
    client: 'ann',
    mayChange: async () => true,
    readRefusal: async () => undefined,
    recheck: async () => true,
    csrfToken: 'the-token',
    canLogOut: true,
    ...visitor,
  };
  return new Hono<LoginEnv>()
    .use(async (context, next) => {
      context.set('visitor', present);
      return next();
    })
    .route(DASHBOARD_PATH, dashboardApp(dataOf(more), logger));
}

async function textOf(app: Hono<LoginEnv>, path: string, status = 200): Promise<string> {
  const response = await app.request(path);
  expect(response.status, path).toBe(status);
  return response.text();
}

function form(fields: Readonly<Record<string, string>>): RequestInit {
  return { method: 'POST', body: new URLSearchParams(fields) };
}

test('runs with one error behind each other are shown once', async () => {
  const run = (number: number, error?: string, more: Partial<PastRun> = {}): PastRun => {
    const reasons = [{ type: 'retry' as const }];
    return { ...pastRun('shop/cart', error), run: number, attempt: 2, reasons, ...more };
  };
  expect(repeated([]).length).toBe(0);
  const first = { attempt: 1, reasons: [{ type: 'manual' as const }] };
  const dead = { outcome: 'dead' as const };
  const runs = [run(9), run(8, 'b'), run(7, 'a', dead), run(6, 'a'), run(5, 'a', first), run(4, 'a'), run(3), run(2)];
  const groups = [[9], [8], [7, 6, 5], [4], [3], [2]];
  expect(repeated(runs).map((group) => group.map((each) => each.run))).toEqual(groups);
  const history = { ...queueOf([]).history, runsOf: async () => runs };
  const app = served({ controller: () => access({ ...queueOf([]), history }) });
  const text = await textOf(app, `${DASHBOARD_PATH}/controllers/web/keys/shop/cart`);
  expect(text.match(/<li class="(ok|bad)">/g)).toHaveLength(groups.length);
  expect(text).toContain('× 3');
  expect(text, 'the cause of the series').toContain('manual');
  expect(text).toContain(`${DASHBOARD_PATH}/controllers/web/runs/7/shop/cart`);
});

test('a key is shown with the objects, the Events and the controllers around its object', async () => {
  const node = (name: string, more: Partial<TreeObject> = {}): TreeObject => ({
    kind: 'v1/ConfigMap',
    key: `shop/${name}`,
    view: 'v1/ConfigMap',
    health: undefined,
    note: undefined,
    controllers: [],
    children: [],
    ...more,
  });
  const health: TreeObject['health'] = { tone: 'bad', text: `not Ready: ${HOSTILE}` };
  const around: Surroundings = {
    tree: {
      owners: [
        node('gone', { view: undefined, note: 'the cache does not have it' }),
        node('above', { controllers: ['parents'] }),
      ],
      children: [node('bad', { health, children: [node('deep')] })],
      notShown: 4,
      isCut: true,
    },
    events: {
      kind: 'shown',
      events: [
        { isWarning: true, reason: HOSTILE, message: HOSTILE.repeat(100), count: 3, at: HOSTILE, from: HOSTILE },
      ],
    },
    controllers: [
      { id: 'parents', roles: ['reconciles', 'watches'], status: keyStatus('shop/cart', { queued: true }) },
      { id: 'readers', roles: ['reads'], status: undefined },
    ],
  };
  const shown = (of: Surroundings): Promise<string> =>
    textOf(served({ controller: () => access(queueOf([]), { around: async () => of }) }), KEY_OF_CART);
  const text = await shown(around);
  expect(text).not.toContain('<script>alert');
  const links = [
    'controllers/parents/keys/shop/above',
    'views/object?view=v1%2FConfigMap&amp;key=shop%2Fbad',
    'views/object?view=v1%2FConfigMap&amp;key=shop%2Fdeep',
    'controllers/parents/keys/shop/cart',
    'controllers/readers',
  ];
  for (const link of links) expect(text).toContain(`href="${DASHBOARD_PATH}/${link}"`);
  expect(text).not.toContain('keys/shop/gone');
  for (const words of [
    'the cache does not have it',
    'not Ready',
    '4 more objects',
    'too many objects to look',
    'reconciles, watches',
    '× 3',
  ]) {
    expect(text).toContain(words);
  }
  // Each within the one above it.
  const places = ['shop/gone', '>shop/above<', 'aria-current="true">shop/cart', '>shop/bad<', '>shop/deep<'];
  const at = places.map((place) => text.indexOf(place));
  expect(at.includes(-1)).toBe(false);
  expect(at).toEqual(at.toSorted((a, b) => a - b));

  const alone = await shown({
    tree: { owners: [], children: [], notShown: 0, isCut: false },
    events: { kind: 'hidden', reason: 'you may not list events' },
    controllers: [],
  });
  expect(alone).toContain('No owner, and no object of its own,');
  expect(alone).toContain('you may not list events');
  expect(alone).not.toContain('Other controllers');
});

test('a search shows controllers and objects with their keys, and what it did not look at', async () => {
  const asked: string[] = [];
  const objects = [
    { view: 'v1/ConfigMap', key: `shop/${HOSTILE}`, controllers: ['web', 'other'] },
    { view: 'v1/Pod', key: 'shop/cart', controllers: [] },
  ];
  const app = served({
    controllers: async () => [summary(), summary({ id: 'cart' })],
    search: async (_, text) => {
      asked.push(text);
      if (text === 'a==') throw new SelectorError('it has no value');
      return { objects, isWhole: false };
    },
  });
  const text = await textOf(app, `${DASHBOARD_PATH}/search?q=%20cart%20`);
  expect(asked).toEqual(['cart']);
  expect(text).not.toContain('<script>alert');
  for (const url of ['controllers/cart', 'views/object?view=v1%2FPod&amp;key=shop%2Fcart']) {
    expect(text).toContain(`href="${DASHBOARD_PATH}/${url}"`);
  }
  expect(text.match(/controllers\/(web|other)\/keys\/shop\//g)).toHaveLength(2);
  for (const words of ['There may be more', 'value="cart"']) expect(text).toContain(words);
  expect(await textOf(app, `${DASHBOARD_PATH}/search?q=a%3D%3D`)).toContain('cannot be understood: it has no value');
  expect(await textOf(app, `${DASHBOARD_PATH}/search`)).toContain('NAMESPACE/NAME');
  expect(asked).toEqual(['cart', 'a==']);
});

test('the keys of all objects of a controller are shown with their states, a page at a time', async () => {
  const asked: unknown[] = [];
  const keys: ControllerAccess['keys'] = async (_, search, page) => {
    asked.push({ namespace: search.namespace, name: search.name, ...page });
    return { kind: 'shown', keys: ['shop/cart', 'shop/tea'], looked: 3000, next: 'shop/tea' };
  };
  const queue = queueOf([keyStatus('shop/cart', { failures: 3 })]);
  const text = await textOf(
    served({ controller: () => access(queue, { keys }) }),
    `${DASHBOARD_PATH}/controllers/web?list=all&namespace=shop&name=a&after=shop%2Fb`,
  );
  expect(asked).toEqual([{ namespace: 'shop', name: 'a', after: 'shop/b', limit: 50 }]);
  expect(text).toContain('controllers/web/keys/shop/cart"');
  expect(text).toContain('at rest');
  expect(text).toContain('3,000 keys looked at');
  expect(text).toContain('list=all&amp;namespace=shop&amp;name=a&amp;after=shop%2Ftea');
  expect(text).toMatch(/aria-current="page"\s*>All</);
  const hidden = access(queue, { keys: async () => ({ kind: 'hidden', reason: 'you may not list them' }) });
  const refused = await textOf(served({ controller: () => hidden }), `${DASHBOARD_PATH}/controllers/web?list=all`);
  expect(refused).toContain('you may not list them');
});

test('a search for the reconcileID of a line of a log leads to the runs of its trigger', async () => {
  const id = '0b5b2a34-5c0f-4c77-9d0c-3f4a6c1d2e3f';
  const asked: unknown[] = [];
  const queues = new Map(
    ['apps', 'web'].map((name) => {
      const runs = async (query: object) => {
        asked.push({ name, ...query });
        return { runs: name === 'web' ? [{ ...pastRun('shop/cart', undefined), run: 7, reconcileId: id }] : [] };
      };
      return [name, { ...queueOf([]), history: { ...queueOf([]).history, runs } }];
    }),
  );
  const app = served({ queues: () => queues });
  const text = await textOf(app, `${DASHBOARD_PATH}/search?q=${id}`);
  expect(asked).toEqual(['apps', 'web'].map((name) => ({ name, limit: 50, reconcileId: id })));
  expect(text).toContain(`${DASHBOARD_PATH}/controllers/web/runs/7/shop/cart`);
  const none = await textOf(
    served({ queues: () => new Map([['web', queueOf([])]]) }),
    `${DASHBOARD_PATH}/search?q=${id}`,
  );
  expect(none).toContain('No run of this trigger is on record');
  asked.length = 0;
  await textOf(app, `${DASHBOARD_PATH}/search?q=cart`);
  expect(asked).toEqual([]);
});

test('a run is shown with its log and its stack, and as long as either history has it', async () => {
  const stack = `Error: ${HOSTILE}\n    at a.ts:1`;
  const failed: PastRun = { ...pastRun('shop/cart', HOSTILE), run: 12, stack, log: [HOSTILE, 'last'] };
  const old: PastRun = { ...pastRun('shop/cart', undefined), run: 2 };
  const asked: unknown[] = [];
  const history = {
    ...queueOf([]).history,
    runsOf: async () => [failed],
    runs: async (query: object) => {
      asked.push(query);
      return { runs: 'run' in query && query.run === 2 ? [old] : [] };
    },
  };
  const app = served({ controller: (id) => (id === 'web' ? access({ ...queueOf([]), history }) : undefined) });
  const url = (run: number | string, id = 'web') => `${DASHBOARD_PATH}/controllers/${id}/runs/${run}/shop/cart`;
  const text = await textOf(app, url(12));
  expect(text).toContain('Stack of its error');
  expect(text).toContain('    at a.ts:1');
  expect(text).toMatch(/&lt;script&gt;[^]*\nlast/);
  expect(text).not.toContain('<script>alert');
  expect(await textOf(app, url(2))).toContain('Run 2 of shop/cart');
  expect(asked.at(-1)).toEqual({ limit: 5, key: 'shop/cart', run: 2 });
  expect(await textOf(app, url(3))).toContain('This run is not on record any more');
  await textOf(app, url('x'), 404);
  await textOf(app, url(12, 'none'), 404);
});

test('the first cause of a retry is that of its first attempt, also when that had no answer', () => {
  const at = { key: 'shop/cart', atMs: NOW };
  const reasons = [{ type: 'updated' as const, object: 'v1/ConfigMap shop/cart', resourceVersion: '7' }];
  const retry: PastRun = { ...at, run: 6, outcome: 'failed', attempt: 2, reasons: [{ type: 'retry' }] };
  const lost: PastRun = { ...at, run: 5, outcome: 'lost', attempt: 1 };
  const unknown: PastRun = { ...at, run: 5, outcome: 'unknown', attempt: 1, reasons };
  const earlier: PastRun = { ...at, run: 4, outcome: 'done', attempt: 1, reasons };
  expect(firstAttempt([retry, lost, unknown, earlier], [retry])).toBe(unknown);
  // The first attempt is not on record, and a run before it that went well is not its cause.
  expect(firstAttempt([retry, earlier], [retry])).toBeUndefined();
  expect(firstAttempt([lost, unknown, earlier], [lost, unknown])).toBeUndefined();
});

test('names, reasons and errors from outside stay text', async () => {
  const key = 'shop/cart';
  const status = keyStatus(key, {
    failures: 1,
    reasons: [{ type: 'manual', message: HOSTILE }],
  });
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'cart', annotations: { note: HOSTILE } } };
  const controller = access(
    queueOf([status], [], () => HOSTILE),
    {
      summary: async () => summary({ id: HOSTILE, problems: [HOSTILE] }),
      object: async () => ({ kind: 'shown', cached: object as never, server: undefined, serverError: undefined }),
    },
  );
  const app = served(
    {
      controllers: async () => [summary({ id: HOSTILE, problems: [HOSTILE], kind: HOSTILE })],
      functions: () => [
        {
          controller: HOSTILE,
          url: HOSTILE,
          problem: HOSTILE,
          openReason: HOSTILE,
          lastAnswer: undefined,
          rights: { result: 'refused', atMs: NOW, message: HOSTILE },
        },
      ],
      views: async () => [
        {
          name: HOSTILE,
          objects: 1,
          synced: true,
          encrypted: false,
          behindMs: 0,
          lastList: { atMs: NOW, reason: HOSTILE },
          version: HOSTILE,
          users: [HOSTILE],
        },
      ],
      controller: () => controller,
      queues: () => new Map([[HOSTILE, controller.queue]]),
    },
    { name: HOSTILE },
  );
  for (const path of [
    `/dashboard?name=${encodeURIComponent(HOSTILE)}`,
    '/dashboard',
    `/dashboard/controllers/web?list=dead&namespace=${encodeURIComponent(HOSTILE)}`,
    '/dashboard/controllers/web/keys/shop/cart',
    '/dashboard/controllers/web/runs',
    '/dashboard/errors',
    '/dashboard/views',
  ]) {
    const text = await textOf(app, path);
    expect(text, path).not.toContain('<script>alert');
    expect(text, path).not.toContain(`"><script`);
    expect(text, path).toContain('&lt;script&gt;');
  }
});

test('a page loads scripts and styles from this server only', async () => {
  const response = await served().request('/dashboard');
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  const text = await response.text();
  const loaded = [...text.matchAll(/(?:src|<link rel="stylesheet" href)="([^"]*)"/g)].map(([, url]) => url ?? '');
  expect(loaded).toHaveLength(3);
  for (const url of loaded) {
    const file = await served().request(url);
    expect(file.status, url).toBe(200);
    expect(file.headers.get('cache-control')).toContain('immutable');
  }
  expect(text).not.toMatch(/ style=| on[a-z]+="/);
});

test('a gateway without controllers and cache says what to do next', async () => {
  const app = served();
  expect(await textOf(app, '/dashboard')).toContain('No controller runs. Name a function');
  expect(await textOf(app, '/dashboard/errors')).toContain('No dead letters. A key becomes one when');
  expect(await textOf(app, '/dashboard/views')).toContain('Nothing is cached yet');
  expect(await textOf(app, '/dashboard/controllers/none', 404)).toContain('Not found');
});

test.each<[string, boolean, number | undefined, string]>([
  ['its first list is not complete', false, undefined, 'not complete'],
  ['its age is not known', true, undefined, 'not complete or not served'],
  ['it lacks a minute', true, 60_000, '1 min behind'],
  ['it lacks nothing', true, 0, 'up to date'],
])('the state of a view says so when %s', async (_, synced, behindMs, state) => {
  const view = { name: 'v1/Pod', objects: 1, synced, encrypted: false, behindMs, lastList: undefined, version: '1' };
  const text = await textOf(served({ views: async () => [{ ...view, users: [] }] }), '/dashboard');
  expect(/<tr id="view-v1\/Pod".*?<span class="state \w+">([^<]*)</s.exec(text)?.[1]).toBe(state);
});

test('while Redis is away every page says so and tries again', async () => {
  const app = served({ unavailable: () => 'Redis cannot be asked: not connected' });
  const text = await textOf(app, '/dashboard/controllers/web', 503);
  expect(text).toContain('Redis cannot be asked: not connected');
  expect(text).toContain('data-refresh="2000"');
});

test('a search and a page of a list stand in the URL, and the links to other lists keep the search', async () => {
  const many = Array.from({ length: 120 }, (_, at) => keyStatus(`${at % 2 ? 'odd' : 'even'}/key-${at}`));
  const app = served({ controller: () => access(queueOf(many)) });
  const first = await textOf(app, '/dashboard/controllers/web?list=timers');
  expect(first).toContain('1 to 50 of 120');
  expect(first).toContain('/dashboard/controllers/web?list=timers&amp;from=50');
  const search = await textOf(app, '/dashboard/controllers/web?list=timers&namespace=odd&name=key-1');
  expect(search).toContain('odd/key-11<');
  expect(search).not.toContain('even/key-');
  expect(search).toContain('?list=dead&amp;namespace=odd&amp;name=key-1');
});

test('a visitor who may only read sees no button that changes anything', async () => {
  const controller = access(queueOf([keyStatus('shop/cart', { deadSinceMs: NOW })]));
  const data = { controller: () => controller, queues: () => new Map([['web', controller.queue]]) };
  for (const path of [
    '/dashboard/controllers/web?list=dead',
    '/dashboard/controllers/web/keys/shop/cart',
    '/dashboard/errors',
  ]) {
    const forms = (text: string): number => [...text.matchAll(/<form [^>]*method="post" action="\/dashboard/g)].length;
    expect(forms(await textOf(served(data), path)), path).toBeGreaterThan(0);
    expect(forms(await textOf(served(data, { mayChange: async () => false }), path)), path).toBe(0);
  }
});

test('every form that changes something carries the token of the visitor', async () => {
  const controller = access(queueOf([keyStatus('shop/cart', { deadSinceMs: NOW })]));
  const app = served({ controller: () => controller });
  const text = await textOf(app, '/dashboard/controllers/web?list=dead');
  const forms = [...text.matchAll(/<form [^>]*method="post"[^>]*>([\s\S]*?)<\/form>/g)].map(([, inner]) => inner ?? '');
  expect(forms.length).toBeGreaterThan(3);
  for (const inner of forms) expect(inner).toContain('name="csrf" value="the-token"');
});

test('a change leads back to the page from which it was sent, which shows what was done once', async () => {
  const changes: string[] = [];
  const app = served({ controller: () => access(queueOf([], changes)) });
  const to = '/dashboard/controllers/web?list=dead';
  const response = await app.request('/dashboard/controllers/web/pause', form({ scope: 'namespace/shop', to }));
  expect(response.status).toBe(303);
  expect(response.headers.get('location')).toBe(to);
  expect(changes).toEqual(['pause namespace/shop']);
  const cookie = response.headers.get('set-cookie')?.split(';')[0] ?? '';
  const next = await app.request(to, { headers: { cookie } });
  expect(await next.text()).toContain('Paused: the namespace shop.');
  expect(next.headers.get('set-cookie')).toContain('Max-Age=0');
});

test('a change leads to no page elsewhere, and refuses what is no key, namespace or selection', async () => {
  const changes: string[] = [];
  const app = served({ controller: () => access(queueOf([], changes)) });
  for (const to of [
    'https://evil.example/',
    '//evil.example/dashboard',
    String.raw`/\evil.example`,
    '/dashboardx',
    '',
  ]) {
    const response = await app.request('/dashboard/controllers/web/resume', form({ scope: 'controller', to }));
    expect(response.headers.get('location'), to).toBe('/dashboard');
  }
  changes.length = 0;
  for (const [action, fields] of [
    ['pause', { scope: 'recovery' }],
    ['pause', { namespace: 'not a name' }],
    ['pause', { scope: 'object/shop/cart' }],
    ['pause', { scope: 'key/../cart' }],
    ['resume', { scope: 'key/' }],
    ['replay', { key: '../..' }],
    ['replay', {}],
    ['drop', { key: 'a/b/c' }],
    ['reconcile', {}],
    ['reconcile', { labels: 'a in (' }],
  ] as const) {
    const response = await app.request(`/dashboard/controllers/web/${action}`, form(fields));
    expect(response.headers.get('set-cookie'), action).toContain('levelhook-message=failed');
  }
  expect(changes).toEqual([]);
});

test('a key says what it waits for: a barrier with its kinds and versions, a pause, a rate limit', async () => {
  const view = { keyPrefix: 'test', clusterId: 'c', resource: { apiVersion: 'v1', kind: 'Pod' }, settings: 'x' };
  const barrier = JSON.stringify({ [viewPrefix(view)]: { version: '1234', deleted: [['shop/old', 'uid']] } });
  for (const [wait, word, why] of [
    [{ reason: 'barrier', sinceMs: NOW - 5000, barrier }, 'waits for the cache', 'v1/Pod up to version 1234'],
    [{ reason: 'paused', by: 'namespace/shop' }, 'paused', 'a person has paused the namespace shop'],
    [{ reason: 'rate-limit', untilMs: NOW + 5000 }, 'rate limit', 'lets it run'],
    [{ reason: 'breaker', untilMs: NOW + 5000 }, 'circuit open', 'cannot reach the function'],
  ] as const) {
    const status = keyStatus('shop/cart', { waits: [wait], timerMs: NOW + 10 });
    const app = served({ controller: () => access(queueOf([status])) });
    const text = await textOf(app, '/dashboard/controllers/web/keys/shop/cart');
    expect(text).toContain(`<span class="state warn">${word}</span>`);
    expect(text).toContain(why);
  }
});

test('the list of keys says that the circuit of their controller is open', async () => {
  const circuit = { sinceMs: NOW - 5000, untilMs: NOW + 5000, reason: 'the function does not answer' };
  const queue = queueOf([keyStatus('shop/cart', { queued: true })]);
  const app = served({ controller: () => access(queue, { summary: async () => summary({ circuit }) }) });
  const text = await textOf(app, '/dashboard/controllers/web?list=queued');
  expect(text).toContain('<span class="state warn">circuit open</span>');
});

test.each(['n\nl', 'n\rl', 'n\u2028l', 'n\u2029l'])(
  'the page of a key is there whatever its name: %j',
  async (name) => {
    const app = served({ controller: () => access(queueOf([keyStatus(name)])) });
    const answer = await app.request(`/dashboard/controllers/web/keys/${encodeURIComponent(name)}`);
    expect(answer.status).toBe(200);
  },
);

test('the overview lists the gateways with their roles, and which of them answers', async () => {
  const gateway = { version: '1.2.3', startedMs: NOW - 3_600_000, roleSinceMs: NOW - 60_000 };
  const app = served({
    gateway: () => ({ role: 'follower', identity: 'b_2', leader: 'a_1' }),
    replicas: async () => [
      { ...gateway, id: 'a_1', name: 'a', role: 'leader', seenMs: NOW - 30_000, isThis: false },
      { ...gateway, id: 'b_2', name: HOSTILE, role: 'follower', seenMs: NOW, isThis: true },
    ],
  });
  const text = await textOf(app, '/dashboard');
  const [leader = '', own = ''] = [...text.matchAll(/<tr id="gateway-[ab]_.*?<\/tr>/gs)].map(([row]) => row);
  expect(leader).toContain('<span class="state ok">leader</span>');
  expect(leader).toContain('1.2.3');
  expect(leader).toContain('silent');
  expect(own).toContain('(this one)');
  expect(own).not.toContain('silent');
  expect(text).not.toContain('<script>alert');
  expect(text).not.toContain('which is not listed');
});

test('a gateway that was killed while it led has led, once another one holds the Lease', async () => {
  const gateway = { version: '1.2.3', startedMs: NOW - 3_600_000, roleSinceMs: NOW - 60_000, role: 'leader' } as const;
  const replicas = [
    { ...gateway, id: 'a_1', name: 'a', seenMs: NOW - 30_000, isThis: false },
    { ...gateway, id: 'b_2', name: 'b', seenMs: NOW, isThis: true },
  ];
  const app = served({
    gateway: () => ({ role: 'leader', identity: 'b_2', leader: '' }),
    replicas: async () => replicas,
  });
  const text = await textOf(app, '/dashboard');
  expect(/<tr id="gateway-a_1.*?<\/tr>/s.exec(text)?.[0]).toContain('<span class="state warn">has led</span>');
  expect(/<tr id="gateway-b_2.*?<\/tr>/s.exec(text)?.[0]).toContain('<span class="state ok">leader</span>');
});

test('a key offers Pause, and Resume while a person has paused it, though it has nothing to do', async () => {
  const page = async (more: Partial<KeyStatus>): Promise<string> => {
    const app = served({ controller: () => access(queueOf([keyStatus('shop/cart', more)])) });
    return textOf(app, '/dashboard/controllers/web/keys/shop/cart');
  };
  const form = (verb: string): RegExp =>
    new RegExp(`controllers/web/${verb}">((?!</form>).)*name="scope" value="key/shop/cart"`, 's');
  const free = await page({});
  expect(free).toMatch(form('pause'));
  expect(free).toContain('levelhook.dev/paused=true');
  const paused = await page({ pauses: [{ scope: 'key/shop/cart', sinceMs: NOW - 60_000 }] });
  expect(paused).toMatch(form('resume'));
  expect(paused).toContain('<span class="state warn">paused</span>');
  expect(paused).toContain('a person has paused this key');
  const annotated = await page({ pauses: [{ scope: 'object/shop/cart', sinceMs: NOW - 60_000 }] });
  expect(annotated).toMatch(form('pause'));
  expect(annotated).toContain('levelhook.dev/paused-');
});

test.each([
  ['controller', 'a person has paused the controller'],
  ['namespace/shop', 'a person has paused the namespace shop'],
  ['key/shop/cart', 'a person has paused this key'],
  ['object/shop/cart', 'its object has the annotation'],
] as const)('the page of a key names the pause that keeps it back: %s', async (scope, why) => {
  const status = keyStatus('shop/cart', { pauses: [{ scope, sinceMs: NOW - 60_000 }], timerMs: NOW + 10 });
  const app = served({ controller: () => access(queueOf([status])) });
  const text = await textOf(app, '/dashboard/controllers/web/keys/shop/cart');
  const named = text.matchAll(/a person has paused (?:the \w+ [\w/]+|the controller|this key)|its object has the \w+/g);
  expect(new Set([...named].map(([sentence]) => sentence))).toEqual(new Set([why]));
});

test('the page of a key has its command with the address at which the gateway was asked', async () => {
  const app = served({ controller: () => access(queueOf([keyStatus('shop/cart')])) });
  const text = await textOf(app, 'http://127.0.0.1:18787/dashboard/controllers/web/keys/shop/cart');
  expect(text).toContain('<code>levelhook explain web shop/cart --gateway http://127.0.0.1:18787</code>');
});

test.each([
  ['queued', {}],
  ['queued', { queued: 3, timers: 2 }],
  ['failing', { queued: 3, failing: 2, running: 1 }],
  ['dead', { queued: 3, failing: 2, dead: 1 }],
  ['waiting', { waiting: 2, timers: 9 }],
] as const)('the page of a controller opens on its worst list, %s, with the number of each: %o', async (list, more) => {
  const sizesNow = { ...sizes, ...more };
  const controller = access(queueOf([]), { summary: async () => summary({ sizes: sizesNow }) });
  const text = await textOf(served({ controller: () => controller }), '/dashboard/controllers/web');
  expect(/list=(\w+)"\s+aria-current="page"/.exec(text)?.[1]).toBe(list);
  const tabs = [...text.matchAll(/\?list=(\w+)"[^>]*>[\w ]+ (\d+)<\/a>/g)].map(([, each, size]) => [
    each,
    Number(size),
  ]);
  expect(Object.fromEntries(tabs)).toEqual(sizesNow);
});

test('the overview has the age of the oldest key that waits, also while its function is away', async () => {
  const tile = async (...summaries: readonly ControllerSummary[]): Promise<string> => {
    const text = await textOf(served({ controllers: async () => summaries }), '/dashboard');
    return /<dt>Longest wait<\/dt>\s*<dd>(.*?)<\/dd>/s.exec(text)?.[1] ?? '';
  };
  expect(await tile(summary())).toContain('none');
  const away = { circuit: { sinceMs: NOW - 90_000, untilMs: NOW + 1000, reason: 'refused' }, oldestMs: 90_000 };
  expect(await tile(summary({ oldestMs: 0 }), summary({ id: 'away', ...away }))).toBe('1 min 30 s');
});

test.each<[string, Partial<ControllerSummary>, boolean]>([
  ['idle', {}, true],
  ['busy', { sizes: { ...sizes, queued: 1, running: 1 } }, true],
  ['partly paused', { pauses: [{ scope: 'namespace/shop', sinceMs: NOW }] }, true],
  ['failing', { sizes: { ...sizes, failing: 1, running: 1 } }, false],
  ['dead letters', { sizes: { ...sizes, dead: 1 } }, false],
  ['paused', { pauses: [{ scope: 'controller', sinceMs: NOW }] }, false],
  ['problem', { problems: ['its view is not complete'] }, false],
  ['circuit open', { circuit: { sinceMs: NOW, untilMs: NOW + 1000, reason: 'refused' } }, false],
])(
  'a controller with the state %s counts as well, or comes first and is listed among those with a problem: %o',
  async (_, more, isWell) => {
    const controllers = async (): Promise<ControllerSummary[]> => [
      summary({ id: 'fine' }),
      summary({ id: 'other', ...more }),
    ];
    const app = served({ controllers });
    const rows = (text: string): string[] => [...text.matchAll(/<tr id="controller-(\w+)"/g)].map(([, id = '']) => id);
    const all = await textOf(app, '/dashboard');
    const tile = /<dt>Controllers well<\/dt>\s*<dd>(\d+) <small>of (\d+)<\/small>/.exec(all)?.slice(1);
    expect(tile).toEqual([isWell ? '2' : '1', '2']);
    expect(rows(all)).toEqual(isWell ? ['fine', 'other'] : ['other', 'fine']);
    expect(rows(await textOf(app, '/dashboard?show=problems'))).toEqual(isWell ? [] : ['other']);
  },
);

test('the table of functions shows what keeps triggers back, and nothing of it is green, since runs may fail all the same', async () => {
  const fn = {
    url: 'http://fn.example/',
    lastAnswer: undefined,
    rights: undefined,
  };
  const answer = { atMs: NOW, text: 'HTTP 200', isFailure: false };
  const functions = (): FunctionSummary[] => [
    {
      ...fn,
      controller: 'web',
      problem: undefined,
      openReason: undefined,
      lastAnswer: answer,
    },
    {
      ...fn,
      controller: 'shut',
      problem: undefined,
      openReason: 'refused',
      lastAnswer: { ...answer, isFailure: true },
    },
    { ...fn, controller: 'ill', problem: 'Synced: no', openReason: undefined },
  ];
  const failing = summary({ sizes: { ...sizes, failing: 3 } });
  const text = await textOf(served({ functions, controllers: async () => [failing] }), '/dashboard');
  const table = /aria-label="Functions".*?<\/table>/s.exec(text)?.[0] ?? '';
  const badges = [...table.matchAll(/<span class="state (\w+)">([\w ]+)<\/span>/g)].map(([, tone, word]) => [
    word,
    tone,
  ]);
  expect(badges).toEqual([
    ['allowed', 'neutral'],
    ['answered', 'neutral'],
    ['circuit open', 'bad'],
    ['failed', 'bad'],
    ['does not run', 'bad'],
  ]);
});

test('the pauses of keys are listed with their controller, each with a link and Resume', async () => {
  const pauses = [{ scope: 'key/shop/cart', sinceMs: NOW - 60_000 }] as const;
  const found = summary({ pauses, morePauses: 12, pausedObjects: 1 });
  const app = served({ controller: () => access(queueOf([]), { summary: async () => found }) });
  const text = await textOf(app, '/dashboard/controllers/web');
  expect(text).toContain('<a href="/dashboard/controllers/web/keys/shop/cart">the key shop/cart</a>');
  expect(text).toContain('name="scope" value="key/shop/cart"');
  expect(text).toContain('1 object is paused by the annotation');
  expect(text).toContain('<p class="empty">12 further pauses.</p>');
  expect(text).toContain('1 key and 1 object paused, and 12 further pauses');
});

test('the page of a controller shows the last review of its rights, and a question without an answer since', async () => {
  const page = async (more: Partial<ControllerAccess>): Promise<string> => {
    const text = await textOf(served({ controller: () => access(queueOf([]), more) }), '/dashboard/controllers/web');
    return /aria-label="Rights".*?<\/table>/s.exec(text)?.[0] ?? '';
  };
  expect(await page({})).toContain('a configured function may read what the gateway caches');
  const declared = { origin: 'declared', scope: { 'v1/ConfigMap': ['shop', 'till'] } } as const;
  expect(await page(declared)).toContain('not reviewed by this gateway yet');
  const failed = { atMs: NOW - 1000, error: HOSTILE };
  const text = await page({ ...declared, rights: () => ({ result: 'allowed', atMs: NOW - 60_000, failed }) });
  expect(text).toContain('<span class="state ok">allowed</span>');
  expect(text).toContain('1 min ago');
  expect(text).toContain('shop, till');
  expect(text).toContain('without an answer');
  expect(text).not.toContain('<script>');
});

test('the page of a controller lists its webhooks with their last answers', async () => {
  const page = async (more: Partial<ControllerAccess>): Promise<string> =>
    textOf(served({ controller: () => access(queueOf([]), more) }), '/dashboard/controllers/web');
  expect(await page({})).not.toContain('Webhooks');
  const webhook = { apiVersion: 'v1', kind: 'Pod', type: 'validating', name: 'names', operations: ['CREATE'] } as const;
  const conversion = {
    apiVersion: 'a/v1',
    kind: 'B',
    type: 'conversion',
    name: 'turns',
    versions: ['v1', 'v2'],
  } as const;
  const text = await page({
    webhooks: () => [
      { webhook, seen: { count: 1234, atMs: NOW - 60_000, failure: HOSTILE, isSenderKnown: false } },
      { webhook: conversion, seen: undefined },
    ],
  });
  const WITHOUT_CACHE = 'without the cache: unknown sender';
  expect(text).toContain(WITHOUT_CACHE);
  const fine = { count: 1, atMs: NOW, failure: undefined };
  const others = await page({
    webhooks: () => [
      { webhook, seen: { ...fine, isSenderKnown: true } },
      // An apiserver has no certificate for these.
      { webhook: conversion, seen: { ...fine, isSenderKnown: false } },
    ],
  });
  expect(others).not.toContain(WITHOUT_CACHE);
  for (const part of ['names', 'v1/Pod', 'CREATE, all namespaces', '1 min ago', 'versions v1, v2', 'none yet']) {
    expect(text).toContain(part);
  }
  expect(text).toContain('<span class="state bad">failed</span>');
  expect(text).not.toContain('<script>');
});

test('an object that differs is shown beside the one of the server, its integers unrounded, a Secret is not shown', async () => {
  const object = (color: string, beyondDoubles: string): never =>
    parseJson(
      `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cart"},"data":{"color":"${color}"},"n":${beyondDoubles}}`,
    ) as never;
  const [cached, server] = [object('red', '9007199254740992'), object('blue', '9007199254740993')];
  const differs = access(queueOf([]), {
    object: async () => ({ kind: 'shown', cached, server, serverError: undefined }),
  });
  const text = await textOf(served({ controller: () => differs }), '/dashboard/controllers/web/keys/shop/cart');
  expect(text).toContain('<del>  color: red</del>');
  expect(text).toContain('<ins>  color: blue</ins>');
  expect(text).toContain('<del>&quot;n&quot;: 9007199254740992</del>');
  expect(text).toContain('<ins>&quot;n&quot;: 9007199254740993</ins>');
  expect(text).toContain('the cache is behind the server');
  const hidden = access(queueOf([]), { object: async () => ({ kind: 'hidden', reason: 'Secrets are not shown' }) });
  expect(await textOf(served({ controller: () => hidden }), '/dashboard/controllers/web/keys/shop/cart')).toContain(
    'Secrets are not shown',
  );
});

test('runs come as events with their rows as escaped markup', async () => {
  const app = served({ controller: () => access(queueOf([keyStatus('shop/cart')], [], () => HOSTILE)) });
  const response = await app.request('/dashboard/controllers/web/runs/stream');
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  const reader = response.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  const text = new TextDecoder().decode(value as Uint8Array | undefined);
  expect(text).toContain('id="run-3-failed"');
  expect(text).toContain('&lt;script&gt;');
  expect(text).not.toContain('<script>');
});

test('a session has four streams of runs at a time', async () => {
  const app = served({ controller: () => access(queueOf([])) });
  const path = '/dashboard/controllers/web/runs/stream';
  for (let at = 0; at < 9; at += 1) expect((await app.request(path, { method: 'HEAD' })).status).toBe(200);
  const open = await Promise.all(Array.from({ length: 4 }, async () => app.request(path)));
  expect(open.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect((await app.request(path)).status).toBe(429);
  await open[0]?.body?.cancel();
  const next = await app.request(path);
  expect(next.status).toBe(200);
  expect((await app.request(path)).status).toBe(429);
  for (const each of [...open.slice(1), next]) await each.body?.cancel();
});

test.each([
  'controllers/web/runs',
  'controllers/web/runs/3/shop/cart',
  'controllers/web/runs/stream',
  'controllers/web/keys/shop/cart',
  'views/object?view=v1%2FConfigMap&key=shop%2Fcart',
])('few reads of a visitor for %s are under way together', async (path) => {
  let begun = 0;
  const never = new Promise<never>(() => {});
  const wait = (): Promise<never> => {
    begun += 1;
    return never;
  };
  const history = { ...queueOf([]).history, runs: wait, runsOf: wait };
  const view = { name: 'v1/ConfigMap', namespaced: true, list: wait, get: wait };
  const data = { controller: () => access({ ...queueOf([]), history }), view: () => view };
  const times = new ReadingTimes(systemClock);
  const ann = served({ ...data, times });
  for (let at = 0; at < 20; at += 1) void ann.request(`${DASHBOARD_PATH}/${path}`);
  await new Promise((resolve) => setImmediate(resolve));
  const most = path.endsWith('stream') ? 4 : 8;
  expect(begun).toBe(most);
  // Another visitor does not wait for them.
  void served({ ...data, times }, { client: 'ben' }).request(`${DASHBOARD_PATH}/${path}`);
  await new Promise((resolve) => setImmediate(resolve));
  expect(begun).toBe(most + 1);
});

test('dead letters are grouped by error, whatever names and numbers are in it', async () => {
  const letters = Array.from({ length: 30 }, (_, at) => keyStatus(`shop/cart-${at}`, { deadSinceMs: NOW }));
  const errorOf = (key: string): string => {
    const at = Number(key.split('-')[1]);
    return at % 3 === 0 ? 'other' : `cart-${at} failed after ${at} ms`;
  };
  const queue = queueOf(letters, [], errorOf);
  const text = await textOf(served({ queues: () => new Map([['web', queue]]) }), '/dashboard/errors');
  const counts = [...text.matchAll(/<span class="strong">(\d+)<\/span>/g)].map(([, count]) => Number(count));
  expect(counts).toEqual([20, 10]);
});

test('errors that are all different make a bounded number of groups', async () => {
  const letters = Array.from({ length: 900 }, (_, at) => keyStatus(`shop/cart-${at}`, { deadSinceMs: NOW }));
  const letter = (at: number): string => String.fromCodePoint(0x4e00 + at);
  const queue = queueOf(letters, [], (key) => letter(Number(key.split('-')[1])));
  const queues = new Map(Array.from({ length: 12 }, (_, at) => [`web-${at}`, queue]));
  const { groups, grouped, total } = await new ErrorGrouping({ now: () => 0 }).groups('dead', queues);
  expect([groups.length, grouped, total]).toEqual([12 * 166, 12 * 166, 12 * 900]);
  const one = await new ErrorGrouping({ now: () => 0 }).groups('dead', new Map([['web', queue]]));
  expect([one.groups.length, one.grouped]).toEqual([200, 200]);
});

test('failing keys are grouped by error, too, and a group is tried again', async () => {
  const failing = ['a', 'b', 'c'].map((name) => keyStatus(`shop/${name}`, { failures: 2 }));
  const changes: string[] = [];
  const all = queueOf(failing, changes, (key) => (key === 'shop/c' ? 'other' : `no disk for ${key}`));
  const list: ShownQueue['inspector']['list'] = async (name, page) =>
    name === 'failing' ? all.inspector.list(name, page) : { total: 0, keys: [] };
  const queue = { ...all, inspector: { ...all.inspector, list } };
  const controller = access(queue);
  const app = served({
    controllers: async () => [summary({ sizes: { ...sizes, failing: 3 } })],
    controller: (id) => (id === 'web' ? controller : undefined),
    queues: () => new Map([['web', queue]]),
  });
  // Without a list it opens on the worst one that has keys.
  const text = await textOf(app, '/dashboard/errors');
  expect([...text.matchAll(/<span class="strong">(\d+)<\/span>/g)].map(([, count]) => Number(count))).toEqual([2, 1]);
  expect(text).toContain('Failing 3</a>');
  expect(text).toContain('Dead letters 0</a>');
  expect(text).not.toContain('Replay all');
  expect(await textOf(app, '/dashboard/errors?list=dead')).toContain('No dead letters.');
  const [, group = ''] = /name="group" value="([^"]*)"/.exec(text) ?? [];
  const post = (fields: Readonly<Record<string, string>>) => app.request('/dashboard/errors/reconcile', form(fields));
  expect((await post({ controller: 'web', group })).status).toBe(303);
  expect(changes).toEqual(['add shop/a shop/b']);
  await post({ controller: 'web', group: 'none' });
  await post({ controller: 'none', group });
  expect(changes).toHaveLength(1);
});

test('of many failing keys none goes before those of events', async () => {
  const failing = Array.from({ length: 101 }, (_, at) => keyStatus(`shop/many-${at}`, { failures: 2 }));
  const changes: string[] = [];
  const queue = queueOf(failing, changes, () => 'no disk');
  const app = served({ controller: () => access(queue), queues: () => new Map([['web', queue]]) });
  const text = await textOf(app, '/dashboard/errors?list=failing');
  const [, group = ''] = /name="group" value="([^"]*)"/.exec(text) ?? [];
  await app.request('/dashboard/errors/reconcile', form({ controller: 'web', group }));
  expect(changes).toEqual([expect.stringMatching(/^add low shop\/many-0 .* shop\/many-100$/)]);
});

test('a time is shown relative to now, with the absolute one beside it', async () => {
  const app = served({ controller: () => access(queueOf([keyStatus('shop/cart')])) });
  const text = await textOf(app, '/dashboard/controllers/web');
  expect(text).toContain(
    '<time datetime="2026-11-23T04:03:36.000Z" title="2026-11-23 04:03:36.000 UTC">1 min 30 s ago</time>',
  );
});
