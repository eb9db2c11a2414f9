import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { afterEach, describe, expect, it } from 'vitest';
import {
  generateSecret,
  importSecret,
  LEVELHOOK_HEADER,
  RESULT_STREAM,
  sign,
  type Trigger,
} from '../../contract/index.ts';
import { resource, silentLogger } from '../../core/index.ts';
import { controller, type Reconcile } from '../controller.ts';
import { createFunctionApp, type FunctionApp } from '../function-app.ts';
import { validatingWebhook } from '../webhooks/index.ts';
import { createTriggerServer } from './trigger-server.ts';

const secret = generateSecret();
const callback = { url: 'https://gateway.example.com/cache/callbacks/web', token: 't', maxSeconds: 600 };
const servers: Server[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
});

function appOf(run: Reconcile): FunctionApp {
  const web = controller({ name: 'web', for: resource('v1', 'Pod'), concurrency: 20 }).reconcile(run);
  return createFunctionApp(web, {
    secrets: [secret],
    cache: () => ({
      get: async () => undefined,
      list: async () => ({ items: [], version: '1' }),
      secondsUnchanged: async () => undefined,
    }),
    api: async () => ({ status: 500, body: '' }),
    logger: silentLogger,
  });
}

interface Received {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** In the order of arrival. */
  readonly chunks: AsyncIterableIterator<Buffer>;
  readonly hangUp: () => void;
}

interface Sending {
  readonly accept?: string;
  readonly method?: string;
  readonly path?: string;
  readonly secret?: string;
}

/** Servers of the same app: over web requests, and over Node's own. */
describe.each<[string, (app: FunctionApp) => Server]>([
  ['Hono', (app) => createAdaptorServer({ fetch: app.fetch }) as Server],
  ['Node', (app) => createTriggerServer(app)],
])('a trigger over %s', (kind, serverOf) => {
  async function post(run: Reconcile, body: unknown, sending: Sending = {}): Promise<Received> {
    const server = serverOf(appOf(run));
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const keys = [await importSecret(sending.secret ?? secret)];
    const { accept = `${RESULT_STREAM}, application/json`, method = 'POST', path = '/' } = sending;
    const signed = await sign(keys, { id: crypto.randomUUID(), nowMs: Date.now(), body: text });
    const { port } = server.address() as AddressInfo;
    const sent = httpRequest({ port, host: '127.0.0.1', method, path, headers: { ...signed, accept } });
    const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
    // The caller may hang up, or the server may refuse the rest of a large body.
    sent.on('error', () => {});
    sent.end(text);
    const [answer] = await answered;
    answer.on('error', () => {});
    return {
      status: answer.statusCode ?? 0,
      headers: answer.headers,
      chunks: answer[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>,
      hangUp: () => sent.destroy(),
    };
  }
  const triggerOf = (names: readonly string[], rest: Partial<Trigger> = {}): Trigger => ({
    version: 'v1',
    controller: 'web',
    deadline: new Date(Date.now() + 15_000).toISOString(),
    remainingSeconds: 15,
    cache: { views: {} },
    requests: names.map((name, at) => ({ namespace: 'a', name, attempt: 1, run: 10 + at, reasons: [] })),
    ...rest,
  });
  const next = async ({ chunks }: Received): Promise<string> => {
    const { value, done } = await chunks.next();
    return done ? '' : value.toString();
  };
  const rest = async (received: Received): Promise<string[]> => {
    const found: string[] = [];
    for (let chunk = await next(received); chunk !== ''; chunk = await next(received)) found.push(chunk);
    return found;
  };
  const linesIn = (text: string): unknown[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as unknown);
  const line = (run: number, result: object): object => ({ run, result });
  const done = { status: 'done', writes: [] };

  it('of several keys is answered line by line: a slow key delays no other', async () => {
    const gates = { slow: Promise.withResolvers<void>(), slower: Promise.withResolvers<void>() };
    const received = await post(
      async ({ name }) => {
        if (name === 'fails') throw new Error('broken');
        await gates[name as keyof typeof gates]?.promise;
      },
      triggerOf(['slower', 'fast', 'slow', 'fails']),
    );
    expect(received.status).toBe(200);
    expect(received.headers).toMatchObject({ 'content-type': RESULT_STREAM, [LEVELHOOK_HEADER]: 'v1' });
    // Both come in one chunk, in either order.
    const first = linesIn(await next(received));
    expect(first).toHaveLength(2);
    expect(first).toContainEqual(line(11, done));
    const stack = expect.stringMatching(/^Error: broken\n/) as string;
    expect(first).toContainEqual(line(13, { status: 'error', message: 'broken', writes: [], stack }));
    gates.slow.resolve();
    expect(linesIn(await next(received))).toEqual([line(12, done)]);
    gates.slower.resolve();
    expect(linesIn((await rest(received)).join(''))).toEqual([line(10, done)]);
  });

  it('whose runs end at the same time is answered in one chunk', async () => {
    const names = Array.from({ length: 10 }, (_, at) => `n${at}`);
    const received = await post(async () => {}, triggerOf(names));
    const chunks = await rest(received);
    expect(chunks).toHaveLength(1);
    expect(linesIn(chunks.join(''))).toEqual(names.map((_, at) => line(10 + at, done)));
    if (kind === 'Node') expect(received.headers['content-length']).toBe(String(chunks[0]?.length));
  });

  it.each([
    ['one key', ['a'], { accept: `${RESULT_STREAM}, application/json` }],
    ['several keys of a gateway that does not ask for lines', ['a', 'b'], { accept: 'application/json' }],
  ])('of %s is answered whole', async (_what, names, sending) => {
    const received = await post(async () => {}, triggerOf(names), sending);
    expect(received.headers).toMatchObject({ 'content-type': 'application/json', [LEVELHOOK_HEADER]: 'v1' });
    const body = JSON.parse((await rest(received)).join('')) as unknown;
    expect(body).toEqual({ version: 'v1', results: names.map(() => done) });
  });

  it('of several keys ends before its deadline, with unknown for runs that have not ended', async () => {
    const startedAt = Date.now();
    const received = await post(
      async ({ name }, { signal }) => {
        if (name === 'fast') return;
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        await new Promise(() => {});
      },
      triggerOf(['hangs', 'fast'], { remainingSeconds: 2 }),
    );
    expect(linesIn(await next(received))).toEqual([line(11, done)]);
    const unknown = { status: 'unknown', message: 'the run did not end before the deadline' };
    expect(linesIn((await rest(received)).join(''))).toEqual([line(10, unknown)]);
    // Not before the run's time is over, a tenth before the deadline: a timer is never early.
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(1798);
  });

  it('of several keys is over when the caller hangs up between two lines', async () => {
    const over = Promise.withResolvers<void>();
    const received = await post(
      async ({ name }, { signal }) => {
        if (name === 'fast') return;
        signal.addEventListener('abort', () => over.resolve(), { once: true });
        await over.promise;
      },
      triggerOf(['slow', 'fast']),
    );
    expect(linesIn(await next(received))).toEqual([line(11, done)]);
    received.hangUp();
    await over.promise;
  });

  it('of one key is over when the caller hangs up', async () => {
    const [begun, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const server = serverOf(
      appOf(async (_request, { signal }) => {
        begun.resolve();
        signal.addEventListener('abort', () => over.resolve(), { once: true });
        await over.promise;
      }),
    );
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const text = JSON.stringify(triggerOf(['a']));
    const signed = await sign([await importSecret(secret)], { id: 'id', nowMs: Date.now(), body: text });
    const { port } = server.address() as AddressInfo;
    const sent = httpRequest({ port, host: '127.0.0.1', method: 'POST', headers: { ...signed } });
    sent.on('error', () => {});
    sent.end(text);
    await begun.promise;
    sent.destroy();
    await over.promise;
  });

  it('may say in a line that a run goes on, without a 202', async () => {
    const received = await post(
      async ({ name }) => (name === 'long' ? { completesWithinSeconds: 60 } : undefined),
      triggerOf(['long', 'short'], { callback }),
    );
    expect(received.status).toBe(200);
    const lines = linesIn((await rest(received)).join(''));
    expect(lines).toHaveLength(2);
    expect(lines).toContainEqual(line(10, { status: 'accepted', withinSeconds: 60 }));
  });

  it.each<[string, number, unknown, Sending]>([
    ['another secret', 401, triggerOf(['a', 'b']), { secret: generateSecret() }],
    ['another version', 400, { ...triggerOf(['a', 'b']), version: 'v2' }, {}],
    ['a deadline that has passed', 409, triggerOf(['a', 'b'], { deadline: new Date(0).toISOString() }), {}],
    ['a deadline that is no time', 409, triggerOf(['a', 'b'], { deadline: 'soon' }), {}],
    ['more than 4 MiB', 413, 'x'.repeat(4 * 1024 * 1024 + 1), {}],
  ])('with %s is refused with %i and a reason, whole', async (_what, status, body, sending) => {
    const received = await post(
      () => {
        throw new Error('nothing may run');
      },
      body,
      sending,
    );
    expect(received.status).toBe(status);
    expect(received.headers).toMatchObject({ [LEVELHOOK_HEADER]: 'v1' });
    expect(JSON.parse((await rest(received)).join(''))).toEqual({ error: expect.any(String) });
  });

  it('is one thing, and a question for the description or another path is another', async () => {
    const described = await post(async () => {}, '', { method: 'GET' });
    expect(JSON.parse((await rest(described)).join(''))).toMatchObject({ name: 'web', maxBatch: 10 });
    expect((await post(async () => {}, triggerOf(['a']), { path: '/elsewhere' })).status).toBe(404);
    // A query changes nothing.
    expect((await post(async () => {}, triggerOf(['a']), { path: '/?a=b' })).status).toBe(200);
  });
});

it('a review over Node may have 9 MiB, and one that is not signed goes to the app', async () => {
  const pods = resource('v1', 'Pod');
  const sizes = validatingWebhook({ name: 'sizes', for: pods }).validate(() => {});
  const web = controller({ name: 'web', for: pods, webhooks: [sizes] }).reconcile(async () => {});
  const server = createTriggerServer(
    createFunctionApp(web, { secrets: [secret], logger: silentLogger, unsignedReviews: true }),
  );
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const reviewOf = (bytes: number) => ({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: 'u',
      kind: { group: '', version: 'v1', kind: 'Pod' },
      resource: { group: '', version: 'v1', resource: 'pods' },
      operation: 'CREATE',
      userInfo: { username: 'alice' },
      object: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x'.repeat(bytes) } },
    },
  });
  const send = async (bytes: number) => {
    const body = JSON.stringify({
      version: 'v1',
      controller: 'web',
      webhook: 'sizes',
      deadline: new Date(Date.now() + 10_000).toISOString(),
      remainingSeconds: 10,
      cache: { views: {} },
      cacheAgeSeconds: {},
      review: reviewOf(bytes),
    });
    const signed = await sign([await importSecret(secret)], { id: 'id', nowMs: Date.now(), body });
    const answer = await fetch(url, { method: 'POST', headers: { ...signed }, body });
    return [answer.status, await answer.json()];
  };
  const response = {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    response: { uid: 'u', allowed: true },
  };
  expect(await send(8 * 2 ** 20)).toEqual([200, response]);
  expect(await send(9 * 2 ** 20)).toEqual([413, { error: 'the body is larger than 9 MiB' }]);
  const body = JSON.stringify(reviewOf(1));
  const unsigned = await fetch(`${url}/webhooks/sizes?timeout=10s`, { method: 'POST', body });
  expect([unsigned.status, await unsigned.json()]).toEqual([200, response]);
});
