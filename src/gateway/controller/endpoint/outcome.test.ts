import { createServer, type RequestListener, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { generateSecret, importSecret, LEVELHOOK_HEADER, verify } from '../../../contract/index.ts';
import { importExtractableSecret } from '../../../contract/signature.ts';
import { type Answer, Endpoint } from './endpoint.ts';
import { type Outcome, outcomeDecoders } from './outcome.ts';

const write = { apiVersion: 'v1', kind: 'Pod', namespace: 'a', name: 'b', uid: 'u', resourceVersion: '5' };

function answered(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { kind: 'answered', status, headers, body: text, isStream: false };
}
const ok = (...results: unknown[]): Answer => answered(200, { version: 'v1', results });
const callback = { url: 'https://gateway.example.com/cache/callbacks/web', token: 't', maxSeconds: 600 };
const ours = (rest: Record<string, string> = {}) => ({ [LEVELHOOK_HEADER]: 'v1', ...rest });

const wallMs = Date.UTC(2026, 0, 1);
const decodeOutcomes = (...args: Parameters<typeof outcomeDecoders>): Outcome[] =>
  outcomeDecoders(...args).map((decode) => decode());
const decodeOutcome = (answer: Answer): Outcome | undefined =>
  decodeOutcomes(answer, { requests: 1, callback }, wallMs)[0];

describe('outcomeDecoders of one request', () => {
  it.each<[string, Answer, Outcome]>([
    ['done', ok({ status: 'done' }), { kind: 'done', writes: [] }],
    [
      'done, with writes and a wish',
      ok({ status: 'done', requeueAfterSeconds: 1.5, writes: [write] }),
      { kind: 'done', requeueAfterMs: 1500, writes: [write] },
    ],
    [
      'done, again at once',
      ok({ status: 'done', requeueAfterSeconds: 0 }),
      { kind: 'done', requeueAfterMs: 0, writes: [] },
    ],
    [
      'an error',
      ok({ status: 'error', message: 'm', writes: [write] }),
      { kind: 'error', message: 'm', writes: [write] },
    ],
    [
      'an error with a time',
      ok({ status: 'error', message: 'm', retryAfterSeconds: 2 }),
      { kind: 'error', message: 'm', retryAfterMs: 2000, writes: [] },
    ],
    [
      'an error with a log and a stack',
      ok({ status: 'error', message: 'token=a1b2c3d4e5', log: ['a\u001b[1m', 'b'], stack: 'Error: m\n\tat a\u0007' }),
      {
        kind: 'error',
        message: 'token=[redacted]',
        writes: [],
        notes: { log: ['a [1m', 'b'], stack: 'Error: m\n\tat a\\u0007' },
      },
    ],
    ['terminal', ok({ status: 'terminal', message: 'm' }), { kind: 'terminal', message: 'm', writes: [] }],
    [
      'that the run goes on',
      answered(202, { version: 'v1', results: [{ status: 'accepted', withinSeconds: 60 }] }, ours()),
      { kind: 'accepted', withinMs: 60_000 },
    ],
    [
      'that it goes on for longer than it may',
      answered(202, { version: 'v1', results: [{ status: 'accepted', withinSeconds: 80_000 }] }, ours()),
      { kind: 'accepted', withinMs: 600_000 },
    ],
    [
      'done, by 202',
      answered(202, { version: 'v1', results: [{ status: 'done' }] }, ours()),
      { kind: 'done', writes: [] },
    ],
    ['refused', { kind: 'refused', reason: 'connection', message: 'm' }, { kind: 'refused', message: 'm' }],
    [
      'put off',
      answered(429, '', ours({ 'retry-after': '7' })),
      { kind: 'deferred', message: 'the function answered 429', retryAfterMs: 7000 },
    ],
    [
      'put off by 503',
      answered(503, '', ours()),
      { kind: 'deferred', message: 'the function answered 503', retryAfterMs: 1000 },
    ],
    [
      'put off until a date that has passed',
      answered(429, '', ours({ 'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT' })),
      { kind: 'deferred', message: 'the function answered 429', retryAfterMs: 100 },
    ],
    [
      'put off for longer than an hour',
      answered(503, '', ours({ 'retry-after': 'Wed, 21 Oct 2065 07:28:00 GMT' })),
      { kind: 'deferred', message: 'the function answered 503', retryAfterMs: 3_600_000 },
    ],
    [
      'put off for no time',
      answered(503, '', ours({ 'retry-after': 'x' })),
      { kind: 'deferred', message: 'the function answered 503', retryAfterMs: 1000 },
    ],
    [
      'a wish that is no time',
      ok({ status: 'done', requeueAfterSeconds: -1, writes: [write] }),
      { kind: 'error', message: expect.stringContaining('requeueAfterSeconds') as string, writes: [write] },
    ],
  ])('knows %s', (_what, answer, outcome) => {
    expect(decodeOutcome(answer)).toEqual(outcome);
  });

  it.each<[string, Answer]>([
    ['a failed connection', { kind: 'failed', reason: 'connection', message: 'm' }],
    ['a write without an answer', ok({ status: 'unknown', message: 'm' })],
    ['garbage', answered(200, 'garbage')],
    ['nothing', answered(200, '')],
    ['JSON that is no outcome', answered(200, { ok: true })],
    ['another version', answered(200, { version: 'v2', results: [{ status: 'done' }] })],
    ['no result', ok()],
    ['two results for one request', ok({ status: 'done' }, { status: 'done' })],
    ['a result of no known status', ok({ status: 'fine' })],
    ['a 202 without our header', answered(202, { version: 'v1', results: [{ status: 'accepted', withinSeconds: 9 }] })],
    ['a 200 of a run that goes on', ok({ status: 'accepted', withinSeconds: 9 })],
    ['a run that goes on for no time', answered(202, { version: 'v1', results: [{ status: 'accepted' }] }, ours())],
    ['an empty 202', answered(202, '', ours())],
    ['another 2xx', answered(201, { version: 'v1', results: [{ status: 'done' }] })],
    ['a redirect', answered(301, '', { location: 'http://elsewhere/' })],
    ['a result that is unknown beside another field', ok({ status: 'unknown', message: 'm', writes: [write] })],
    ['a mismatch of versions', answered(400, { error: 'x' }, ours())],
    ['a refused signature', answered(401, { error: 'x' })],
    ['a 404', answered(404, '')],
    ['gone', answered(410, '', ours())],
    ['a body that is too large', answered(413, '')],
    ['a 500', answered(500, '{"version":"v1","results":[{"status":"done"}]}')],
    ['a 502', answered(502, '<html>')],
    ['a 504', answered(504, '')],
    // A proxy in between, which may have passed the trigger on.
    ['a 429 without our header', answered(429, '', { 'retry-after': '7' })],
    ['a 503 without our header', answered(503, '', { 'retry-after': '7' })],
  ])('takes %s for unknown', (_what, answer) => {
    expect(decodeOutcome(answer)).toMatchObject({ kind: 'unknown' });
  });
});

describe('outcomeDecoders of a batch', () => {
  it('gives each request the result at its place', () => {
    const results = [
      { status: 'done', requeueAfterSeconds: 2, writes: [write] },
      { status: 'error', message: 'e', retryAfterSeconds: 1 },
      { status: 'unknown', message: 'u' },
      { status: 'terminal', message: 't' },
    ];
    expect(decodeOutcomes(ok(...results), { requests: 4 }, wallMs)).toEqual([
      { kind: 'done', requeueAfterMs: 2000, writes: [write] },
      { kind: 'error', message: 'e', retryAfterMs: 1000, writes: [] },
      { kind: 'unknown', reason: 'write', message: 'u' },
      { kind: 'terminal', message: 't', writes: [] },
    ]);
  });

  it('may go on for some of them, when the trigger named a callback', () => {
    const results = [{ status: 'accepted', withinSeconds: 5 }, { status: 'done' }];
    const answer = answered(202, { version: 'v1', results }, ours());
    const done = { kind: 'done', writes: [] };
    expect(decodeOutcomes(answer, { requests: 2, callback }, wallMs)).toEqual([
      { kind: 'accepted', withinMs: 5000 },
      done,
    ]);
    const message = 'the function goes on, without an answer of 202 or without a callback';
    expect(decodeOutcomes(answer, { requests: 2 }, wallMs)).toEqual([
      { kind: 'unknown', reason: 'body', message },
      done,
    ]);
  });

  it('does not blame the others for a result that cannot be read', () => {
    const message = expect.stringMatching(/^the answer is not an outcome: results\.1\.status: /) as string;
    expect(
      decodeOutcomes(ok({ status: 'done' }, { status: 'fine' }, { status: 'done' }), { requests: 3 }, wallMs),
    ).toEqual([
      { kind: 'done', writes: [] },
      { kind: 'unknown', reason: 'body', message },
      { kind: 'done', writes: [] },
    ]);
  });

  it.each([0, 1, 2, 4, 50])('takes %i results for three requests as unknown', (count) => {
    const results = Array.from({ length: count }, () => ({ status: 'done' }));
    const message = `the answer is not an outcome: results: ${count} for 3 requests`;
    const unknown = { kind: 'unknown', reason: 'body', message };
    expect(decodeOutcomes(ok(...results), { requests: 3 }, wallMs)).toEqual([unknown, unknown, unknown]);
  });

  it.each<[string, Answer]>([
    ['the connection was refused', { kind: 'refused', reason: 'refused', message: 'm' }],
    ['no answer came', { kind: 'failed', reason: 'timeout', message: 'm' }],
    ['put off', answered(503, '', ours())],
    ['gone', answered(410, '', ours())],
    ['another status', answered(500, '')],
    ['garbage', answered(200, 'garbage')],
  ])('is the same for all: %s', (_what, answer) => {
    const one = decodeOutcome(answer);
    expect(decodeOutcomes(answer, { requests: 3 }, wallMs)).toEqual([one, one, one]);
  });
});

describe('an unknown outcome', () => {
  it.each<[string, Answer, object]>([
    ['a redirect', answered(301, ''), { reason: 'status', message: 'the function answered 301' }],
    ['gone', answered(410, '', ours()), { reason: 'gone', message: 'the function answered 410' }],
    ["a proxy's 410", answered(410, ''), { reason: 'status' }],
    [
      'what the SDK refuses, and why',
      answered(401, { error: 'the message is too old' }, ours()),
      { reason: 'status', message: 'the function answered 401: the message is too old' },
    ],
    [
      "a stranger's page, unread",
      answered(401, { error: 'token=abc' }),
      { reason: 'status', message: 'the function answered 401' },
    ],
    ['garbage', answered(200, '<html>'), { reason: 'body' }],
    ['a write without an answer', ok({ status: 'unknown', message: 'm' }), { reason: 'write', message: 'm' }],
    ['a timeout', { kind: 'failed', reason: 'timeout', message: 'm' }, { reason: 'timeout', message: 'm' }],
  ])('says why: %s', (_what, answer, expected) => {
    expect(decodeOutcome(answer)).toMatchObject({ kind: 'unknown', ...expected });
  });
});

describe('an Endpoint', () => {
  let server: Server | undefined;
  let endpoint: Endpoint | undefined;
  const secret = generateSecret();

  afterEach(async () => {
    await endpoint?.close();
    server?.closeAllConnections();
    server?.close();
    server = undefined;
    endpoint = undefined;
  });

  async function serve(listener: RequestListener, path = '/'): Promise<Endpoint> {
    server = createServer(listener);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    endpoint = new Endpoint(`http://127.0.0.1:${port}${path}`, [await importExtractableSecret(secret)], {
      connections: 4,
    });
    return endpoint;
  }
  const send = (to: Endpoint, timeoutMs = 5000) => to.send({ body: '{"ä":1}', id: 'msg', timeoutMs });

  it('sends a signed body to its path, and gives what was answered', async () => {
    const got: { path?: string | undefined; headers: Headers; body: string }[] = [];
    const to = await serve((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
      request.on('end', () => {
        got.push({ path: request.url, headers: new Headers(request.headers as Record<string, string>), body });
        response.writeHead(200, { [LEVELHOOK_HEADER]: 'v1' }).end('{"a":1}');
      });
    }, '/some/function');
    const answer = await send(to);
    expect(answer).toMatchObject({
      kind: 'answered',
      status: 200,
      body: '{"a":1}',
      headers: { [LEVELHOOK_HEADER]: 'v1' },
    });
    const [request] = got;
    if (!request) throw new Error('nothing came');
    expect(request).toMatchObject({ path: '/some/function', body: '{"ä":1}' });
    await verify([await importSecret(secret)], { headers: request.headers, nowMs: Date.now(), body: request.body });
  });

  it('follows no redirect', async () => {
    let asked = 0;
    const to = await serve((_request, response) => {
      asked += 1;
      response.writeHead(301, { location: '/elsewhere' }).end();
    });
    expect(await send(to)).toMatchObject({ kind: 'answered', status: 301 });
    expect(asked).toBe(1);
  });

  it.each<[string, RequestListener, string]>([
    ['cut before the answer', (request) => request.socket.destroy(), 'unknown'],
    [
      'cut in the middle of the answer',
      (request, response) => {
        response.writeHead(200, { 'content-length': '1000' }).write('{"version"');
        setTimeout(() => request.socket.destroy(), 20);
      },
      'unknown',
    ],
    ['no answer before the deadline', () => {}, 'unknown'],
    [
      'half an answer before the deadline',
      (_request, response) => {
        response.writeHead(200).write('{"version"');
      },
      'unknown',
    ],
    ['an answer that is too large', (_request, response) => void response.end('x'.repeat(1_100_000)), 'unknown'],
  ])('takes %s for unknown', async (_what, listener, kind) => {
    // Without a connection by then it would be refused.
    const answer = await send(await serve(listener), 2000);
    expect(answer.kind).toBe('failed');
    expect(decodeOutcome(answer)?.kind).toBe(kind);
  });

  it('says that the deadline has passed', async () => {
    // Without a connection by then it would be refused.
    expect(await send(await serve(() => {}), 1000)).toEqual({
      kind: 'failed',
      reason: 'timeout',
      message: 'no answer before the deadline',
    });
  });

  it('knows when a connection is refused, by address and by name', async () => {
    const gone = await serve(() => {});
    const { port } = new URL(gone.url);
    server?.close();
    await once(server as Server, 'close');
    expect(await send(gone)).toMatchObject({ kind: 'refused' });
    const byName = new Endpoint(`http://localhost:${port}/`, [await importExtractableSecret(secret)], {
      connections: 1,
    });
    expect(await send(byName)).toMatchObject({ kind: 'refused' });
    await byName.close();
  });

  it('goes on after any of these', async () => {
    let count = 0;
    const to = await serve((request, response) => {
      count += 1;
      if (count % 2 === 1) request.socket.destroy();
      else response.end('fine');
    });
    for (let at = 0; at < 6; at += 1) expect((await send(to)).kind).toBe(at % 2 === 0 ? 'failed' : 'answered');
  });
});

describe('the notes of a run', () => {
  const notesOf = (result: object) => {
    const outcome = decodeOutcome(ok({ status: 'error', message: 'm', ...result }));
    return outcome && 'notes' in outcome ? outcome.notes : undefined;
  };

  it('are the last lines and the beginning of the stack, whatever their length', () => {
    const log = Array.from({ length: 100 }, (_, at) => `line ${at}`);
    expect(notesOf({ log, stack: 's'.repeat(900_000) })).toEqual({ log: log.slice(60), stack: 's'.repeat(1024) });
    expect(notesOf({ log: ['y'.repeat(900_000)] })).toEqual({ log: [`${'y'.repeat(511)}…`] });
  });

  it('are printable and without credentials, and what is left out of a line makes no room for another', () => {
    const line = `token:${'://'.repeat(1000)}`;
    const log = Array.from({ length: 40 }, (_, at) => (at === 0 ? 'first' : line));
    expect(notesOf({ log })).toEqual({ log: Array.from({ length: 4 }, () => 'token:[redacted]…') });
    const stack = 'Error: password=hunter2\n    at a\u001b[1m';
    expect(notesOf({ log: ['Bearer abcdefgh12345 \u0007x'], stack })).toEqual({
      log: ['Bearer [redacted]  x'],
      stack: 'Error: password=[redacted]\n    at a\\u001b[1m',
    });
  });

  it.each([0, 100, 500, 510, 1000, 1020])('have no part of a credential that is cut off: at %i', (before) => {
    const secret = `eyJhbGciOiJSUzI1NiJ9.${'a'.repeat(900)}.${'b'.repeat(300)}`;
    const { log = [], stack = '' } =
      notesOf({ log: [`${'x'.repeat(before)} ${secret}`], stack: `a\n${'x'.repeat(before)} ${secret}` }) ?? {};
    expect(`${log.join()} ${stack}`).not.toContain('aaaa');
    expect(stack).toMatch(/^a\n/);
  });

  it('have nothing of the characters that tell whether a credential is cut off, however much redaction shortens', () => {
    const line = `password=${'p'.repeat(400)} `.padEnd(800, 'x');
    const { log = [], stack = '' } =
      notesOf({ log: [`${line} Bearer abcdefghijkl`], stack: `a\n${line}${line.slice(0, 510)} Bearer abcdefghijkl` }) ??
      {};
    expect(`${log.join()} ${stack}`).not.toMatch(/abc/);
    expect(log[0]).toMatch(/^password=\[redacted\] x+…$/);
  });

  it('are absent where the function reported none', () => {
    expect(notesOf({})).toBeUndefined();
    expect(notesOf({ log: [], stack: '' })).toBeUndefined();
  });
});
