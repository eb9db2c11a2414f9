import { Hono } from 'hono';
import { beforeEach, describe, expect, it } from 'vitest';
import { type LogFields, silentLogger } from '../../../core/index.ts';
import { LoginUnavailableError } from './identity.ts';
import { type LoginBackend, LoginGuard } from './login.ts';
import type { Listening } from './request.ts';
import { csrfTokenOf } from './sessions.ts';
import { StaticTokens } from './static-tokens.ts';
import { audit, type LoginEnv } from './visitor.ts';

const READER = 'token-of-a-reader';
const OPERATOR = 'token-of-an-operator';
const HTML = { accept: 'text/html' };
const SAME = { 'sec-fetch-site': 'same-origin' };
const JSON_BODY = { body: '{}', headers: { 'content-type': 'application/json' } };

let log: LogFields[];
let auditLog: LogFields[];
/** Changes that were let through. */
let changes: string[];
let sessions: Map<string, string>;
let backend: LoginBackend | undefined;
/** Of the client. */
let address: string;

beforeEach(() => {
  address = '127.0.0.1';
  log = [];
  auditLog = [];
  changes = [];
  sessions = new Map();
  backend = {
    identities: [
      new StaticTokens([
        { name: 'ann', right: 'read', token: READER },
        { name: 'ops', right: 'change', token: OPERATOR },
      ]),
    ],
    sessions: {
      start: async (user, token) => {
        const cookie = `cookie-${user.replaceAll(/\W/g, '-')}-${sessions.size}`;
        sessions.set(cookie, token);
        return cookie;
      },
      tokenOf: async (cookie) => sessions.get(cookie),
      end: async (cookie) => void sessions.delete(cookie),
    },
  };
});

function serve(listening: Partial<Listening> = {}): Hono<LoginEnv> {
  const login = new LoginGuard({
    listening: { host: '0.0.0.0', https: true, ...listening },
    backend: () => backend,
    home: '/dashboard',
    logger: { ...silentLogger, info: (fields) => log.push(fields) },
    auditLog: { info: (fields) => auditLog.push(fields) },
  });
  const app = new Hono<LoginEnv>();
  app.use(async (context, next) => {
    Object.assign(context, { env: { incoming: { socket: { remoteAddress: address } } } });
    await next();
  });
  app.onError((error, context) => context.text(String(error), 500));
  app.route('/', login.routes());
  app.use('/dashboard/*', login.guard());
  app.get('/dashboard/*', async ({ var: { visitor }, ...context }) =>
    Response.json({
      name: visitor.name,
      mayChange: await visitor.mayChange(),
      csrfToken: visitor.csrfToken,
      canLogOut: visitor.canLogOut,
      recheck: await visitor.recheck(),
      context: typeof context,
    }),
  );
  app.all('/dashboard/change', async (context) => {
    changes.push(context.var.visitor.name);
    const form = context.req.header('content-type')?.startsWith('application/json')
      ? {}
      : await context.req.parseBody();
    audit(context, { action: 'test', controller: 'web' });
    audit(context, { count: 3 });
    return context.json(form, form['fail'] ? 409 : 200);
  });
  return app;
}

const LOCAL = { host: '127.0.0.1', https: false };
const at = (host: string, more: object = {}): Record<string, string> => ({ host, ...more });
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const form = (fields: Record<string, string>, headers: Record<string, string> = {}) => ({
  method: 'POST',
  body: new URLSearchParams(fields).toString(),
  headers: { 'content-type': 'application/x-www-form-urlencoded', host: 'gateway', ...HTML, ...headers },
});
async function seen(app: Hono<LoginEnv>, headers: Record<string, string>): Promise<Record<string, unknown>> {
  return (await (await app.request('/dashboard', { headers })).json()) as Record<string, unknown>;
}
/** Logs in as a browser does. @returns the Cookie header. */
async function logIn(app: Hono<LoginEnv>, token: string, headers: Record<string, string> = SAME): Promise<string> {
  const answer = await app.request('/login', form({ token, to: '/dashboard' }, headers));
  expect(answer.status).toBe(303);
  return answer.headers.get('set-cookie')?.split(';')[0] ?? '';
}

/** A body in chunks of 1 KiB. It counts the chunks that the server reads. */
function countedBody(kibibytes: number): { readonly body: ReadableStream; readonly read: () => number } {
  let read = 0;
  const pull = (controller: ReadableStreamDefaultController): void => {
    if (read === kibibytes) return controller.close();
    read += 1;
    controller.enqueue(new TextEncoder().encode('x'.repeat(1024)));
  };
  return { body: new ReadableStream({ pull }, { highWaterMark: 0 }), read: () => read };
}

/** Sends a change or a form in chunks. @returns the status, and how many KiB of it were read. */
async function sendChunks(
  app: Hono<LoginEnv>,
  path: string,
  headers: Record<string, string>,
  kibibytes = 64,
): Promise<[number, number]> {
  const { body, read } = countedBody(kibibytes);
  const type = { 'content-type': 'application/x-www-form-urlencoded', ...at('gateway') };
  const sent = { method: 'POST', body, headers: { ...type, ...headers }, duplex: 'half' };
  const { status } = await app.request(path, sent as RequestInit);
  return [status, read()];
}

describe('the body of a stranger', () => {
  it.each([
    ['without credentials', {}, 401],
    ['with a wrong token', bearer('wrong'), 401],
    ['with the cookie of no session', { cookie: '__Host-levelhook-session=x' }, 401],
    ['without the right', bearer(READER), 403],
  ])('is not read: a change %s', async (_what, headers, status) => {
    expect(await sendChunks(serve(), '/dashboard/change', headers)).toEqual([status, 0]);
  });

  it('is not read: a change by a page elsewhere', async () => {
    const sent = { ...at('localhost'), 'sec-fetch-site': 'cross-site' };
    expect(await sendChunks(serve(LOCAL), '/dashboard/change', sent)).toEqual([403, 0]);
  });

  it.each([
    ['of parts', { 'content-type': 'multipart/form-data; boundary=x' }, 401],
    ['of a page elsewhere', { 'sec-fetch-site': 'cross-site' }, 403],
  ])('is not read: a login %s', async (_what, headers, status) => {
    expect(await sendChunks(serve(), '/login', { ...SAME, ...headers })).toEqual([status, 0]);
  });

  it('is not read: a logout with the cookie of no session', async () => {
    const headers = { ...SAME, cookie: '__Host-levelhook-session=x' };
    expect(await sendChunks(serve(), '/logout', headers)).toEqual([303, 0]);
  });

  it('is read up to 20 KiB as a login', async () => {
    expect(await sendChunks(serve(), '/login', SAME, 20)).toEqual([401, 20]);
    expect(await sendChunks(serve(), '/login', SAME)).toEqual([413, 21]);
  });

  it('has a bounded number of fields as a login', async () => {
    const sent = (count: number) => ({ ...form({}, SAME), body: `token=${READER}${'&x=y'.repeat(count)}` });
    expect((await serve().request('/login', sent(15))).status).toBe(303);
    expect((await serve().request('/login', sent(16))).status).toBe(413);
  });

  it('is parsed as a login in turn with those of other addresses', async () => {
    const parsed: string[] = [];
    const identify = async (_: string, { name }: { readonly name: string }): Promise<undefined> => {
      parsed.push(name);
    };
    backend = backend && { ...backend, identities: [{ identify }] };
    const app = serve();
    const send = (from: string): Response | Promise<Response> => {
      address = from;
      return app.request('/login', form({ token: 'wrong' }, SAME));
    };
    const many = Array.from({ length: 100 }, () => send('10.0.0.1'));
    await Promise.all([...many, send('10.0.0.2')]);
    expect(parsed).toHaveLength(101);
    expect(parsed.indexOf('10.0.0.2')).toBeLessThan(50);
  });
});

it('a change with the right and its proof may have parts', async () => {
  const app = serve();
  const cookie = await logIn(app, OPERATOR);
  const { csrfToken } = (await seen(app, { ...at('gateway'), cookie })) as { csrfToken: string };
  const body = new FormData();
  body.set('csrf', csrfToken);
  const sent = { method: 'POST', body, headers: { ...at('gateway'), ...SAME, cookie } };
  expect((await app.request('/dashboard/change', sent)).status).toBe(200);
  expect(changes).toEqual(['ops']);
});

describe('on loopback', () => {
  it('asks for no login, and a page shows its buttons', async () => {
    expect(await seen(serve(LOCAL), at('localhost:8787'))).toMatchObject({
      name: 'local',
      mayChange: true,
      csrfToken: expect.any(String) as string,
      canLogOut: false,
      recheck: true,
    });
  });

  it('takes a change from a program as JSON, and from its own pages with their token', async () => {
    const app = serve(LOCAL);
    const host = at('127.0.0.1:8787');
    const { csrfToken } = (await seen(app, host)) as { csrfToken: string };
    const sent = [
      { method: 'POST', ...JSON_BODY, headers: { ...JSON_BODY.headers, ...host } },
      { method: 'POST', ...JSON_BODY, headers: { ...JSON_BODY.headers, ...host, ...SAME } },
      form({ csrf: csrfToken }, { ...host, ...SAME }),
      form({ csrf: csrfToken }, { ...host, origin: 'http://127.0.0.1:8787' }),
      { method: 'DELETE', headers: { ...host, ...SAME, 'x-csrf-token': csrfToken } },
    ];
    for (const each of sent) expect((await app.request('/dashboard/change', each)).status).toBe(200);
    expect(changes).toHaveLength(sent.length);
  });

  it.each([
    ['a form elsewhere', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
    ['a form at another port', { 'sec-fetch-site': 'same-site', origin: 'http://127.0.0.1:3000' }],
    ['a form elsewhere in a browser without Sec-Fetch-Site', { origin: 'https://evil.example' }],
    ['a form in a sandbox', { origin: 'null' }],
  ])('refuses %s, even with the right token', async (_what, headers) => {
    const app = serve(LOCAL);
    const host = at('127.0.0.1:8787');
    const { csrfToken } = (await seen(app, host)) as { csrfToken: string };
    const sent = form({ csrf: csrfToken }, { ...host, ...headers });
    expect((await app.request('/dashboard/change', sent)).status).toBe(403);
    const json = { method: 'POST', body: '{}', headers: { 'content-type': 'application/json', ...host, ...headers } };
    expect((await app.request('/dashboard/change', json)).status).toBe(403);
    expect(changes).toEqual([]);
  });

  it('refuses a form without a token, with a wrong one, or with that of an earlier process', async () => {
    const host = at('127.0.0.1:8787');
    const { csrfToken } = (await seen(serve(LOCAL), host)) as { csrfToken: string };
    const app = serve(LOCAL);
    const sent = [{}, { csrf: '' }, { csrf: 'x' }, { csrf: csrfToken }].map((fields) =>
      form(fields as Record<string, string>, { ...host, ...SAME }),
    );
    sent.push({ ...form({}), body: 'csrf=x', headers: { ...host, ...SAME, 'content-type': 'text/plain' } as never });
    for (const each of sent) expect((await app.request('/dashboard/change', each)).status).toBe(403);
    expect(changes).toEqual([]);
    expect(auditLog).toHaveLength(sent.length);
    expect(auditLog[0]).toMatchObject({ user: 'local', from: 'loopback', result: 'refused: no proof of its origin' });
  });

  it.each([at('gateway.example.com'), at('localhost', { 'x-forwarded-for': '10.0.0.1' })])(
    'asks for a login at %j',
    async (headers) => {
      expect((await serve(LOCAL).request('/dashboard', { headers })).status).toBe(401);
    },
  );
});

describe('a bearer token', () => {
  const host = at('gateway');

  it('may read, or read and change, without further proof', async () => {
    const app = serve();
    expect(await seen(app, { ...host, ...bearer(READER) })).toMatchObject({
      name: 'ann',
      mayChange: false,
      canLogOut: false,
    });
    expect(await seen(app, { ...host, ...bearer(OPERATOR) })).toMatchObject({ name: 'ops', mayChange: true });
    const change = (token: string) =>
      app.request('/dashboard/change', { method: 'POST', headers: { ...host, ...bearer(token) } });
    expect((await change(READER)).status).toBe(403);
    expect(changes).toEqual([]);
    expect((await change(OPERATOR)).status).toBe(200);
    expect(changes).toEqual(['ops']);
  });

  it('gives each change a line that says who, what and with which result', async () => {
    const app = serve();
    const send = (fields: Record<string, string>, token: string) =>
      app.request('/dashboard/change', form(fields, bearer(token)));
    await send({}, OPERATOR);
    await send({ fail: 'yes' }, OPERATOR);
    await send({}, READER);
    const what = { audit: true, method: 'POST', path: '/dashboard/change' };
    const done = { user: 'ops', from: 'static token', action: 'test', controller: 'web', count: 3 };
    expect(auditLog).toEqual([
      { ...what, ...done, status: 200, result: 'done' },
      { ...what, ...done, status: 409, result: 'failed' },
      { ...what, user: 'ann', from: 'static token', result: 'refused: no right' },
    ]);
  });

  it('gives a few lines for many changes that its owner has no right to, and one for each of another', async () => {
    const app = serve();
    const send = (token: string) => app.request('/dashboard/change', form({}, bearer(token)));
    for (let at = 0; at < 200; at += 1) await send(READER);
    await send(OPERATOR);
    const anns = auditLog.filter(({ user }) => user === 'ann');
    expect(anns.length).toBeGreaterThan(0);
    expect(anns.length).toBeLessThan(100);
    expect(auditLog.at(-1)).toMatchObject({ user: 'ops', result: 'done' });
  });

  it.each(['', 'Bearer', 'Bearer wrong', `Basic ${READER}`, `Bearer ${READER}x`, `Bearer ${READER} x`])(
    'is refused as "%s"',
    async (authorization) => {
      const answer = await serve().request('/dashboard', { headers: { ...host, authorization } });
      expect(answer.status).toBe(401);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      expect(await answer.json()).toEqual({ error: 'the bearer token is missing, wrong or no longer valid' });
    },
  );

  it('gets 503 while it cannot be checked', async () => {
    backend = undefined;
    const answer = await serve().request('/dashboard', { headers: { ...host, ...bearer(READER) } });
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
  });

  it('cannot send a body without end', async () => {
    const sent = { method: 'POST', body: 'x'.repeat(70_000), headers: { ...host, ...bearer(OPERATOR) } };
    expect((await serve().request('/dashboard/change', sent)).status).toBe(413);
    expect(changes).toEqual([]);
  });
});

describe('a session', () => {
  it('begins with a token in the form, and keeps it out of the browser', async () => {
    const app = serve();
    const page = await app.request('/dashboard?filter=x', { headers: { ...at('gateway'), ...HTML } });
    expect(page.status).toBe(401);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await page.text()).toContain('name="to" value="/dashboard?filter=x"');
    const answer = await app.request('/login', form({ token: ` ${READER}\n`, to: '/dashboard?filter=x' }, SAME));
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/dashboard?filter=x']);
    const cookie = answer.headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(
      /^__Host-levelhook-session=[^;]+; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
    );
    expect(cookie).not.toContain(READER);
    const headers = { ...at('gateway'), cookie: cookie.split(';')[0] ?? '' };
    expect(await seen(app, headers)).toMatchObject({ name: 'ann', canLogOut: true, mayChange: false });
    expect(JSON.stringify([log, auditLog])).not.toContain(READER);
    expect(auditLog).toMatchObject([{ user: 'ann', action: 'login', result: 'done' }]);
  });

  it('has a cookie without Secure at http on localhost, and none at plain http elsewhere', async () => {
    const app = serve({ https: false });
    const answer = await app.request('/login', form({ token: READER }, { ...at('localhost:8787'), ...SAME }));
    expect(answer.headers.get('set-cookie')).toMatch(
      /^levelhook-session=[^;]+; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
    );
    const elsewhere = await app.request('/dashboard', { headers: { ...at('gateway'), ...HTML } });
    expect(await elsewhere.text()).not.toContain('name="token"');
    const sent = form({ token: READER }, { origin: 'http://gateway' });
    expect((await app.request('/login', sent)).status).toBe(403);
    expect(sessions.size).toBe(1);
  });

  it.each([
    ['from a page elsewhere', { token: OPERATOR }, { 'sec-fetch-site': 'cross-site' }, 403],
    ['from no page', { token: OPERATOR }, {}, 403],
    ['with a wrong token', { token: 'wrong' }, SAME, 401],
    ['with a token that is no line', { token: `${OPERATOR}\r\nx: y` }, SAME, 401],
    ['without a token', {}, SAME, 401],
  ])('does not begin %s', async (_what, fields, headers, status) => {
    const answer = await serve().request('/login', form(fields, headers));
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([status, null]);
    expect(sessions.size).toBe(0);
  });

  it('leads to no other site after the login', async () => {
    for (const to of ['https://evil.example', '//evil.example', '/\\evil.example']) {
      const answer = await serve().request('/login', form({ token: READER, to }, SAME));
      expect(answer.headers.get('location')).toBe('/dashboard');
    }
  });

  it('changes with the token of its own pages, and not with that of another session', async () => {
    const app = serve();
    const [cookie, other] = [await logIn(app, OPERATOR), await logIn(app, OPERATOR)];
    const { csrfToken } = (await seen(app, { ...at('gateway'), cookie })) as { csrfToken: string };
    const { csrfToken: others } = (await seen(app, { ...at('gateway'), cookie: other })) as { csrfToken: string };
    for (const csrf of [others, '', 'x']) {
      expect((await app.request('/dashboard/change', form({ csrf }, { ...SAME, cookie }))).status).toBe(403);
    }
    const elsewhere = { 'sec-fetch-site': 'cross-site', cookie };
    expect((await app.request('/dashboard/change', form({ csrf: csrfToken }, elsewhere))).status).toBe(403);
    expect(changes).toEqual([]);
    const done = await app.request('/dashboard/change', form({ csrf: csrfToken, x: 'y' }, { ...SAME, cookie }));
    // The form was read for its token, and its handler reads it again.
    expect(await done.json()).toEqual({ csrf: csrfToken, x: 'y' });
    expect(changes).toEqual(['ops']);
  });

  it('that has ended shows the login page, and changes nothing', async () => {
    const app = serve();
    const cookie = await logIn(app, OPERATOR);
    const { csrfToken } = (await seen(app, { ...at('gateway'), cookie })) as { csrfToken: string };
    sessions.clear();
    const answer = await app.request('/dashboard/change', form({ csrf: csrfToken }, { ...SAME, cookie }));
    expect(answer.status).toBe(401);
    expect(await answer.text()).toContain('nothing was changed');
    expect(changes).toEqual([]);
  });

  it('ends with its token', async () => {
    const app = serve();
    const cookie = await logIn(app, OPERATOR);
    backend = backend && { ...backend, identities: [new StaticTokens([])] };
    expect((await app.request('/dashboard', { headers: { ...at('gateway'), cookie } })).status).toBe(401);
  });

  it('ends by logout, from its own pages only', async () => {
    const app = serve();
    const cookie = await logIn(app, READER);
    const secret = cookie.slice(cookie.indexOf('=') + 1);
    expect((await app.request('/logout', form({}, { ...SAME, cookie }))).status).toBe(403);
    const elsewhere = { 'sec-fetch-site': 'cross-site', cookie };
    expect((await app.request('/logout', form({ csrf: csrfTokenOf(secret) }, elsewhere))).status).toBe(403);
    expect(sessions.size).toBe(1);
    const answer = await app.request('/logout', form({ csrf: csrfTokenOf(secret) }, { ...SAME, cookie }));
    expect(answer.status).toBe(303);
    expect(answer.headers.get('set-cookie')).toMatch(/^__Host-levelhook-session=; Max-Age=0; Path=\/; Secure/);
    expect(sessions.size).toBe(0);
  });

  it('begins only for those who may use the dashboard, whatever else each pod may get', async () => {
    const may = async (_: string, path: string): Promise<boolean> => path === '/version' || path === '/queuesx';
    const pod = { name: 'system:serviceaccount:a:b', client: 'a', from: 'kubernetes', may } as const;
    backend = backend && {
      ...backend,
      identities: [{ identify: async () => ({ ...pod, mayRead: async () => false }) }],
    };
    for (const to of ['/version', '/queues', '/queuesx', '/dashboard', '/dashboardx']) {
      expect((await serve().request('/login', form({ token: OPERATOR, to }, SAME))).status, to).toBe(403);
    }
    expect(sessions.size).toBe(0);
  });

  it('of a reader who follows a link from another site is found by way of the login', async () => {
    const app = serve();
    const cookie = await logIn(app, READER);
    const link = { ...at('gateway'), ...HTML, 'sec-fetch-site': 'cross-site' };
    const onward = await app.request('/dashboard/keys?x=1', { headers: link });
    expect(await onward.text()).toContain('content="0;url=/login?to=%2Fdashboard%2Fkeys%3Fx%3D1"');
    const answer = await app.request('/login?to=%2Fdashboard%2Fkeys%3Fx%3D1', {
      headers: { ...at('gateway'), ...HTML, ...SAME, cookie },
    });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/dashboard/keys?x=1']);
  });

  it('gets 503, and is not forgotten, while it cannot be looked up', async () => {
    const app = serve();
    const cookie = await logIn(app, READER);
    const away = () => Promise.reject(new LoginUnavailableError('Redis is away'));
    backend = backend && { ...backend, sessions: { ...backend.sessions, tokenOf: away } };
    const answer = await app.request('/dashboard', { headers: { ...at('gateway'), ...HTML, cookie } });
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([503, null]);
    expect((await app.request('/login', { headers: { ...at('gateway'), cookie } })).status).toBe(503);
  });
});

it('the login shows hostile names and paths as text, and bounds them in the audit log', async () => {
  const name = `<script>alert(1)</script>\n${'x'.repeat(5000)}`;
  backend = backend && {
    ...backend,
    identities: [
      {
        identify: async () => {
          return { name, client: name, from: 'kubernetes', may: async () => false, mayRead: async () => false };
        },
      },
    ],
  };
  const app = serve();
  const refused = await app.request('/login', form({ token: OPERATOR, to: '/dashboard/<script>' }, SAME));
  expect(refused.status).toBe(403);
  expect(await refused.text()).not.toContain('<script');
  await app.request(`/dashboard/${'y'.repeat(5000)}`, {
    method: 'POST',
    headers: { ...at('gateway'), ...bearer('x') },
  });
  const [line] = auditLog;
  expect(String(line?.['user'])).toHaveLength(256);
  expect(String(line?.['path'])).toHaveLength(512);
  expect(String(line?.['user'])).not.toContain('\n');
});

it.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE-X', 'PROPFIND'])('%s is a change', async (method) => {
  const headers = { ...at('gateway'), ...bearer(READER) };
  const sent = new Request('http://gateway/dashboard/change', { method, headers });
  expect((await serve().request(sent)).status).toBe(403);
  expect(changes).toEqual([]);
});
