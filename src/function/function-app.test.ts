import * as fc from 'fast-check';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { type LogFields, type Logger, resource, silentLogger, UserError } from '../core/index.ts';
import {
  generateSecret,
  importSecret,
  LEVELHOOK_HEADER,
  type RequestResult,
  sign,
  type Trigger,
  type TriggerRequest,
} from '../contract/index.ts';
import { descriptionSchema } from '../contract/description-schema.ts';
import type { ApiTransport, ApiTransportRequest } from './api-transport.ts';
import { type Context, type Controller, controller, type Reconcile } from './controller.ts';
import { DeadlineError, RetryAfterError, TerminalError } from './errors.ts';
import { createFunctionApp, type FunctionAppOptions } from './function-app.ts';
import { and, annotationChanged, cel, generationChanged, labelChanged, labelsMatch, not, or } from './source.ts';

const pods = resource('v1', 'Pod');
const sets = resource('apps/v1', 'ReplicaSet');
const secret = generateSecret();
const request: TriggerRequest = { namespace: 'a', name: 'b', attempt: 3, run: 7, reasons: [{ type: 'initial' }] };

let lines: LogFields[];
let sent: ApiTransportRequest[];
let answer: (request: ApiTransportRequest) => { status: number; body: string; retryAfter?: string };

beforeEach(() => {
  lines = [];
  sent = [];
  answer = () => ({ status: 500, body: '' });
});

function logging(bound: LogFields = {}): Logger {
  const note = (fields: LogFields, msg: string): unknown => lines.push({ ...bound, ...fields, msg });
  return { ...silentLogger, warn: note, error: note, child: (fields) => logging({ ...bound, ...fields }) };
}

const transport: ApiTransport = async (given) => {
  sent.push(given);
  return answer(given);
};

function appOf(run: Reconcile | Controller, options: Partial<FunctionAppOptions> = {}) {
  const built = typeof run === 'function' ? controller({ name: 'web', for: sets, owns: [pods] }).reconcile(run) : run;
  const cache = () => ({
    get: async () => undefined,
    list: async () => ({ items: [], version: '1' }),
    secondsUnchanged: async () => undefined,
  });
  return createFunctionApp(built, {
    secrets: [secret],
    cache,
    api: transport,
    logger: logging(),
    logLines: 0,
    ...options,
  });
}
type App = ReturnType<typeof appOf>;

function trigger(rest: Partial<Trigger> = {}): Trigger {
  return {
    version: 'v1',
    controller: 'web',
    deadline: new Date(Date.now() + 15_000).toISOString(),
    remainingSeconds: 15,
    cache: { views: { 'v1/Pod': [{ prefix: 'prefix' }] } },
    requests: [request],
    ...rest,
  };
}

interface Sending {
  /** Default: a new one. */
  readonly id?: string;
  readonly method?: 'GET' | 'POST';
  readonly secrets?: readonly string[];
  readonly nowMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

async function send(app: App, body: unknown, sending: Sending = {}): Promise<Response> {
  const { method = 'POST', secrets = [secret], nowMs = Date.now(), headers = {}, signal } = sending;
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const keys = await Promise.all(secrets.map(importSecret));
  const signed = await sign(keys, { id: sending.id ?? crypto.randomUUID(), nowMs, body: text });
  return app.request('/', {
    method,
    headers: { ...signed, ...headers },
    ...(method === 'POST' ? { body: text } : {}),
    ...(signal ? { signal } : {}),
  });
}

async function resultsOf(app: App, given: Partial<Trigger> = {}): Promise<RequestResult[]> {
  const response = await send(app, trigger(given));
  expect(response.status).toBe(200);
  return ((await response.json()) as { results: RequestResult[] }).results;
}
const resultOf = async (run: Reconcile, given: Partial<Trigger> = {}) => (await resultsOf(appOf(run), given))[0];

describe('a run writes in the namespace of its key alone', () => {
  const namespaces = resource('v1', 'Namespace', { namespaced: false });
  const own = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'a', uid: 'u', resourceVersion: '1' } };

  it.each<[string, Reconcile]>([
    ['another namespace', (_, { api }) => api.delete(pods, { namespace: 'elsewhere', name: 'x' })],
    ['the Namespace itself', (_, { api }) => api.delete(namespaces, { name: 'a' })],
    ["the Namespace's status", async (_, { api }) => void (await api.replace(namespaces, own, 'status'))],
  ])('unless the controller may write to %s: nothing is sent, and the run fails', async (_, elsewhere) => {
    const [result] = await resultsOf(appOf(elsewhere));
    expect(result).toMatchObject({ message: expect.stringContaining('the namespace of its key alone') });
    expect(result?.status).not.toBe('ok');
    expect(sent).toEqual([]);
    const wide = controller({ name: 'web', for: sets, writesAcrossNamespaces: true });
    await resultsOf(appOf(wide.reconcile(elsewhere)));
    expect(sent).toHaveLength(1);
  });
});

it.each([
  ['00-1b4e28ba2fa141d2883fb9a761bde3fb-883fb9a761bde3fb-01', '1b4e28ba2fa141d2883fb9a761bde3fb'],
  [undefined, undefined],
])('a run whose trigger has the traceparent %s passes it on, and names its trace in the log', async (given, trace) => {
  const app = appOf(async (_, { api, log }) => {
    log.warn({}, 'here');
    await api.delete(pods, { namespace: 'a', name: 'x' }).catch(() => {});
  });
  await send(app, trigger(), given === undefined ? {} : { headers: { traceparent: given } });
  expect(sent.map(({ traceparent }) => traceparent)).toEqual([given]);
  expect(lines.find(({ msg }) => msg === 'here')?.['trace_id']).toBe(trace);
});

describe('a function app refuses', () => {
  const never: Reconcile = () => {
    throw new Error('nothing may run');
  };

  it.each<[string, Sending]>([
    ['another secret', { secrets: [generateSecret()] }],
    ['no signature', { headers: { 'webhook-signature': '' } }],
    ['a signature of something else', { headers: { 'webhook-id': 'other' } }],
    ['an old message', { nowMs: Date.now() - 302_000 }],
    ['a message from the future', { nowMs: Date.now() + 400_000 }],
  ])('with 401 %s, POST or GET', async (_what, sending) => {
    const app = appOf(never);
    for (const method of ['POST', 'GET'] as const) {
      const response = await send(app, method === 'GET' ? '' : trigger(), { ...sending, method });
      expect(response.status).toBe(401);
      expect(Object.keys((await response.json()) as object)).toEqual(['error']);
    }
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatchObject({ controller: 'web', msg: 'a request was refused' });
  });

  it('with 401 a body that was changed on its way, before anything parses it', async () => {
    const app = appOf(never);
    const keys = [await importSecret(secret)];
    const signed = await sign(keys, { id: 'msg', nowMs: Date.now(), body: JSON.stringify(trigger()) });
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string(), fc.json()), async (body) => {
        const response = await app.request('/', { method: 'POST', headers: { ...signed }, body });
        expect(response.status).toBe(401);
      }),
    );
  });

  it.each<[string, unknown]>([
    ['what is no JSON', 'garbage'],
    ['another version', { ...trigger(), version: 'v2' }],
    ['a trigger without requests', { ...trigger(), requests: [] }],
  ])('with 400 %s', async (_what, body) => {
    const response = await send(appOf(never), body);
    expect(response.status).toBe(400);
    expect(((await response.json()) as { error: string }).error).toMatch(/trigger/);
  });

  it('with 413 a body of more than 4 MiB, and reads no signature', async () => {
    const response = await send(appOf(never), 'x'.repeat(4 * 1024 * 1024 + 1), { secrets: [generateSecret()] });
    expect(response.status).toBe(413);
  });

  it('with 500 everything while its secrets are wrong, without telling them, and asks for them again', async () => {
    const wrong = 'whsec_hushhushhushhushhushhushhush*';
    const asked = [[wrong], [], [secret]];
    const app = appOf(async () => {}, { secrets: () => asked.shift() ?? [secret] });
    for (const error of [/base64/, /at least one/]) {
      const response = await send(app, trigger());
      const text = await response.text();
      expect(response.status).toBe(500);
      // The sender has not signed, so only the log has the reason.
      expect(text).toBe('{"error":"internal error"}');
      expect(lines.at(-1)?.['error']).toMatch(error);
      expect(text + JSON.stringify(lines)).not.toContain('hushhush');
    }
    expect((await send(app, trigger())).status).toBe(200);
    expect((await send(app, trigger())).status).toBe(200);
    expect(asked).toHaveLength(0);
  });

  it.each<[string, readonly string[], RegExp]>([
    ['no secret', [], /at least one signing secret/],
    ['a malformed secret', [secret, 'hushhush'], /secret 2 of 2 is malformed: a signing secret begins with "whsec_"/],
    ['an empty one', [''], /secret 1 of 1/],
  ])('to be made with %s', (_what, secrets, error) => {
    const make = () => appOf(never, { secrets });
    expect(make).toThrow(UserError);
    expect(make).toThrow(error);
    expect(make).not.toThrow(/hushhush/);
  });

  it('with 404 or 405 every other path and method', async () => {
    const app = appOf(never);
    expect((await app.request('/elsewhere')).status).toBe(404);
    expect((await send(app, trigger(), { method: 'POST', headers: {} })).status).toBe(200);
    expect(lines.at(-1)).toMatchObject({ error: 'nothing may run' });
  });
});

describe('a function app answers', () => {
  it('a trigger signed with either secret while one is being rotated', async () => {
    const other = generateSecret();
    const app = appOf(async () => {}, { secrets: async () => [other, secret] });
    for (const secrets of [[other], [secret], [generateSecret(), other]]) {
      expect((await send(app, trigger(), { secrets })).status).toBe(200);
    }
  });

  it('with what its controller is, to a signed GET', async () => {
    const response = await send(
      appOf(async () => {}),
      '',
      { method: 'GET' },
    );
    expect(await response.json()).toEqual({
      version: 'v1',
      name: 'web',
      for: { apiVersion: 'apps/v1', kind: 'ReplicaSet' },
      owns: [{ apiVersion: 'v1', kind: 'Pod' }],
      watches: [],
      reads: [],
      indexes: [],
      concurrency: 1,
      timeoutSeconds: 15,
    });
  });

  it('with what it says of its sources, and the same of a bare resource as of a source that says nothing', async () => {
    const [web, pod] = [resource('example.com/v1', 'Web'), resource('v1', 'Pod')];
    const node = resource('v1', 'Node', { namespaced: false });
    const predicate = and(or(generationChanged, not(labelsMatch({ matchLabels: { a: 'b' } }))), cel('true'));
    const declared = controller({
      name: 'web',
      for: { resource: web, namespaces: ['n'], labelSelector: { matchLabels: { a: 'b' } }, predicate: labelChanged },
      owns: [pod, { resource: pod }, { resource: pod, owner: 'any', predicate }],
      watches: [{ resource: node, predicate: annotationChanged, map: { by: 'all' } }],
      reads: [node, { resource: pod, namespaces: ['n'] }],
    }).reconcile(async () => {});
    const description = (await (await send(appOf(declared), '', { method: 'GET' })).json()) as object;
    const [webKind, podKind, nodeKind] = [web, pod, node].map(({ apiVersion, kind }) => ({ apiVersion, kind }));
    expect(description).toMatchObject({
      for: {
        ...webKind,
        namespaces: ['n'],
        labelSelector: { matchLabels: { a: 'b' } },
        predicate: { changed: 'labels' },
      },
      owns: [
        podKind,
        podKind,
        {
          ...podKind,
          owner: 'any',
          predicate: {
            all: [
              { any: [{ changed: 'generation' }, { not: { labelSelector: { matchLabels: { a: 'b' } } } }] },
              { cel: 'true' },
            ],
          },
        },
      ],
      watches: [{ ...nodeKind, predicate: { changed: 'annotations' }, map: { by: 'all' } }],
      reads: [nodeKind, { ...podKind, namespaces: ['n'] }],
    });
    // The gateway accepts it unchanged.
    expect(descriptionSchema.parse(description)).toEqual(description);
  });

  it('a request with its key, and with the reasons that the run was given', async () => {
    const given: unknown[] = [];
    const response = await send(
      appOf(async (request, { signal }) => {
        given.push(request, signal.aborted);
      }),
      trigger({ requests: [request, { ...request, name: 'node', namespace: undefined } as unknown as TriggerRequest] }),
    );
    expect(response.headers.get(LEVELHOOK_HEADER)).toBe('v1');
    expect(await response.json()).toEqual({
      version: 'v1',
      results: [
        { status: 'done', writes: [] },
        { status: 'done', writes: [] },
      ],
    });
    const reasons = [{ type: 'initial' }];
    expect(given).toEqual([
      { namespace: 'a', name: 'b', attempt: 3, reasons },
      false,
      { name: 'node', attempt: 3, reasons },
      false,
    ]);
  });

  it('a request with the last lines of its log and the stack of its error, as many as are asked for', async () => {
    const run: Reconcile = async (_request, { log }) => {
      for (const text of ['one', 'two', 'three']) log.info({ text }, 'looks');
      throw new Error('broken');
    };
    const resultOf = async (options: Partial<FunctionAppOptions>) => {
      const response = await send(appOf(run, options), trigger());
      return ((await response.json()) as { results: RequestResult[] }).results[0];
    };
    expect(await resultOf({ logLines: 2 })).toEqual({
      status: 'error',
      message: 'broken',
      writes: [],
      log: [
        expect.stringMatching(/^\+\d+ ms info looks \{"text":"two"\}$/),
        expect.stringMatching(/^\+\d+ ms info looks \{"text":"three"\}$/),
      ],
      stack: expect.stringMatching(/^Error: broken\n {4}at /),
    });
    expect(await resultOf({ logLines: 0 })).toEqual({ status: 'error', message: 'broken', writes: [] });
    expect(() => appOf(run, { logLines: 101 })).toThrow(UserError);
  });

  it('several requests with a result for each, in their order, run at the same time', async () => {
    const running: string[] = [];
    const all = Promise.withResolvers<void>();
    const requests = ['one', 'two', 'three', 'four'].map((name, at) => ({ ...request, name, run: at }));
    const results = await resultsOf(
      appOf(async ({ name }, { api }) => {
        running.push(name);
        if (running.length === requests.length) all.resolve();
        await all.promise;
        if (name === 'two') throw new Error('broken');
        if (name === 'three') return { requeueAfterSeconds: 5 };
        if (name === 'four') {
          answer = () => ({
            status: 200,
            body: JSON.stringify({ metadata: { name, uid: 'u', resourceVersion: '9' } }),
          });
          await api.create(pods, { metadata: { namespace: 'a', name } });
        }
      }),
      { requests },
    );
    expect(results).toEqual([
      { status: 'done', writes: [] },
      { status: 'error', message: 'broken', writes: [] },
      { status: 'done', requeueAfterSeconds: 5, writes: [] },
      { status: 'done', writes: [{ apiVersion: 'v1', kind: 'Pod', name: 'four', uid: 'u', resourceVersion: '9' }] },
    ]);
  });

  it.each<[string, unknown, object]>([
    ['an error', new Error('m', { cause: new Error('why') }), { status: 'error', message: 'm: why' }],
    ['a TerminalError', new TerminalError('never'), { status: 'terminal', message: 'never' }],
    [
      'a RetryAfterError',
      new RetryAfterError('later', 90),
      { status: 'error', message: 'later', retryAfterSeconds: 90 },
    ],
    ['a text', 'just text', { status: 'error', message: 'just text' }],
    ['nothing', undefined, { status: 'error', message: 'undefined' }],
    ['an object', { toString: () => 'odd' }, { status: 'error', message: 'odd' }],
  ])('%s that was thrown', async (_what, thrown, result) => {
    expect(
      await resultOf(async () => {
        throw thrown;
      }),
    ).toEqual({ ...result, writes: [] });
    expect(lines).toMatchObject([{ controller: 'web', key: 'a/b', run: 7, msg: 'reconcile failed' }]);
  });

  it('what was thrown before the first await', async () => {
    const run = (() => {
      throw new Error('at once');
    }) as Reconcile;
    expect(await resultOf(run)).toMatchObject({ status: 'error', message: 'at once' });
  });
});

describe('a run that goes on', () => {
  const callback = { url: 'https://gateway.example.com/cache/callbacks/web', token: 't', maxSeconds: 600 };

  it('is accepted by 202, and its run token says all that is needed to tell its outcome', async () => {
    const tokens: unknown[] = [];
    const app = appOf(async ({ name }, { runToken }) => {
      tokens.push(runToken);
      return name === 'b' ? { completesWithinSeconds: 60 } : undefined;
    });
    const requests = [request, { name: 'node', attempt: 1, run: 8, reasons: [] }];
    const response = await send(app, trigger({ callback, requests }));
    expect(response.status).toBe(202);
    expect(response.headers.get(LEVELHOOK_HEADER)).toBe('v1');
    expect(await response.json()).toEqual({
      version: 'v1',
      results: [
        { status: 'accepted', withinSeconds: 60 },
        { status: 'done', writes: [] },
      ],
    });
    expect(tokens).toEqual([
      { ...callback, controller: 'web', namespace: 'a', name: 'b', run: 7, writesTo: 'a' },
      { ...callback, controller: 'web', name: 'node', run: 8 },
    ]);
  });

  it.each<[string, number, Partial<Trigger>, RegExp]>([
    ['a gateway that names no callback', 60, {}, /completesWithinSeconds is 60: there is no run token/],
    ['longer than it may', 601, { callback }, /601: it must lie between 1 and 600/],
    ['no time', 0, { callback }, /0: it must lie/],
    ['what is no number', Number.NaN, { callback }, /NaN: it must lie/],
  ])('is not, with %s', async (_what, completesWithinSeconds, given, message) => {
    const response = await send(
      appOf(async () => ({ completesWithinSeconds })),
      trigger(given),
    );
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      results: [{ status: 'terminal', message: expect.stringMatching(message) }],
    });
  });

  it('and batches are part of what a controller says of itself, when it does', async () => {
    const web = controller({ name: 'web', for: sets, maxBatch: 10, callbackSeconds: 600 }).reconcile(async () => {});
    const response = await send(appOf(web), '', { method: 'GET' });
    expect(await response.json()).toMatchObject({ maxBatch: 10, callbackSeconds: 600 });
  });
});

describe('a trigger that comes again', () => {
  it('is not run a second time: 409', async () => {
    let runs = 0;
    const app = appOf(async () => void (runs += 1));
    const body = trigger();
    expect((await send(app, body, { id: 'once' })).status).toBe(200);
    const again = await send(app, body, { id: 'once' });
    expect(again.status).toBe(409);
    expect(again.headers.has(LEVELHOOK_HEADER)).toBe(true);
    expect((await send(app, body, { id: 'twice' })).status).toBe(200);
    expect(runs).toBe(2);
  });

  it('is not run beside the first, which is under way', async () => {
    let runs = 0;
    const app = appOf(async () => {
      runs += 1;
      await new Promise((resolve) => setTimeout(resolve, 50));
    });
    const answers = await Promise.all([1, 2, 3].map(() => send(app, trigger(), { id: 'once' })));
    // Signatures are checked in threads, so any of them may come first.
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409, 409]);
    expect(runs).toBe(1);
  });

  it('is not run after its deadline either, when it is no longer remembered', async () => {
    const app = appOf(() => {
      throw new Error('nothing may run');
    });
    const late = trigger({ deadline: new Date(Date.now() - 1).toISOString() });
    expect((await send(app, late)).status).toBe(409);
  });

  it('but may be asked what it is as often as one likes', async () => {
    const app = appOf(async () => {});
    for (const method of ['GET', 'GET'] as const)
      expect((await send(app, '', { id: 'same', method })).status).toBe(200);
  });
});

describe('a write without an acknowledgement', () => {
  const create: Reconcile = async (_request, { api }) => {
    await api.create(pods, { metadata: { namespace: 'a', name: 'x' } }).catch(() => {});
  };
  const status =
    (code: number, reason: string, message = '') =>
    () => ({
      status: code,
      body: JSON.stringify({ kind: 'Status', code, reason, message }),
    });

  it.each<[string, typeof answer]>([
    [
      'whose connection broke',
      () => {
        throw new Error('socket hang up');
      },
    ],
    ['that timed out at the apiserver', status(504, 'Timeout')],
    ["that met etcd's own timeout", status(500, 'InternalError', 'etcdserver: request timed out')],
    ['that a proxy answered', () => ({ status: 502, body: '<html>' })],
    ['whose answer was cut', () => ({ status: 201, body: '{"metadata"' })],
  ])('%s leaves the outcome unknown, even when the author passes over it', async (_what, given) => {
    answer = given;
    expect(await resultOf(create)).toEqual({
      status: 'unknown',
      message: expect.stringMatching(/^POST \/api\/v1\/namespaces\/a\/pods\S* may have taken effect: /),
    });
    expect(
      await resultOf(async (...args) => {
        await create(...args);
        throw new TerminalError('never');
      }),
    ).toMatchObject({ status: 'unknown' });
  });

  it.each<[string, typeof answer]>([
    ['that was refused', status(409, 'Conflict')],
    ['that no webhook could judge', status(500, 'InternalError', 'failed calling webhook "a.b.c"')],
    ['that came too early', status(503, 'ServiceUnavailable')],
    [
      'that was not delivered',
      () => {
        throw new TypeError('fetch failed', { cause: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }) });
      },
    ],
  ])('%s does not', async (_what, given) => {
    answer = given;
    expect(await resultOf(create)).toEqual({ status: 'done', writes: [] });
  });

  it('of a kind that is not cached does not either: no run could miss it there', async () => {
    answer = () => ({ status: 502, body: '' });
    expect(
      await resultOf(async (_request, { api }) => {
        await api.create(sets, { metadata: { namespace: 'a', name: 'x' } }).catch(() => {});
      }),
    ).toMatchObject({ status: 'done' });
  });

  it('does so for a kind that is encrypted in Redis, and not for one that is not cached', async () => {
    answer = () => ({ status: 504, body: '' });
    const secrets = resource('v1', 'Secret');
    const write: Reconcile = async (_request, { api }) => {
      await api.create(secrets, { metadata: { namespace: 'a', name: 'x' } }).catch(() => {});
    };
    const outcome = async (cache: Trigger['cache']): Promise<unknown> =>
      (await send(appOf(write), trigger({ cache }))).json();
    expect(await outcome({ views: {}, encrypted: { 'v1/Secret': '*' } })).toMatchObject({
      results: [{ status: 'unknown' }],
    });
    expect(await outcome({ views: {} })).toMatchObject({ results: [{ status: 'done' }] });
  });

  it('that was a read does not', async () => {
    answer = () => ({ status: 502, body: '' });
    expect(
      await resultOf(async (_request, { api }) => {
        await api.get(pods, { namespace: 'a', name: 'x' }).catch(() => {});
      }),
    ).toMatchObject({ status: 'done' });
  });
});

describe('a gateway of a later version', () => {
  it('may send fields and reasons that this function does not know', async () => {
    const reasons = [{ type: 'rescheduled', later: 1 }] as unknown as TriggerRequest['reasons'];
    const later = { later: { a: 1 }, requests: [{ ...request, reasons, later: true }] };
    const cache = { views: { 'v1/Pod': [{ prefix: 'p', later: 1 }] }, later: 1 };
    const given: unknown[] = [];
    const app = appOf(async (each) => void given.push(each));
    expect((await send(app, trigger({ ...later, cache }))).status).toBe(200);
    expect(given).toMatchObject([{ namespace: 'a', name: 'b', reasons }]);
  });

  it('that speaks another contract is told which one this function speaks, as the function itself', async () => {
    const response = await send(
      appOf(async () => {}),
      { ...trigger(), version: 'v2' },
    );
    expect(response.status).toBe(400);
    expect(response.headers.get(LEVELHOOK_HEADER)).toBe('v1');
    expect(await response.json()).toEqual({ error: 'the trigger speaks contract v2, this function v1' });
  });
});

describe('the end of a run', () => {
  const event = resource('v1', 'Event');

  it('waits for the work that it was told of, and its writes count', async () => {
    answer = () => ({
      status: 201,
      body: JSON.stringify({ metadata: { namespace: 'a', name: 'x', uid: 'u', resourceVersion: '5' } }),
    });
    const result = await resultOf(async (_, { api }) => {
      api.waitUntil(api.create(pods, { metadata: { namespace: 'a', name: 'x' } }));
    });
    expect(result).toMatchObject({ status: 'done', writes: [{ kind: 'Pod', resourceVersion: '5' }] });
  });

  it('cuts off a write that nobody waits for: the outcome is unknown, if the kind is cached', async () => {
    const never: ApiTransport = () => new Promise(() => {});
    const leaving = (kind: typeof pods) =>
      appOf(async (_, { api }) => void api.create(kind, { metadata: { namespace: 'a', name: 'x' } }), { api: never });
    expect(await resultsOf(leaving(pods))).toMatchObject([
      { status: 'unknown', message: expect.stringContaining('the run ended before the answer came') },
    ]);
    expect(await resultsOf(leaving(event))).toMatchObject([{ status: 'done' }]);
  });

  it('is logged with the trigger`s id, which the gateway logs too', async () => {
    let id: string | undefined;
    await resultOf(async (_, { reconcileId }) => {
      id = reconcileId;
      throw new Error('on purpose');
    });
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(lines).toMatchObject([{ msg: 'reconcile failed', controller: 'web', reconcileID: id }]);
  });
});

describe('the deadline of a run', () => {
  it('is a little earlier in a batch: one that does not end takes no result with it, and sends nothing more', async () => {
    const refused: unknown[] = [];
    const startedAt = Date.now();
    const results = await resultsOf(
      appOf(async ({ name }, { api, signal }) => {
        if (name === 'done') return;
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        await api.create(pods, { metadata: { namespace: 'a', name } }).catch((error: unknown) => refused.push(error));
        await new Promise(() => {});
      }),
      { remainingSeconds: 2, requests: ['hangs', 'done', 'hangs'].map((name, run) => ({ ...request, name, run })) },
    );
    const hung = { status: 'unknown', message: 'the run did not end before the deadline' };
    expect(results).toEqual([hung, { status: 'done', writes: [] }, hung]);
    // Before the gateway's deadline, by its clock: a timer is never early.
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(1798);
    expect(refused).toMatchObject([{ name: 'DeadlineError' }, { name: 'DeadlineError' }]);
    expect(sent).toEqual([]);
  });

  it.each<[string, Partial<Trigger>]>([
    ['the time left', { remainingSeconds: 0.05 }],
    ['the absolute time', { deadline: new Date(Date.now() + 1000).toISOString() }],
  ])('is %s when that comes first: the signal is aborted, and nothing more is sent', async (_which, given) => {
    const fresh = given.deadline ? { deadline: new Date(Date.now() + 1000).toISOString() } : given;
    const result = await resultOf(async (_request, { api, signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
      await api.create(pods, { metadata: { namespace: 'a', name: 'late' } });
    }, fresh);
    expect(result).toMatchObject({ status: 'error', message: 'the run is over: nothing more may be sent' });
    expect(sent).toEqual([]);
  });

  it('that has passed already lets nothing be sent', async () => {
    let error: unknown;
    await resultOf(
      async (_request, { api }) => {
        await api.get(pods, { namespace: 'a', name: 'x' }).catch((reason: unknown) => (error = reason));
      },
      { remainingSeconds: -1 },
    );
    expect(error).toBeInstanceOf(DeadlineError);
    expect(sent).toEqual([]);
  });

  it.each<[string, number]>([
    ['back', -5 * 3_600_000],
    ['ahead', 5 * 3_600_000],
  ])('does not move when the clock of the function is set %s during the run', async (_which, byMs) => {
    answer = () => ({ status: 201, body: JSON.stringify({ metadata: {} }) });
    const outcomes: string[] = [];
    const attempt = async (api: Context['api'], name: string): Promise<void> => {
      const end = await api.create(pods, { metadata: { namespace: 'a', name } }).then(
        () => 'sent',
        (error: unknown) => (error instanceof DeadlineError ? 'refused' : String(error)),
      );
      outcomes.push(`${name} ${end}`);
    };
    await resultOf(
      async (_request, { api, signal }) => {
        vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + byMs });
        await attempt(api, 'in-time');
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        await attempt(api, 'late');
      },
      { remainingSeconds: 2 },
    ).finally(() => vi.useRealTimers());
    expect(outcomes).toEqual(['in-time sent', 'late refused']);
  });

  it('also comes when the caller hangs up', async () => {
    const caller = new AbortController();
    let error: unknown;
    const app = appOf(async (_request, { api, signal }) => {
      caller.abort();
      expect(signal.aborted).toBe(true);
      await api.delete(pods, { namespace: 'a', name: 'x' }).catch((reason: unknown) => (error = reason));
    });
    await send(app, trigger(), { signal: caller.signal });
    expect(error).toBeInstanceOf(DeadlineError);
    expect(sent).toEqual([]);
  });
});
